"""``wirefault run``: experiments, a wiring without a hypothesis, or prompts through a running lab."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import CommandWithProgram
from wirefault.cli.options import (
    SET,
    ChangeOptions,
    PromptsOptions,
    RunOptions,
    declared,
    is_named,
    part_of,
    setting_options,
    takes,
)
from wirefault.core.errors import USAGE, InputError, UserError
from wirefault.core.lab_folder import logs_folder
from wirefault.core.sockets import UI_PORT
from wirefault.settings.settings import SETTABLE
from wirefault.wiring.prompts import PromptsError

if TYPE_CHECKING:
    from wirefault.settings.configuration import Configuration

DEFAULT_WIRING = Path("wirefault.yaml")
MAX_LEVEL = 100.0
LEVEL_REPEATS = 10


def _levels(context: click.Context, parameter: click.Parameter, value: str | None) -> list[float]:
    if value is None:
        return []
    try:
        levels = [float(word) for word in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"must be numbers separated by commas, not {value}") from None
    if not all(0 < level <= MAX_LEVEL for level in levels):
        raise click.BadParameter(f"each must be above 0 and at most {MAX_LEVEL:g}, not {value}")
    return sorted(set(levels))


@dataclass(frozen=True)
class RunChoices:
    """Which of the ways of running, and the options of one of them alone."""

    links: tuple[str, ...] = declared(
        (),
        "Agent",
        "Add a link, or change the upstream of one; its address is in NAME_URL. Repeatable.",
        "--link",
        metavar="NAME=URL[,DIALECT]",
    )
    lab: bool = declared(False, "Agent", "Send the prompts through the lab that is up in this folder.")
    levels: list[float] = declared(
        None,
        "Faults",
        "Run an experiment with its fault probabilities multiplied by these factors, such as 0.1,0.5,1,2;"
        " show the last level at which its hypothesis held and the first at which it deviated;"
        f" {LEVEL_REPEATS} repeats by default.",
        metavar="L,L,...",
        type=str,
        callback=_levels,
    )
    resume: str | None = declared(
        None,
        "Other",
        "Resume an interrupted experiment; finished episodes are kept. Name its FILE, too, if another user"
        " recorded it.",
        metavar="ID|latest",
    )
    again: str | None = declared(
        None, "Other", "Run a saved experiment again, with the same draws.", metavar="ID|latest"
    )
    episodes: tuple[str, ...] = declared(
        (), "Other", "With --again: run only this episode. Repeatable.", "--episode", metavar="ID|N"
    )
    arms: tuple[str, ...] = declared(
        (), "Other", "With --again: run only this arm and the controls. Repeatable.", "--arm", metavar="NAME"
    )
    dry_run: bool = declared(False, "Output", "Show the plan, as wirefault plan does; run nothing.")


# the parameters that each way of running accepts
_OF_LAB = frozenset({"toxiproxy", "out", "workers"})
_OF_ARMS = _OF_LAB | {"engine", "verbose", "retry_invalid", "as_json"}
_PROMPTS, _CHANGES = (frozenset(part_of(each).names) for each in (PromptsOptions, ChangeOptions))
_OF_PROMPTS = _PROMPTS | {"subject", "verbose", "as_json", "fail_on", *SETTABLE}
_TAKEN: Mapping[str, frozenset[str]] = {
    "--resume": _OF_ARMS | {"resume", "targets", "fail_on"},
    "--again": _OF_ARMS | {"again", "episodes", "arms", "targets", "fail_on"},
    "--lab": _OF_PROMPTS | {"lab"},
    "an experiment": _OF_ARMS
    | _CHANGES
    | {"targets", "filters", "recursive", "levels", "dry_run", "fail_fast", "junit", "output", "reports"}
    | {"tags", *SETTABLE},
    "a wiring": _OF_PROMPTS | _OF_LAB | {"targets", "links", "program", "charts", "playbooks"},
}


@click.command(
    "run",
    cls=CommandWithProgram,
    brief=(
        *("texts", "file", "only", "subject", "links", "lab"),
        *("seed", "faults", "levels", "resume", "again", "episodes", "filters", SET),
        *("repeats", "until_decided", "max_time", "max_cost", "workers"),
        *("dry_run", "fail_on", "out", "as_json", "junit", "reports"),
    ),
    examples=(
        "wirefault run experiments/lost-replies.yaml",
        'wirefault run --link shop=http://127.0.0.1:9000 --prompt "Any news?" -- ./my-agent {prompt}',
        "wirefault run --resume latest",
        "wirefault run --again latest --episode 3",
    ),
)
@click.argument(
    "targets",
    metavar="[FILE|DIR|MODULE:NAME]... [-- COMMAND]",
    nargs=-1,
    type=click.Path(path_type=Path),
)
@takes(prompts=PromptsOptions, own=RunChoices, change=ChangeOptions, how=RunOptions)
@setting_options
@click.pass_context
def run_command(
    context: click.Context,
    /,
    targets: tuple[Path, ...],
    program: tuple[str, ...],
    settings: Mapping[str, str],
    prompts: PromptsOptions,
    own: RunChoices,
    change: ChangeOptions,
    how: RunOptions,
) -> None:
    """Run experiments to their verdict, or a wiring without a hypothesis.

    A target is an experiment's file, a folder of them, experiments in Python (FILE.py, FILE.py:NAME or
    MODULE:NAME) or a wiring file; without one, ./wirefault.yaml is run. COMMAND, after --, is the agent: it
    is run for each prompt, and {prompt} in it is the prompt. With --lab the prompts go through the lab that
    is up. The exit code is the verdict: 0 held, 1 deviated, 2 unknown; without a hypothesis 1 for a finding
    (see --fail-on), 2 if none of its faults is known to have been injected.
    """
    if own.resume or own.again:
        sys.exit(_run_saved(context, own, how, targets))
    if own.lab:
        _check(context, "--lab")
        sys.exit(_run_in_lab_that_is_up(prompts, settings, how))
    wiring = _wiring_file(targets)
    if targets and wiring is None:
        _check(context, "an experiment")
        sys.exit(_run_experiments(targets, own, replace(how, changes=_changes(change, settings, own))))
    _check(context, "a wiring")
    sys.exit(_run_wiring(wiring, program, own.links, prompts, settings, how))


def _check(context: click.Context, way: str) -> None:
    """Raise ``InputError`` for an option that this way of running does not accept."""
    for param in context.command.params:
        name = param.name or ""
        if name in _TAKEN[way] or name == SET or not is_named(context, name):
            continue
        if isinstance(param, click.Argument):
            raise InputError(f"{way} takes no file: {context.params[name][0]}")
        if way == "an experiment" and name in (*_PROMPTS, "subject"):
            raise InputError(
                f"{param.opts[0]}: an experiment names its subject and prompts; only --only can select some"
            )
        raise InputError(f"{param.opts[0]} does not apply to {way}; see wirefault run --help-all")
    if context.params["program"] and "program" not in _TAKEN[way]:
        raise InputError(f"a command after -- does not apply to {way}")


def _run_saved(context: click.Context, own: RunChoices, how: RunOptions, targets: Sequence[Path]) -> int:
    from wirefault.cli import running
    from wirefault.cli.saved import repeated_experiment, resumed_experiment

    _check(context, "--resume" if own.resume else "--again")
    if own.resume:
        code = running.resume_tournament(own.resume, how, targets)
        if code is not None:
            return code
        saved = resumed_experiment(own.resume, how.out, targets)
    else:
        saved = repeated_experiment(own.again or "", own.episodes, own.arms, how.out, targets)
    if is_named(context, "fail_on") and not saved.plan.is_plain_run:
        raise InputError("--fail-on: does not apply to an experiment: its hypothesis decides")
    return running.run_saved(saved, how)


def _run_experiments(targets: Sequence[Path], own: RunChoices, how: RunOptions) -> int:
    from wirefault.cli import running
    from wirefault.cli.plan import plans_of, show_plans

    if own.dry_run:
        show_plans(plans_of(targets, how))
        return 0
    if own.levels:
        return running.run_levels(targets, own.levels, how)
    return running.run_experiments(targets, how)


def _changes(change: ChangeOptions, settings: Mapping[str, str], own: RunChoices) -> dict[str, Any]:
    repeats = {"repeats": LEVEL_REPEATS} if own.levels else {}
    return {**repeats, **change.changes(settings)}


def _wiring_file(targets: Sequence[Path]) -> Path | None:
    """Return the wiring among the targets, if any. Raises ``InputError`` if there are other targets, too."""
    from wirefault.wiring.wiring import is_wiring_file

    files = [target for target in targets if target.suffix != ".py" and target.is_file()]
    wirings = [file for file in files if is_wiring_file(file)]
    if wirings and len(targets) > 1:
        raise InputError(f"{wirings[0]} is a wiring: run it alone")
    return wirings[0] if wirings else None


def _run_wiring(
    file: Path | None,
    program: Sequence[str],
    links: Sequence[str],
    prompts: PromptsOptions,
    settings: Mapping[str, str],
    how: RunOptions,
) -> int:
    from wirefault.cli.own_lab import run_in_own_lab
    from wirefault.wiring.subject_spec import CommandSpec
    from wirefault.wiring.wiring import NO_WIRING, load_wiring, with_links, with_subject

    if file is None and os.environ.get("WIRING"):
        file = Path(os.environ["WIRING"])
    if file is None and DEFAULT_WIRING.exists():
        file = DEFAULT_WIRING
    if file is None and not links:
        raise InputError(
            f"no wiring: name an experiment or a wiring ({DEFAULT_WIRING} is not here), or links with --link;"
            " the lab that is up: wirefault run --lab; the lab that ships: wirefault demo"
        )
    wiring = with_links(load_wiring(file) if file else NO_WIRING, links)
    if program:
        wiring = with_subject(wiring, program)
    if wiring.subject is None and not how.subject:
        raise InputError(
            f"{wiring.file or 'this run'}: no subject: name one under `subject`, or give its command after --"
        )
    if not (prompts.texts or prompts.file or wiring.prompts or os.environ.get("PROMPTS_FILE")):
        if not (isinstance(wiring.subject, CommandSpec) and wiring.subject.prompt == "none"):
            raise InputError("no prompts: give --prompt TEXT, --prompts FILE, or `prompts` in the wiring")
        if prompts.only or prompts.match:
            raise InputError("--only, --match: there are no prompts to select from: the command takes none")
        # the command takes no prompt: run one episode, named by the command, as `exec` does
        prompts = replace(prompts, texts=(shlex.join(wiring.subject.command),))
    return run_in_own_lab(wiring, prompts, settings, how)[0].code


def _run_in_lab_that_is_up(prompts: PromptsOptions, settings: Mapping[str, str], how: RunOptions) -> int:
    from wirefault.cli.run_process import carry_out, complain
    from wirefault.core.identity import new_run_id
    from wirefault.core.run_key import handed_key
    from wirefault.experiments.evidence import sign_recording
    from wirefault.experiments.index import run_ids_of
    from wirefault.history.reader import read_history
    from wirefault.judging.ending import run_ending
    from wirefault.judging.summary import summarise
    from wirefault.lab.run_document import run_document
    from wirefault.settings.configuration import load_configuration, running_lab
    from wirefault.settings.settings import SettingsError
    from wirefault.subjects.loading import is_lab_subject

    logs = logs_folder(os.environ)
    try:
        configuration = load_configuration(os.environ, settings)
        logs = configuration.logs
        source = prompts.load(prompts.file or configuration.prompts, configuration.wiring.links).source
    except (SettingsError, PromptsError) as error:
        complain(logs, str(error))
        return USAGE
    subject = how.subject or ""
    document = run_document(
        new_run_id(),
        configuration.settings,
        source,
        subject=subject,
        verbose=how.verbose,
        as_json=how.as_json,
        faults_name=configuration.faults_name,
        shows_why=False,  # the line of the page comes first
    )
    # in Compose, which keeps no record of the lab here, the agent's container has the secret
    lab = running_lab(configuration.state.parent) or {}
    is_demo = is_lab_subject(subject, configuration.wiring)  # the lab's own agent shows, as `demo` does
    secret = str(lab.get("token", "")) if is_demo else ""
    with handed_key(secret, document.run_id) as (variables, _):
        with_key = replace(configuration, environ={**configuration.environ, **variables})
        code = carry_out(with_key, document)
    try:
        recorded = bool(run_ids_of(logs, document.run_id))
        if recorded:
            sign_recording(logs, document.run_id)
    except OSError as error:
        complain(logs, f"the run was not signed: {error}")
        return code
    if recorded:
        _show_page_and_why(configuration, document.run_id, as_json=how.as_json)
        if code == 0 and not is_demo:
            summary = summarise(read_history(logs, document.run_id).events())
            code = run_ending(summary, how.fail_on or "none")
    return code


def _show_page_and_why(configuration: Configuration, run_id: str, *, as_json: bool) -> None:
    """Write the run's page and print where it is, in Compose also at the service ``ui``."""
    from rich.text import Text

    from wirefault.cli.results import show_why
    from wirefault.experiments.recorded import open_recording
    from wirefault.report.page.write import page_line
    from wirefault.report.reproduce import COMPOSE_LAB
    from wirefault.report.terminal import plain_console

    environ = configuration.environ
    try:
        recording = open_recording(configuration.logs, run_id, environ)
    except (UserError, OSError, ValueError):  # the line about the page says why
        recording = None
    lines = [page_line(configuration.logs, run_id, environ, recording)]
    if environ.get("LAB_ID") == COMPOSE_LAB:
        # the port that Docker chose is known outside alone
        port = environ.get("HOST_STATUS_PORT")
        at = f"127.0.0.1:{port}" if port else f"$(docker compose port ui {UI_PORT})"
        lines.append(f"  or: http://{at}/runs/{run_id}")
    console = plain_console(stderr=as_json)
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    if recording is not None:
        show_why(console, recording.arm(None))
