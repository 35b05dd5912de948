"""Run experiments and tournaments, each in a new lab, and show their verdicts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from wirefault.audit.options import is_audit
from wirefault.cli.options import RunOptions, check_playbooks, environ_below, logs_in
from wirefault.cli.plan import plans_of
from wirefault.cli.recorded import print_object
from wirefault.cli.reports import make_reports_folder, write_reports
from wirefault.cli.results import show_page, show_result, show_tournament
from wirefault.cli.saved import explained_file_errors, saved_anew
from wirefault.core.errors import DEVIATED, LAB_FAILED, UNKNOWN, InputError
from wirefault.core.identity import new_run_id
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.assertions.registry import load_functions
from wirefault.experiments.cost import Cost
from wirefault.experiments.engine import Engine, LocalEngine, RunControl
from wirefault.experiments.experiment import Experiment
from wirefault.experiments.experiment_file import files_meant
from wirefault.experiments.plan import ExperimentPlan, levels_of, stressed
from wirefault.experiments.run_experiment import ExperimentResult, run_experiment
from wirefault.experiments.run_tournament import (
    Tournament,
    TournamentResult,
    agent_of,
    contests_in,
    is_tournament,
    load_tournament,
    run_tournament,
    save_tournament,
)
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.verdict import ArmResult
from wirefault.lab.extra import require_packages
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import Choice, choose_toxiproxy
from wirefault.report.experiment import MAX_ROWS, arm_text
from wirefault.report.experiment_plan import head_lines
from wirefault.report.junit import junit
from wirefault.report.progress import RunProgress, shows_progress
from wirefault.report.terminal import plain_console
from wirefault.settings.configuration import Configuration
from wirefault.state.effects import check_effects
from wirefault.state.state import check_version
from wirefault.subjects.surroundings import check_program
from wirefault.wiring.links import SCRIPTED
from wirefault.wiring.subject_spec import ServiceSpec
from wirefault.wiring.wiring import Wiring

# exit codes of several experiments, worst first
_GRAVITY = (INTERRUPTED, LAB_FAILED, DEVIATED, UNKNOWN, 0)


def run_experiments(targets: Sequence[Path], how: RunOptions) -> int:
    """Run the experiments in order, show their verdicts, return the exit code. Raises ``UserError``."""
    plans = plans_of(targets, how)
    for option, file in (("--junit", how.junit), ("--output", how.output)):
        if file is not None and not file.absolute().parent.is_dir():
            raise InputError(f"{option} {file}: no folder {file.parent}")
    for plan in plans:
        _check_place(plan.experiment, how)
        load_functions(entry for arm in plan.arms for entry in arm.assertions)
        if how.engine == "local" and not plan.subject:  # another machine may have what is missing here
            check_program(plan.configuration.wiring, plan.configuration.environ)
    if how.reports is not None:
        make_reports_folder(how.reports)
    results: list[ExperimentResult] = []
    objects: list[dict[str, Any]] = []
    contests = list(contests_in(plans))
    for contest in contests:
        if agent_of(contest[0]):
            tournament = run_and_show_tournament(_tournament_anew(contest), how)
            results += tournament.results
            objects.append(tournament.as_json())
        else:
            results.append(run_and_show(saved_anew(contest[0]), how))
            objects.append(results[-1].as_json())
        if results[-1].code == INTERRUPTED or (how.fail_fast and any(each.code for each in results)):
            break
    text = json.dumps(objects if len(contests) > 1 else objects[0], ensure_ascii=False) + "\n"
    if how.as_json:
        sys.stdout.write(text)
    if how.output is not None:
        how.output.write_text(text, encoding="utf-8")
    if how.junit is not None:
        how.junit.write_text(junit(results, how.fail_on or "none"), encoding="utf-8")
    if how.reports is not None:
        write_reports(how.reports, results, text, how.fail_on or "none")
    return min((result.code for result in results), key=_GRAVITY.index)


def _tournament_anew(plans: Sequence[ExperimentPlan]) -> Tournament:
    """Save the plans of its arms under a new id. Raises ``UserError``."""
    with explained_file_errors():
        return save_tournament(plans, new_run_id())


def run_and_show_tournament(tournament: Tournament, how: RunOptions) -> TournamentResult:
    """Run the rest of each arm and show how the arms compare. Raises ``UserError``."""
    result = run_tournament(
        tournament,
        lambda saved, left: run_and_show(saved, how, left),
        print_to_stderr,
        lambda arm: arm.code == INTERRUPTED or (how.fail_fast and arm.code != 0),
    )
    show_tournament(plain_console(stderr=how.as_json), result, how.out, page=True)
    return result


def resume_tournament(name: str, how: RunOptions, files: Sequence[Path]) -> int | None:
    """Run the rest of the tournament with that id; None if it is not one. Raises ``UserError``."""
    environ = environ_below(how.out)
    if not is_tournament(logs_in(environ), name):
        return None
    if files:
        raise InputError(f"--resume {name}: a tournament takes no FILE; it must be signed by this user")
    tournament = load_tournament(logs_in(environ), name, environ)
    for saved in tournament.experiments:
        saved.require_own_plan("--resume", with_code=False)
    result = run_and_show_tournament(tournament, how)
    if how.as_json:
        print_object(result.as_json())
    return min((each.code for each in result.results), key=_GRAVITY.index)


def run_levels(targets: Sequence[Path], levels: Sequence[float], how: RunOptions) -> int:
    """Run one experiment's faults at these levels, show how far it holds, return the exit code."""
    if len(targets) != 1 or files_meant(targets[0]) != list(targets):
        raise InputError("--levels: name one experiment")
    plans = plans_of(targets, how)
    if len(plans) > 1:
        raise InputError("--levels: name one experiment, without `arms` and without a matrix of several")
    [plan] = plans
    return run_saved(saved_anew(stressed(plan, levels_of(plan, levels))), how)


