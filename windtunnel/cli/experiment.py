"""What the commands of experiments share: reading, flying and showing them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from windtunnel.cli.experiment_options import ExperimentOptions
from windtunnel.cli.lab_extra import require_lab
from windtunnel.core.exit_codes import DEVIATED, LAB_FAILED, UNKNOWN
from windtunnel.core.interrupts import INTERRUPTED
from windtunnel.core.user_errors import InputError, UserError
from windtunnel.experiments.arms import ExperimentPlan, plan_experiment
from windtunnel.experiments.experiment_file import (
    ExperimentFile,
    files_meant,
    is_module_name,
    load_experiment,
    load_from_module,
)
from windtunnel.experiments.flying import Cockpit, FlownExperiment, fly_experiment
from windtunnel.experiments.saved import SavedExperiment, load_saved, save
from windtunnel.lab.process import print_to_stderr
from windtunnel.lab.toxiproxy import choose_toxiproxy
from windtunnel.links.subject_spec import ServiceSpec
from windtunnel.links.wiring import Wiring
from windtunnel.report.experiment import arm_line, print_verdict
from windtunnel.report.junit import junit
from windtunnel.report.terminal import plain_console
from windtunnel.runner.run import new_run_id
from windtunnel.state.state import check_version

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
    return [plan_experiment(each, environ) for each in read]


def _read(target: Path, changes: Mapping[str, Any]) -> list[ExperimentFile]:
    if is_module_name(target):
        return [load_from_module(str(target), changes)]
    return [load_experiment(file, changes) for file in files_meant(target)]


def run_experiments(targets: Sequence[Path], options: ExperimentOptions) -> int:
    """Flies them one after the other, shows what held, and returns the exit code. Raises ``UserError``."""
    plans = plans_of(targets, options)
    if options.junit is not None and not options.junit.absolute().parent.is_dir():
        raise InputError(f"--junit {options.junit}: there is no folder {options.junit.parent}")
    flights: list[FlownExperiment] = []
    for plan in plans:
        flights.append(fly_and_show(saved_anew(plan), options))
        if flights[-1].code == INTERRUPTED or (options.fail_fast and flights[-1].code):
            break
    if options.as_json:
        shown = [flight.as_json() for flight in flights]
        sys.stdout.write(json.dumps(shown if len(plans) > 1 else shown[0], ensure_ascii=False) + "\n")
    if options.junit is not None:
        options.junit.write_text(junit(flights), encoding="utf-8")
    return min((flight.code for flight in flights), key=_GRAVITY.index)


def fly_and_show(saved: SavedExperiment, options: ExperimentOptions) -> FlownExperiment:
    """Flies what has not been flown of it. Raises ``UserError``."""
    require_lab()
    configuration = saved.plan.configuration
    choice = choose_toxiproxy(options.toxiproxy, configuration.environ)
    check_version(configuration.state)
    console = plain_console(stderr=options.as_json)  # with --json the standard output is the object's alone
    console.print(saved.plan.experiment.title, style="bold", markup=False)
    with _told_of_files():
        flight = fly_experiment(
            saved,
            Cockpit(
                choice,
                print_to_stderr,
                lambda arm: console.print(arm_line(arm)),
                workers_for(configuration.wiring, options.workers),
                options.verbose,
            ),
        )
    show_verdict(console, flight, options.out)
    return flight


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


def show_verdict(console: Console, flight: FlownExperiment, out: Path | None) -> None:
    """What held, and where it lies; how to go on with one that came to no verdict."""
    print_verdict(console, flight)
    if flight.judged is None:
        words = ["windtunnel", "resume", flight.saved.experiment_id, *([f"--out={out}"] if out else [])]
        console.print(f"to go on with it: {shlex.join(words)}", soft_wrap=True)
    console.print(f"experiment: {flight.saved.folder}", soft_wrap=True)


@contextmanager
def _told_of_files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}; is LOGS_DIR a folder to write to?") from None
