"""What ``windtunnel run FILE`` and ``windtunnel plan FILE`` share: experiments read, flown and reported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from windtunnel.cli.lab_extra import require_lab
from windtunnel.core.exit_codes import DEVIATED, LAB_FAILED, UNKNOWN
from windtunnel.core.interrupts import INTERRUPTED
from windtunnel.core.user_errors import InputError
from windtunnel.experiments.arms import ExperimentPlan, plan_experiment
from windtunnel.experiments.experiment_file import files_meant, load_experiment
from windtunnel.experiments.flying import FlownExperiment, fly_experiment
from windtunnel.lab.process import print_to_stderr
from windtunnel.lab.toxiproxy import choose_toxiproxy
from windtunnel.report.experiment import arm_line, junit, print_plan, print_verdict
from windtunnel.report.terminal import plain_console
from windtunnel.runner.run import new_run_id
from windtunnel.state.state import check_version

# of several experiments the gravest counts
_GRAVITY = (INTERRUPTED, LAB_FAILED, DEVIATED, UNKNOWN, 0)


@dataclass(frozen=True)
class ExperimentOptions:
    """What the command line says besides the experiments: ``changes`` to them, and how to fly and report."""

    changes: dict[str, Any]
    toxiproxy: str = "auto"
    out: Path | None = None
    as_json: bool = False
    junit: Path | None = None
    verbose: bool = False
    fail_fast: bool = False


def change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What the command line changes of an experiment; the command gets ``changes``, by key."""

    def with_changes(seed: int | None, repeats: int | None, changed: tuple[str, ...], **others: Any) -> Any:
        given = {"seed": seed, "repeats": repeats, "settings": dict(map(_name_and_value, changed)) or None}
        return command(changes={key: value for key, value in given.items() if value is not None}, **others)

    return _with_options(
        with_changes,
        command,
        click.option("--set", "changed", metavar="NAME=VALUE", multiple=True, help="a setting of all arms"),
        click.option("--repeats", type=int, help="how often each prompt is flown"),
        click.option("--seed", type=int, help="of all draws, in the place of the experiment's"),
    )


def experiment_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is said of experiments alone; the command gets ``experiment``, None if nothing is."""

    def with_experiment(
        changes: dict[str, Any],
        toxiproxy: str | None,
        out: Path | None,
        junit: Path | None,
        verbose: bool,
        fail_fast: bool,
        **others: Any,
    ) -> Any:
        said = ExperimentOptions(changes, toxiproxy or "auto", out, False, junit, verbose, fail_fast)
        return command(experiment=None if said == ExperimentOptions({}) else said, **others)

    return change_options(
        _with_options(
            with_experiment,
            command,
            click.option("--fail-fast", is_flag=True, help="after one that has not held fly no other"),
            click.option("--verbose", "-v", is_flag=True, help="show each arm's run as it goes"),
            click.option(
                "--junit", type=click.Path(path_type=Path), help="write the verdicts as JUnit's XML"
            ),
            click.option("--out", type=click.Path(path_type=Path), help="folder for state/ and logs/"),
            click.option("--toxiproxy", help="auto (the default), embedded, or a server's URL"),
        )
    )


def _with_options(
    wrapper: Callable[..., Any], command: Callable[..., Any], *options: Callable[..., Any]
) -> Callable[..., Any]:
    wrapper.__doc__ = command.__doc__
    wrapper.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in options:
        wrapper = option(wrapper)
    return wrapper


def prompts_picked(only: Sequence[str]) -> dict[str, Any]:
    """The change that leaves these prompts alone; none if nothing is picked."""
    return {"only": list(only)} if only else {}


def _name_and_value(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise InputError(f"--set {given}: write NAME=VALUE, such as --set model_timeout=10")
    return name.lower(), value


def plans_of(targets: Iterable[Path], options: ExperimentOptions) -> list[ExperimentPlan]:
    """All of them are read before any is flown. Raises ``UserError``."""
    environ = dict(os.environ)
    if options.out is not None:
        environ |= {
            "STATE_DB": str(options.out / "state" / "state.db"),
            "EFFECTS_DB": str(options.out / "state" / "effects.db"),
            "LOGS_DIR": str(options.out / "logs"),
        }
    files = [file for target in targets for file in files_meant(target)]
    return [plan_experiment(load_experiment(file, options.changes), environ) for file in files]


def show_plans(targets: Iterable[Path], options: ExperimentOptions) -> None:
    for plan in plans_of(targets, options):
        print_plan(plain_console(), plan)


def run_experiments(targets: Sequence[Path], options: ExperimentOptions) -> int:
    """Flies them one after the other, shows what held, and returns the exit code. Raises ``UserError``."""
    require_lab()
    plans = plans_of(targets, options)
    if options.junit is not None and not options.junit.absolute().parent.is_dir():
        raise InputError(f"--junit {options.junit}: there is no folder {options.junit.parent}")
    flights: list[FlownExperiment] = []
    for plan in plans:
        check_version(plan.configuration.state)
        flights.append(_fly(plan, options))
        if flights[-1].code == INTERRUPTED or (options.fail_fast and flights[-1].code):
            break
    if options.as_json:
        shown = [flight.as_json() for flight in flights]
        sys.stdout.write(json.dumps(shown if len(plans) > 1 else shown[0], ensure_ascii=False) + "\n")
    if options.junit is not None:
        options.junit.write_text(junit(flights), encoding="utf-8")
    return min((flight.code for flight in flights), key=_GRAVITY.index)


def _fly(plan: ExperimentPlan, options: ExperimentOptions) -> FlownExperiment:
    console = plain_console(stderr=options.as_json)  # with --json the standard output is the object's alone
    console.print(plan.experiment.title, style="bold", markup=False)
    choice = choose_toxiproxy(options.toxiproxy, plan.configuration.environ)
    try:
        flight = fly_experiment(
            plan,
            new_run_id(),
            choice,
            print_to_stderr,
            lambda arm: console.print(arm_line(arm)),
            verbose=options.verbose,
        )
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}; is LOGS_DIR a folder to write to?") from None
    print_verdict(console, flight)
    console.print(f"experiment: {flight.folder}", soft_wrap=True)
    return flight
