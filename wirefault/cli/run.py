"""``wirefault run``: experiments, a wiring without a hypothesis, or prompts through a running lab."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wirefault.cli.help import CommandWithProgram, option
from wirefault.cli.options import (
    SET,
    PromptsOptions,
    RunOptions,
    charts_option,
    engine_option,
    experiment_changes,
    fail_on_option,
    filter_option,
    is_named,
    json_option,
    max_cost_option,
    max_episodes_option,
    max_time_option,
    options,
    out_option,
    playbooks_option,
    prompts_options,
    repeats_option,
    retry_invalid_option,
    sequential_changes,
    setting_options,
    subject_option,
    toxiproxy_option,
    until_decided_option,
    verbose_option,
    workers_option,
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
_SETTINGS = frozenset(SETTABLE)
_OF_PROMPTS = frozenset({"file", "texts", "only", "match", "subject", "as_json"})
_OF_LAB = frozenset({"toxiproxy", "out", "workers"})
_OF_ARMS = _OF_LAB | {"engine", "verbose", "retry_invalid", "as_json"}
# the parameters that each way of running accepts
_TAKEN: Mapping[str, frozenset[str]] = {
    "--resume": _OF_ARMS | {"resume", "targets", "fail_on"},
    "--again": _OF_ARMS | {"again", "episodes", "arms", "targets", "fail_on"},
    "--lab": _OF_PROMPTS | _SETTINGS | {"lab", "fail_on"},
    "an experiment": _OF_ARMS
    | _SETTINGS
    | {"targets", "only", "repeats", "filters", "recursive", "levels", "dry_run"}
    | {"fail_fast", "junit", "output", "reports", "tags"}
    | {"until_decided", "max_episodes", "max_time", "max_cost"},
    "a wiring": _OF_PROMPTS
    | _OF_LAB
    | _SETTINGS
    | {"targets", "links", "program", "charts", "playbooks"}
    | {"fail_on"},
}


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


_PATH = click.Path(path_type=Path)


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
@click.argument("targets", metavar="[FILE|DIR|MODULE:NAME]... [-- COMMAND]", nargs=-1, type=_PATH)
@options(
    prompts_options,
    subject_option,
    playbooks_option,
    option(
        "--link",
        "links",
        metavar="NAME=URL[,DIALECT]",
        multiple=True,
        section="Agent",
        help="Add a link, or change the upstream of one; its address is in NAME_URL. Repeatable.",
    ),
    option(
        "--lab",
        is_flag=True,
        section="Agent",
        help="Send the prompts through the lab that is up in this folder.",
    ),
    setting_options,
    option(
        "--levels",
        metavar="L,L,...",
        callback=_levels,
        section="Faults",
        help="Run an experiment with its fault probabilities multiplied by these factors, such as"
        " 0.1,0.5,1,2; show the last level at which its hypothesis held and the first at which it"
        f" deviated; {LEVEL_REPEATS} repeats by default.",
    ),
    option(
        "--resume",
        metavar="ID|latest",
        section="Other",
        help="Resume an interrupted experiment; finished episodes are kept. Name its FILE, too, if"
        " another user recorded it.",
    ),
    option(
        "--again",
        metavar="ID|latest",
        section="Other",
        help="Run a saved experiment again, with the same draws.",
    ),
    option(
        "--episode",
        "episodes",
        metavar="ID|N",
        multiple=True,
        section="Other",
        help="With --again: run only this episode. Repeatable.",
    ),
    option(
        "--arm",
        "arms",
        metavar="NAME",
        multiple=True,
        section="Other",
        help="With --again: run only this arm and the controls. Repeatable.",
    ),
    option(
        "--recursive",
        is_flag=True,
        section="Other",
        help="Search folders below DIR, too; prompts and wiring files are skipped.",
    ),
    filter_option,
    repeats_option,
    until_decided_option,
    max_episodes_option,
    max_time_option,
    max_cost_option,
    retry_invalid_option,
    workers_option,
    engine_option,
    toxiproxy_option,
    option(
        "--dry-run",
        is_flag=True,
        section="Output",
        help="Show the plan, as wirefault plan does; run nothing.",
    ),
    option(
        "--fail-fast",
        is_flag=True,
        section="Limits",
        help="Stop after the first experiment that does not hold.",
    ),
    verbose_option,
    charts_option(None),
    fail_on_option,
    out_option,
    json_option,
    option("--output", type=_PATH, section="Output", help="Write what --json prints to this file."),
    option(
        "--tag",
        "tags",
        multiple=True,
        section="Output",
        help="Add this tag to the recordings; wirefault runs trend --tag shows them over time. Repeatable.",
    ),
    option("--junit", type=_PATH, section="Output", help="Write the verdicts to this file as JUnit XML."),
    option(
        "--reports",
        type=_PATH,
        metavar="FOLDER",
        section="Output",
        help="Write what a pipeline keeps into this folder: junit.xml, verdict.json, summary.md, a page"
        " and a bundle of each experiment.",
    ),
)
@click.pass_context
def run_command(context: click.Context, /, targets: tuple[Path, ...], **chosen: Any) -> None:
    """Run experiments to their verdict, or a wiring without a hypothesis.

    A target is an experiment's file, a folder of them, experiments in Python (FILE.py, FILE.py:NAME or
    MODULE:NAME) or a wiring file; without one, ./wirefault.yaml is run. COMMAND, after --, is the agent: it
    is run for each prompt, and {prompt} in it is the prompt. With --lab the prompts go through the lab that
    is up. The exit code is the verdict: 0 held, 1 deviated, 2 unknown; without a hypothesis 1 for a finding
    (see --fail-on), 2 if no fault is known to have been injected.
    """
    if chosen["resume"] or chosen["again"]:
        sys.exit(_run_saved(context, chosen, targets))
    if chosen["lab"]:
        _check(context, "--lab")
        sys.exit(_run_in_lab_that_is_up(chosen))
    wiring = _wiring_file(targets)
    if targets and wiring is None:
        sys.exit(_run_experiments(context, targets, chosen))
    _check(context, "a wiring")
    sys.exit(_run_wiring(wiring, chosen))


def _check(context: click.Context, way: str) -> None:
    """Raise ``InputError`` for an option that this way of running does not accept."""
    for param in context.command.params:
        name = param.name or ""
        if name in _TAKEN[way] or name == SET or not is_named(context, name):
            continue
        if isinstance(param, click.Argument):
            raise InputError(f"{way} takes no file: {context.params[name][0]}")
        if way == "an experiment" and name in _OF_PROMPTS:
            raise InputError(
                f"{param.opts[0]}: an experiment names its subject and prompts; only --only can select some"
            )
        raise InputError(f"{param.opts[0]} does not apply to {way}; see wirefault run --help-all")
    if context.params["program"] and "program" not in _TAKEN[way]:
        raise InputError(f"a command after -- does not apply to {way}")


def _run_saved(context: click.Context, chosen: Mapping[str, Any], targets: Sequence[Path]) -> int:
    from wirefault.cli import running
    from wirefault.cli.saved import repeated_experiment, resumed_experiment

    way = "--resume" if chosen["resume"] else "--again"
    _check(context, way)
    how = RunOptions(**{name: chosen[name] for name in _OF_ARMS | {"fail_on"}})
    if chosen["resume"]:
        code = running.resume_tournament(chosen["resume"], how, targets)
        if code is not None:
            return code
        saved = resumed_experiment(chosen["resume"], how.out, targets)
    else:
        saved = repeated_experiment(chosen["again"], chosen["episodes"], chosen["arms"], how.out, targets)
    if is_named(context, "fail_on") and not saved.plan.is_plain_run:
        raise InputError("--fail-on: does not apply to an experiment: its hypothesis decides")
    return running.run_saved(saved, how)


def _run_experiments(context: click.Context, targets: Sequence[Path], chosen: Mapping[str, Any]) -> int:
    from wirefault.cli import running
    from wirefault.cli.plan import plans_of, show_plans

    _check(context, "an experiment")
    names = _OF_ARMS | {"filters", "recursive", "fail_fast", "junit", "output", "reports", "tags"}
    how = RunOptions(changes=_experiment_changes(chosen), **{name: chosen[name] for name in sorted(names)})
    if chosen["dry_run"]:
        show_plans(plans_of(targets, how))
        return 0
    if chosen["levels"]:
        return running.run_levels(targets, chosen["levels"], how)
    return running.run_experiments(targets, how)


def _experiment_changes(chosen: Mapping[str, Any]) -> dict[str, Any]:
    repeats = chosen["repeats"]
    if repeats is None and chosen["levels"]:
        repeats = LEVEL_REPEATS
    changes = experiment_changes(chosen["settings"], repeats, chosen["only"])
    names = ("until_decided", "max_episodes", "max_time", "max_cost")
    return changes | sequential_changes(**{name: chosen[name] for name in names})


def _wiring_file(targets: Sequence[Path]) -> Path | None:
    """Return the wiring among the targets, if any. Raises ``InputError`` if there are other targets, too."""
    from wirefault.wiring.wiring import is_wiring_file

    files = [target for target in targets if target.suffix != ".py" and target.is_file()]
    wirings = [file for file in files if is_wiring_file(file)]
    if wirings and len(targets) > 1:
        raise InputError(f"{wirings[0]} is a wiring: run it alone")
    return wirings[0] if wirings else None


def _run_wiring(file: Path | None, chosen: Mapping[str, Any]) -> int:
    from wirefault.cli.own_lab import run_in_own_lab
    from wirefault.wiring.subject_spec import CommandSpec
    from wirefault.wiring.wiring import NO_WIRING, load_wiring, with_links, with_subject

    if file is None and os.environ.get("WIRING"):
        file = Path(os.environ["WIRING"])
    if file is None and DEFAULT_WIRING.exists():
        file = DEFAULT_WIRING
    if file is None and not chosen["links"]:
        raise InputError(
            f"no wiring: name an experiment or a wiring ({DEFAULT_WIRING} is not here), or links with --link;"
            " the lab that is up: wirefault run --lab; the lab that ships: wirefault demo"
        )
    wiring = with_links(load_wiring(file) if file else NO_WIRING, chosen["links"])
    if chosen["program"]:
        wiring = with_subject(wiring, chosen["program"])
    if wiring.subject is None and not chosen["subject"]:
        raise InputError(
            f"{wiring.file or 'this run'}: no subject: name one under `subject`, or give its command after --"
        )
    prompts = _prompts(chosen)
    if not (prompts.texts or prompts.file or wiring.prompts or os.environ.get("PROMPTS_FILE")):
        if not (isinstance(wiring.subject, CommandSpec) and wiring.subject.prompt == "none"):
            raise InputError("no prompts: give --prompt TEXT, --prompts FILE, or `prompts` in the wiring")
        # the command takes no prompt: run one episode, named by the command, as `exec` does
        prompts = replace(prompts, texts=(shlex.join(wiring.subject.command),))
    names = _OF_LAB | {"as_json", "subject", "charts", "playbooks", "fail_on"}
    how = RunOptions(**{name: chosen[name] for name in names})
    return run_in_own_lab(wiring, prompts, chosen["settings"], how).code


def _run_in_lab_that_is_up(chosen: Mapping[str, Any]) -> int:
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

    logs, prompts = logs_folder(os.environ), _prompts(chosen)
    try:
        configuration = load_configuration(os.environ, chosen["settings"])
        logs = configuration.logs
        source = prompts.load(prompts.file or configuration.prompts, configuration.wiring.links).source
    except (SettingsError, PromptsError) as error:
        complain(logs, str(error))
        return USAGE
    subject, as_json = chosen["subject"] or "", chosen["as_json"]
    document = run_document(
        new_run_id(),
        configuration.settings,
        source,
        subject=subject,
        as_json=as_json,
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
        _show_page_and_why(configuration, document.run_id, as_json=as_json)
        if code == 0 and not is_demo:
            summary = summarise(read_history(logs, document.run_id).events())
            code = run_ending(summary, chosen["fail_on"])
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


def _prompts(chosen: Mapping[str, Any]) -> PromptsOptions:
    return PromptsOptions(chosen["file"], chosen["texts"], chosen["only"], chosen["match"])
