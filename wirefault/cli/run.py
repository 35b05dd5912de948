"""``wirefault run``: experiments, or the prompts through a lab that is up, to a subject that is named."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from wirefault.cassettes.cassettes import check_cassettes
from wirefault.cli.experiment_options import ExperimentOptions, experiment_options, prompts_picked
from wirefault.cli.lab_extra import require_lab
from wirefault.cli.run_options import PromptsOptions, prompts_options, subject_option
from wirefault.core.errors import LAB_FAILED, USAGE, InputError
from wirefault.core.files import UnsafeFileError
from wirefault.core.interrupts import INTERRUPTED
from wirefault.history.logs import log_error
from wirefault.judging.prompts import Prompts, PromptsError, load_prompts
from wirefault.report.console import ConsoleAudience, print_summary
from wirefault.report.reproduce import as_user_named, command
from wirefault.report.terminal import plain_console
from wirefault.runner.interruption import EndedByLauncher, InterruptibleSubject, interrupt_once
from wirefault.runner.run import Flight, fly, new_run_id
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import SettingsError
from wirefault.state.state import check_version
from wirefault.subjects.loading import LAB_SUBJECT, load_subject
from wirefault.subjects.opening import open_wired_subject
from wirefault.subjects.subject import Subject


@click.command("run")
@click.argument("targets", metavar="[FILE|DIR|MODULE:NAME]...", nargs=-1, type=click.Path(path_type=Path))
@experiment_options
@subject_option
@prompts_options
@click.option("--json", "as_json", is_flag=True, help="end with one JSON object on standard output")
@click.option("--run-id", hidden=True)  # from what knows the run by this id
@click.option("--part", is_flag=True, hidden=True)  # from what flies the others, and sums all of them up
@click.option("--whole", hidden=True, type=click.Path(path_type=Path))  # all prompts, where these are some
def run_command(
    targets: tuple[Path, ...],
    experiment: ExperimentOptions | None,
    subject: str | None,
    prompts: PromptsOptions,
    as_json: bool,
    run_id: str | None,
    part: bool,
    whole: Path | None,
) -> None:
    """Fly experiments to their verdict; or, without any, the prompts through the lab that is up.

    The exit code of experiments is their verdict: 0 held, 1 deviated, 2 unknown.
    """
    if targets:
        if subject or prompts.file or prompts.texts or prompts.match or run_id:
            raise InputError(
                "an experiment names its subject and prompts; --only alone can pick some of them"
            )
        options = experiment or ExperimentOptions({})
        options = replace(options, as_json=as_json, changes=options.changes | prompts_picked(prompts.only))
        # not at the top: each run of a lab's agent is this command, and needs no experiments
        from wirefault.cli.experiment import run_experiments

        sys.exit(run_experiments(targets, options))
    if experiment:
        raise InputError("these options are an experiment's: name its file, or see wirefault demo --help")
    _run_in_lab_that_is_up(subject, prompts, as_json, run_id, part, whole)


def _run_in_lab_that_is_up(
    subject: str | None,
    prompts: PromptsOptions,
    as_json: bool,
    run_id: str | None,
    part: bool,
    whole: Path | None,
) -> None:
    logs = Path(os.environ.get("LOGS_DIR") or "logs")
    try:
        configuration = load_configuration(os.environ)
        logs = configuration.logs
        configuration = replace(configuration, prompts=prompts.file or configuration.prompts)
        if subject == LAB_SUBJECT or (not subject and configuration.wiring.is_lab):
            require_lab()
        loaded = prompts.load(configuration.prompts, configuration.wiring.links)
        loaded = replace(loaded, source=as_user_named(loaded.source, configuration.environ))
        of_all = load_prompts(whole, links=configuration.wiring.links).entries if whole else ()
        check_version(configuration.state)
        check_cassettes(configuration.settings)
        # a Ctrl-C while a module is imported ends this process at once
        open_subject = load_subject(subject) if subject else partial(open_wired_subject, configuration.wiring)
        raise_again = interrupt_once(os.environ)
        with open_subject(configuration) as opened:
            raise_again()
            opened = InterruptibleSubject(opened, raise_again)
            console = plain_console(stderr=as_json)  # with --json the standard output is the object's alone
            audience = ConsoleAudience(console, alone=not part, whole=[prompt.key for prompt in of_all])
            show = None if part else partial(_show, console, configuration, subject, as_json)
            sys.exit(_run(run_id or new_run_id(), configuration, opened, loaded, audience, show))
    except EndedByLauncher:  # before anything was flown: the launcher tells of it
        sys.exit(LAB_FAILED)
    except (SettingsError, PromptsError) as error:
        _complain(logs, str(error))
        sys.exit(USAGE)


def _run(
    run_id: str,
    configuration: Configuration,
    subject: Subject,
    prompts: Prompts,
    audience: ConsoleAudience,
    show: Callable[[Flight], None] | None,
) -> int:
    """Flies, shows the summary, and returns the exit code; without ``show`` the episodes alone are shown."""
    logs = configuration.logs
    try:
        flight = fly(run_id, configuration, subject, prompts, audience)
        audience.close()
        if show is not None:
            show(flight)
    except UnsafeFileError:
        raise  # it says all that there is to say
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _complain(logs, f"{what}; is LOGS_DIR={logs} a folder that can be written to?")
        return LAB_FAILED
    if flight.failure and not flight.record.launcher_tells:
        _complain(logs, flight.failure)
    if flight.record.interrupted:
        return INTERRUPTED
    return LAB_FAILED if flight.failure else 0


def _show(
    console: Console, configuration: Configuration, name: str | None, as_json: bool, flight: Flight
) -> None:
    """Its summary; ``name`` is the subject's, if one was named."""
    summary = flight.summary
    repeat = command(
        flight.settings,
        summary.prompts_source,
        summary.lab_id,
        configuration.environ,
        summary.flown_by,
        configuration.wiring.links,
        name,
    )
    print_summary(console, summary, repeat, said=[flight.failure])
    console.print(f"history: {configuration.logs}/runs/{summary.run_id}", soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps(summary.as_json(), ensure_ascii=False) + "\n")


def _complain(logs: Path, message: str) -> None:
    """Says it on the console and in info.log."""
    sys.stderr.write(f"error: {message}\n")
    unwritten = log_error(logs, message)
    if unwritten:
        sys.stderr.write(f"error: {unwritten}\n")
