"""What the commands of experiments share: reading, flying and showing them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.console import Console

from wirefault.cli.experiment_options import ExperimentOptions
from wirefault.cli.lab_extra import require_lab
from wirefault.core.errors import DEVIATED, LAB_FAILED, UNKNOWN, InputError, UserError
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.arms import ArmHistory
from wirefault.experiments.effects import effects_in
from wirefault.experiments.engine import Engine, LocalEngine, RunControl
from wirefault.experiments.experiment_file import (
    ExperimentFile,
    files_meant,
    is_module_name,
    load_experiments,
    load_from_module,
)
from wirefault.experiments.index import last_run_of
from wirefault.experiments.plan import ExperimentPlan, plan_experiment
from wirefault.experiments.run_experiment import ExperimentResult, obstacles_in, run_experiment
from wirefault.experiments.saved import SavedExperiment, load_saved, save
from wirefault.judging.summary import summarise
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.report.console import print_summary
from wirefault.report.experiment import arm_line, junit, print_effects, print_plan, print_verdict
from wirefault.report.progress import RunProgress, shows_progress
from wirefault.report.terminal import plain_console
from wirefault.runner.run import new_run_id
from wirefault.state.state import check_version
from wirefault.subjects.surroundings import check_program
from wirefault.wiring.subject_spec import ServiceSpec
from wirefault.wiring.wiring import Wiring

# of several experiments the gravest counts
_GRAVITY = (INTERRUPTED, LAB_FAILED, DEVIATED, UNKNOWN, 0)


def saved_experiment(experiment: str, out: Path | None) -> SavedExperiment:
    """The one of that id. Raises ``UserError``."""
    environ = environ_of(out)
    return load_saved(Path(environ.get("LOGS_DIR") or "logs"), experiment, environ)


def saved_anew(plan: ExperimentPlan) -> SavedExperiment:
    """The plan under an id of its own, nothing of it flown yet. Raises ``UserError``."""
    with _told_of_files():
        return save(plan, new_run_id())


def environ_of(out: Path | None) -> dict[str, str]:
    """The environment, with state and logs below that folder."""
    environ = dict(os.environ)
    if out is not None:
        environ |= {
            "STATE_DB": str(out / "state" / "state.db"),
            "EFFECTS_DB": str(out / "state" / "effects.db"),
            "LOGS_DIR": str(out / "logs"),
        }
    return environ


def plans_of(targets: Iterable[Path], options: ExperimentOptions) -> list[ExperimentPlan]:
    """All of them are read before any is flown. Raises ``UserError``."""
    environ = environ_of(options.out)
    read = [each for target in targets for each in _read(target, options.changes)]
    chosen = [each for each in read if _is_chosen(each, options.filters)]
    if not chosen:
        tags = sorted({tag for each in read for tag in each.experiment.tags})
        raise InputError(
            f"--filter: no experiment has such a title or tag; tags: {', '.join(tags) or 'none'}"
        )
    return [plan_experiment(each, environ) for each in chosen]


def _is_chosen(given: ExperimentFile, filters: Sequence[str]) -> bool:
    names = [name.casefold() for name in (given.experiment.title, *given.experiment.tags)]
    patterns = [pattern.casefold() for pattern in filters]
    return not filters or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def show_plans(plans: Iterable[ExperimentPlan]) -> None:
    """Prints what each would fly."""
    for plan in plans:
        last = last_run_of(plan.configuration.logs, plan.experiment.title)
        print_plan(plain_console(), plan, last)


def _read(target: Path, changes: Mapping[str, Any]) -> list[ExperimentFile]:
    if is_module_name(target):
        return load_from_module(str(target), changes)
    return [each for file in files_meant(target) for each in load_experiments(file, changes)]


def run_experiments(targets: Sequence[Path], options: ExperimentOptions) -> int:
    """Flies them one after the other, shows what held, and returns the exit code. Raises ``UserError``."""
    plans = plans_of(targets, options)
    for option, file in (("--junit", options.junit), ("--output", options.output)):
        if file is not None and not file.absolute().parent.is_dir():
            raise InputError(f"{option} {file}: there is no folder {file.parent}")
    if options.dry_run:
        show_plans(plans)
        return 0
    for plan in plans:
        if options.engine == "local" and not plan.subject:  # another machine may have what this one lacks
            check_program(plan.configuration.wiring, plan.configuration.environ)
    flights: list[ExperimentResult] = []
    for plan in plans:
        flights.append(run_and_show(saved_anew(plan), options))
        if flights[-1].code == INTERRUPTED or (options.fail_fast and flights[-1].code):
            break
    shown = [flight.as_json() for flight in flights]
    text = json.dumps(shown if len(plans) > 1 else shown[0], ensure_ascii=False) + "\n"
    if options.as_json:
        sys.stdout.write(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    if options.junit is not None:
        options.junit.write_text(junit(flights), encoding="utf-8")
    return min((flight.code for flight in flights), key=_GRAVITY.index)


def run_and_show(saved: SavedExperiment, options: ExperimentOptions) -> ExperimentResult:
    """Flies what has not been flown of it. Raises ``UserError``."""
    require_lab()
    configuration = saved.plan.configuration
    choice = choose_toxiproxy(options.toxiproxy, configuration.environ)
    check_version(configuration.state)
    engine = _engine(options.engine)
    console = plain_console(stderr=options.as_json)  # with --json the standard output is the object's alone
    console.print(saved.plan.experiment.title, style="bold", markup=False)
    with _told_of_files(), _progress_on(console, verbose=options.verbose) as progress:
        flight = run_experiment(
            replace(saved, retry_invalid=options.retry_invalid),
            RunControl(
                choice,
                print_to_stderr,
                lambda arm: console.print(arm_line(arm)),
                workers_for(configuration.wiring, options.workers),
                options.verbose,
                progress=progress,
            ),
            engine,
        )
    show_verdict(console, flight, options.out)
    return flight


def _progress_on(console: Console, *, verbose: bool) -> AbstractContextManager[RunProgress | None]:
    shown = shows_progress(console, os.environ, verbose=verbose)
    return RunProgress(console) if shown else nullcontext()


def _engine(name: str) -> Engine:
    if name == "local":
        return LocalEngine()
    from wirefault.experiments.ray_engine import RayEngine

    return RayEngine()


def workers_for(wiring: Wiring, asked: str) -> int:
    """How many episodes are flown side by side. Raises ``InputError`` for more than the wiring can bear."""
    alone = ""
    if isinstance(wiring.subject, ServiceSpec):
        alone = "its subject is a service, which listens on one port"
    elif wiring.world is not None:
        alone = "its world is one, which episodes side by side would change for each other"
    if asked == "auto":
        return 1 if alone else os.cpu_count() or 1
    if alone and asked != "1":
        raise InputError(f"--workers {asked}: {alone}; fly it with --workers 1")
    return int(asked)


def show_run(console: Console, saved: SavedExperiment, history: ArmHistory, as_json: bool = False) -> None:
    """What an experiment without a hypothesis has shown in all of its runs."""
    summary = summarise(history.events)
    print_summary(console, summary, f"wirefault rerun {saved.experiment_id}")
    if as_json:
        sys.stdout.write(json.dumps(summary.as_json(), ensure_ascii=False) + "\n")


def show_verdict(console: Console, flight: ExperimentResult, out: Path | None) -> None:
    """What its faults did, what held, and where it lies; how to go on with one that came to no verdict."""
    if flight.plan.is_plain_run:
        history = flight.saved.history_of(flight.plan.arms[0])
        if history.events:
            show_run(console, flight.saved, history)
    else:
        flown = {arm.name for arm in flight.arms}
        print_effects(console, [effect for effect in effects_in(flight.saved) if effect.arm in flown])
        print_verdict(console, flight, obstacles_in(flight))
    if flight.can_be_resumed:
        words = ["wirefault", "resume", flight.saved.experiment_id, *([f"--out={out}"] if out else [])]
        console.print(f"to go on with it: {shlex.join(words)}", soft_wrap=True)
    console.print(f"experiment: {flight.saved.folder}", soft_wrap=True)


@contextmanager
def _told_of_files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""  # a write that finds no room names no file
        reason = f"{where}{error.strerror}; is the disk full, or LOGS_DIR no folder to write to?"
        raise UserError(reason) from None