def run_saved(saved: SavedExperiment, how: RunOptions) -> int:
    """Run the rest of a saved experiment, show it and return the exit code. Raises ``UserError``."""
    if saved.plan.search:  # it plans its episodes on the way
        raise InputError(f"{saved.experiment_id} is a search: {saved.resume_command} resumes it")
    if is_audit(saved):
        raise InputError(f"{saved.experiment_id} is an audit: {saved.resume_command} resumes it")
    result = run_and_show(saved, how)
    if how.as_json:
        print_object(result.as_json())
    return result.ending(how.fail_on or "none")


def run_and_show(saved: SavedExperiment, how: RunOptions, expected: Cost | None = None) -> ExperimentResult:
    """Run the rest of the experiment and show the verdict. Raises ``UserError``.

    ``expected``: what is left of the tournament whose arm it is.
    """
    configuration = saved.plan.configuration
    choice = ready_to_run(saved, how.toxiproxy)
    _check_place(saved.plan.experiment, how)
    engine = _engine(how, saved)
    console = plain_console(stderr=how.as_json)  # with --json, standard output contains only the object
    console.print(saved.plan.experiment.title, style="bold", markup=False)
    for line in head_lines(saved.plan):
        console.print(Text(line))
    with explained_file_errors(), progress_on(console, verbose=how.verbose) as progress:
        result = run_experiment(
            replace(saved, retry_invalid=how.retry_invalid),
            RunControl(
                choice,
                print_to_stderr,
                workers_for(configuration.wiring, how.workers),
                verbose=how.verbose,
                progress=progress,
                arm_done=_say_arm if len(saved.plan.arms) <= MAX_ROWS else None,  # else the end groups them
                expected=expected,
            ),
            engine,
        )
    if agent_of(saved.plan) and not any(arm.hypothesis or arm.asserted for arm in _faulted(result)):
        show_page(saved)  # it states nothing: the tournament compares it
    else:
        show_result(console, result, page=True, verbose=how.verbose)
    return result


def _say_arm(arm: ArmResult, seconds: float) -> None:
    print_to_stderr(f"{arm.name}: {seconds:.1f} s, {arm_text(arm)}")


def _faulted(result: ExperimentResult) -> Iterator[ArmResult]:
    calm = {arm.name for arm in result.plan.arms if arm.is_calm}
    return (arm for arm in result.arms if arm.name not in calm)


def ready_to_run(saved: SavedExperiment, toxiproxy: str) -> Choice:
    """Return the Toxiproxy of its lab. Raises ``UserError`` if packages or files are not as needed."""
    configuration = saved.plan.configuration
    require_packages(configuration.wiring, saved.plan.subject)
    choice = choose_toxiproxy(toxiproxy, configuration.environ)
    check_files(configuration)
    return choice


def progress_on(console: Console, *, verbose: bool = False) -> AbstractContextManager[RunProgress | None]:
    visible = shows_progress(console, os.environ, verbose=verbose)
    return RunProgress(console) if visible else nullcontext()


def _check_place(experiment: Experiment, how: RunOptions) -> None:
    """Raise ``InputError`` if the subject is a function that cannot be called in this way."""
    if experiment.is_in_place and (how.engine != "local" or how.workers not in ("1", "auto")):
        raise InputError(
            "its subject is a function of this process, which runs one episode at a time:"
            ' name it in the wiring, {"subject": {"python": "module:function"}}, for --workers and --engine'
        )


def _engine(how: RunOptions, saved: SavedExperiment) -> Engine:
    if saved.plan.experiment.is_in_place:
        from wirefault.experiments.in_place import EventSink, InPlaceEngine

        return InPlaceEngine(saved.plan.experiment.subject, EventSink(saved, None))
    if how.engine == "local":
        return LocalEngine()
    from wirefault.experiments.ray_engine import RayEngine

    return RayEngine()


def workers_for(wiring: Wiring, workers: str) -> int:
    """Return how many episodes run in parallel. Raises ``InputError`` for more than the wiring allows."""
    alone = ""
    if isinstance(wiring.subject, ServiceSpec):
        alone = "its subject is a service that listens on one port"
    elif wiring.world is not None:
        alone = "its episodes share one world, so they cannot run in parallel"
    if workers == "auto":
        return 1 if alone else os.cpu_count() or 1
    if alone and workers != "1":
        raise InputError(f"--workers {workers}: {alone}; run it with --workers 1")
    return int(workers)


def check_files(configuration: Configuration) -> None:
    """Raise for a database of another version or another program, and for bad playbooks. ``UserError``."""
    wiring = configuration.wiring
    answers_intercepted = wiring.intercept is not None and wiring.intercept.models == "scripted"
    if answers_intercepted or any(link.upstream == SCRIPTED for link in wiring.links):
        check_playbooks(configuration.environ)
    check_version(configuration.state)
    if configuration.wiring.is_lab:
        check_effects(configuration.effects)
