"""A plan as files of a saved experiment, and the code and addresses in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from wirefault.core.errors import InputError
from wirefault.core.files import OUTPUT_FOLDER, read_shared
from wirefault.core.lab_folder import cassettes_folder
from wirefault.core.redaction import Redaction
from wirefault.experiments.assertions.on_arm import needs_users_code
from wirefault.experiments.assertions.registry import parse_assertion
from wirefault.experiments.experiment import Experiment, perturbed_name
from wirefault.experiments.index import PLAN, read_document
from wirefault.experiments.plan import PLAIN_RUN, ExperimentPlan, PlannedArm
from wirefault.experiments.planned_prompts import dump_prompts
from wirefault.history.writer import MAX_HISTORY_BYTES
from wirefault.judging.oracle.expect import expect_check
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import load_prompts
from wirefault.wiring.subject_spec import CommandSpec
from wirefault.wiring.wiring import dumped_wiring


class _StoredPlan(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An ``ExperimentPlan`` as a file: without the environment and its secrets; its prompts have files."""

    experiment: dict[str, Any]
    wiring: dict[str, Any]
    arms: tuple[PlannedArm, ...]
    subject: str = ""
    extent: int | None = None
    search: Mapping[str, Any] = {}


def plan_files(plan: ExperimentPlan, extent: int | None) -> dict[str, bytes]:
    """The plan and its prompts as files, by name.

    ``extent``: the episodes of each arm that are run until now; None: all.
    """
    experiment = plan.experiment.model_dump(mode="json", exclude_unset=True)
    redaction = Redaction(plan.configuration.environ)
    experiment["title"] = redaction.text(str(experiment.get("title", "")))
    wiring = redaction.value(plan.configuration.wiring.dump())
    stored = _StoredPlan(experiment, wiring, plan.arms, plan.subject, extent, plan.search)
    prompts = {
        prompts_name(perturbation): dump_prompts(of_arm)
        for perturbation, of_arm in {"": plan.prompts, **plan.perturbed}.items()
    }
    subject = plan.configuration.wiring.subject
    if isinstance(subject, CommandSpec) and subject.prompt == "none":  # its text is the command line
        prompts = {file: redaction.text(text, in_json=True) for file, text in prompts.items()}
    return {**{file: text.encode() for file, text in prompts.items()}, PLAN: json_bytes(stored)}


def read_plan(logs: Path, folder: Path, environ: Mapping[str, str]) -> tuple[ExperimentPlan, int | None]:
    """Return the plan in that folder, and the episodes of each arm that were run until then.

    Raises ``InputError`` if it is unreadable.
    """
    try:
        data = read_document(logs, folder / PLAN)
        wiring = dumped_wiring(data["wiring"])
        configurations: list[Configuration] = []

        def settings(_: type, chosen: Any) -> Settings:
            configurations.append(load_configuration(environ, chosen, wiring))
            return configurations[-1].settings

        stored, first = convert(data, _StoredPlan, dec_hook=settings), configurations[0]
        is_plain_run = [arm.name for arm in stored.arms] == [PLAIN_RUN]  # a file cannot have this arm
        experiment = (
            Experiment.model_construct(**stored.experiment)
            if is_plain_run
            else Experiment.model_validate(stored.experiment)
        )
        files = {
            name: folder / prompts_name(name) for name in ("", *(arm.perturbation for arm in stored.arms))
        }
        contents = {name: read_shared(logs, file, MAX_HISTORY_BYTES) for name, file in files.items()}
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"{folder / PLAN}: cannot be read: {' '.join(str(error).split())}") from None
    check = expect_check(wiring.links)
    prompts = {
        name: tuple(load_prompts(files[name], check_expect=check, content=content).entries)
        for name, content in contents.items()
    }
    plan = ExperimentPlan(
        experiment,
        first,
        prompts.pop(""),
        stored.arms,
        stored.subject,
        perturbed=prompts,
        search=stored.search,
    )
    return plan, stored.extent


def prompts_name(perturbation: str) -> str:
    return f"{perturbed_name('prompts', perturbation)}.json"


def json_bytes(value: Any) -> bytes:
    """Return the text of a document. msgspec's own would have null for infinity."""
    plain = to_builtins(value, enc_hook=Settings.model_dump)
    return (json.dumps(plain, ensure_ascii=False, indent=1) + "\n").encode()


def plan_code(plan: ExperimentPlan) -> tuple[object, ...]:
    """All commands, functions and addresses of a plan; empty values without any."""
    functions = [
        parse_assertion(entry).model_dump()
        for arm in plan.arms
        for entry in arm.assertions
        if needs_users_code(parse_assertion(entry))
    ]
    turns = sorted({prompt.next_turn.function for prompt in plan.prompts if prompt.next_turn})
    # a saved plan has no secrets, the file has; the file may be named by another path
    wiring = Redaction(plan.configuration.environ).value(plan.configuration.wiring.dump())
    return wiring.get("data"), wiring.get("folder"), plan.subject, functions, turns, _plan_reach(plan)


def _plan_reach(plan: ExperimentPlan) -> list[str]:
    """The servers that would receive the user's key, and the folders that would be written to.

    Those of the user's own environment are left out.
    """
    own = {"", plan.configuration.environ.get("MODEL_BASE_URL", "").rstrip("/")}
    own |= {Settings.model_fields["cassettes"].default, str(cassettes_folder())}
    own |= {str(Path(OUTPUT_FOLDER) / "state" / "cassettes")}  # the folder may have become a lab since
    own |= {plan.configuration.environ.get("CASSETTES", "")}
    return sorted(
        {reach for arm in plan.arms for reach in (arm.settings.model_base_url, arm.settings.cassettes)} - own
    )
