"""Run experiments and wirings, each in a new lab, and show the results."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from wirefault.cli.faults import print_set
from wirefault.cli.options import PromptsOptions, RunOptions, environ_below, logs_in
from wirefault.cli.reports import make_reports_folder, write_reports
from wirefault.core.errors import DEVIATED, LAB_FAILED, UNKNOWN, InputError, UserError, error_text
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.arms import ArmHistory
from wirefault.experiments.engine import Engine, LocalEngine, RunControl
from wirefault.experiments.evidence import AlteredError
from wirefault.experiments.experiment import IN_PLACE, Experiment
from wirefault.experiments.experiment_file import (
    ExperimentFile,
    experiments_below,
    files_meant,
    is_module_name,
    load_experiments,
    load_from_module,
)
from wirefault.experiments.index import last_run_of
from wirefault.experiments.plan import ExperimentPlan, levels_of, plan_experiment, plan_plain_run, stressed
from wirefault.experiments.recorded import RecordedArm, recording_of, repeated_part, saved_plan
from wirefault.experiments.run_experiment import ExperimentResult, obstacles_in, run_experiment
from wirefault.experiments.run_tournament import (
    Tournament,
    TournamentResult,
    agent_of,
    contests_in,
    is_next_arm,
    is_tournament,
    load_tournament,
    run_tournament,
    save_tournament,
)
from wirefault.experiments.saved import SavedExperiment, load_saved, save
from wirefault.experiments.verdict import ArmResult, Check
from wirefault.faults.sets.presets import find_set
from wirefault.gateway.cassettes import check_cassettes
from wirefault.history.events import RunFinished
from wirefault.history.logs import log_error, strip_control
from wirefault.history.reader import HistoryError, read_history
from wirefault.judging.summary import counted, summarise
from wirefault.lab.extra import NotInstalled, require_charts, require_packages
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import Choice, choose_toxiproxy
from wirefault.model_server.playbooks import check_playbooks
from wirefault.report.experiment import (
    agent_line,
    arm_line,
    head_lines,
    junit,
    print_effects,
    print_plan,
    print_verdict,
    undecidable_lines,
)
from wirefault.report.next_command import print_why, why_line, worst_episode
from wirefault.report.progress import RunProgress, shows_progress
from wirefault.report.replies import print_replies
from wirefault.report.resilience import print_resilience
from wirefault.report.summary import findings_table, print_summary
from wirefault.report.surface import print_surface
from wirefault.report.tables import one_line
from wirefault.report.terminal import plain_console
from wirefault.report.tournament import print_tournament
from wirefault.runner.run import new_run_id
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.episode_faults import draws_for_used
from wirefault.settings.settings import SettingsError
from wirefault.settings.sources import dotenv_remarks
from wirefault.state.effects import check_effects
from wirefault.state.state import check_version
from wirefault.subjects.loading import split_subject_name
from wirefault.subjects.surroundings import ORIGINAL_VARIABLE, check_program, original_variables
from wirefault.wiring.links import SCRIPTED
from wirefault.wiring.prompts import PromptsError, check_tool_links
from wirefault.wiring.subject_spec import ServiceSpec
from wirefault.wiring.wiring import Wiring, is_wiring_file, load_wiring

# exit codes of several experiments, worst first
_GRAVITY = (INTERRUPTED, LAB_FAILED, DEVIATED, UNKNOWN, 0)


def saved_experiment(experiment: str, out: Path | None, files: Sequence[Path] = ()) -> SavedExperiment:
    """Load the saved experiment of that id. Raises ``UserError``.

    ``files``: the experiment's file, so that its functions run even if another user signed the plan.
    """
    environ = environ_below(out)
    return _trusting(load_saved(logs_in(environ), experiment, environ), files, environ)


def resumed_experiment(experiment: str, out: Path | None, files: Sequence[Path] = ()) -> SavedExperiment:
    """Load the saved experiment of that id, to run the rest of it. Raises ``UserError``."""
    saved = saved_experiment(experiment, out, files)
    saved.require_own_plan("--resume", with_code=False)
    _check_function(saved)
    return saved


def repeated_experiment(
    name: str, episodes: Sequence[str], arms: Sequence[str], out: Path | None, files: Sequence[Path] = ()
) -> SavedExperiment:
    """Save the plan of that experiment, or the selected parts, under a new id. Raises ``UserError``.

    The id of one arm's run selects that arm.
    """
    environ = environ_below(out)
    saved, arm_of_run = saved_plan(logs_in(environ), name, environ)
    saved = _trusting(saved, files, environ)
    saved.require_own_plan("--again", with_code=True)
    _check_function(saved)
    return saved_anew(repeated_part(saved.plan, episodes, arms or arm_of_run))


def _check_function(saved: SavedExperiment) -> None:
    """Raise ``InputError`` if its subject was a function of a process that has ended."""
    subject = saved.plan.experiment.subject
    if isinstance(subject, str) and subject.startswith(IN_PLACE):
        raise InputError(
            f"its subject was the function {subject.removeprefix(IN_PLACE)} of the process that ran it:"
            " name the experiment, too, as MODULE:NAME"
        )


def _trusting(saved: SavedExperiment, files: Sequence[Path], environ: Mapping[str, str]) -> SavedExperiment:
    if not files:
        return saved
    if len(files) > 1:
        raise InputError(f"name one file, the one of {saved.experiment_id}, not {len(files)}")
    named = is_module_name(files[0])
    if not named and is_wiring_file(files[0]):
        wiring = load_wiring(files[0])
        plan = replace(saved.plan, configuration=replace(saved.plan.configuration, wiring=wiring))
        return saved.trusting(plan)
    loaded = load_from_module(str(files[0])) if named else load_experiments(files[0])
    plans = [plan_experiment(each, environ) for each in loaded]
    plan = next((each for each in plans if each.experiment.title == saved.plan.experiment.title), plans[0])
    trusted = saved.trusting(plan)
    if plan.experiment.is_in_place:
        experiment = saved.plan.experiment.model_copy(update={"subject": plan.experiment.subject})
        trusted = replace(trusted, plan=replace(saved.plan, experiment=experiment))
    return trusted


def saved_anew(plan: ExperimentPlan) -> SavedExperiment:
    """Save the plan under a new id without running it. Raises ``UserError``."""
    with _explained_file_errors():
        return save(plan, new_run_id())


def plans_of(targets: Iterable[Path], how: RunOptions) -> list[ExperimentPlan]:
    """Read and plan all experiments before any of them runs. Raises ``UserError``."""
    environ = environ_below(how.out)
    read = [each for target in targets for each in _read(target, how)]
    selected = [each for each in read if _is_selected(each, how.filters)]
    if not selected:
        tags = sorted({tag for each in read for tag in each.experiment.tags})
        raise InputError(f"--filter: no experiment has this title or tag; tags: {', '.join(tags) or 'none'}")
    plans: list[ExperimentPlan] = []
    for each in selected:
        plan = plan_experiment(each, environ)
        if plans and is_next_arm(plans[-1], plan) and each.experiment.seed is None:
            seeded = each.experiment.model_copy(update={"seed": plans[-1].seed})
            plan = plan_experiment(replace(each, experiment=seeded), environ)
        plans.append(plan)
    for line in dict.fromkeys(line for plan in plans for line in plan.notes):
        print_to_stderr(f"warning: {line}")
    return [_tagged(plan, how.tags) for plan in plans]


def _tagged(plan: ExperimentPlan, tags: Sequence[str]) -> ExperimentPlan:
    both = list(dict.fromkeys([*plan.experiment.tags, *tags]))
    return replace(plan, experiment=plan.experiment.model_copy(update={"tags": both}))


def _is_selected(file: ExperimentFile, filters: Sequence[str]) -> bool:
    names = [name.casefold() for name in (file.experiment.title, *file.experiment.tags)]
    patterns = [pattern.casefold() for pattern in filters]
    return not filters or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _read(target: Path, how: RunOptions) -> list[ExperimentFile]:
    if is_module_name(target):
        return load_from_module(str(target), how.changes)
    files = experiments_below(target) if how.recursive else files_meant(target)
    return [each for file in files for each in load_experiments(file, how.changes)]


def show_plans(plans: Iterable[ExperimentPlan]) -> None:
    """Show the plans. Raises ``InputError`` for claims that they cannot decide."""
    problems = []
    for plan in plans:
        print_plan(plain_console(), plan, last_run_of(plan.configuration.logs, plan.experiment.title))
        problems += [f"{plan.experiment.title}: {line}" for line in undecidable_lines(plan)]
    if problems:
        raise InputError("\n".join(problems))


def run_experiments(targets: Sequence[Path], how: RunOptions) -> int:
    """Run the experiments in order, show their verdicts, return the exit code. Raises ``UserError``."""
    plans = plans_of(targets, how)
    for option, file in (("--junit", how.junit), ("--output", how.output)):
        if file is not None and not file.absolute().parent.is_dir():
            raise InputError(f"{option} {file}: no folder {file.parent}")
    for plan in plans:
        _check_place(plan.experiment, how)
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
        how.junit.write_text(junit(results), encoding="utf-8")
    if how.reports is not None:
        write_reports(how.reports, results, text)
    return min((result.code for result in results), key=_GRAVITY.index)


def _tournament_anew(plans: Sequence[ExperimentPlan]) -> Tournament:
    """Save the plans of its arms under a new id. Raises ``UserError``."""
    with _explained_file_errors():
        return save_tournament(plans, new_run_id())


def run_and_show_tournament(tournament: Tournament, how: RunOptions) -> TournamentResult:
    """Run the rest of each arm and show how the arms compare. Raises ``UserError``."""
    console = plain_console(stderr=how.as_json)
    result = run_tournament(
        tournament,
        lambda saved: run_and_show(saved, how),
        print_to_stderr,
        lambda arm: arm.code == INTERRUPTED or (how.fail_fast and arm.code != 0),
    )
    show_tournament(console, result, how.out, page=True)
    return result


def show_tournament(
    console: Console, result: TournamentResult, out: Path | None, *, page: bool = False
) -> None:
    """Show how the arms compare, and how to resume. ``page``: write its page, too."""
    print_tournament(console, result)
    tournament = result.tournament
    if any(each.can_be_resumed for each in result.results):
        words = ["wirefault", "run", "--resume", tournament.id, *([f"--out={out}"] if out else [])]
        console.print(f"to resume it: {shlex.join(words)}", soft_wrap=True)
    console.print(f"tournament: wirefault report {tournament.id}", soft_wrap=True)
    if page:
        from wirefault.report.page.tournament import tournament_page_line

        print_to_stderr(tournament_page_line(result))


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
        sys.stdout.write(json.dumps(result.as_json(), ensure_ascii=False) + "\n")
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
        again = f"wirefault search resume {saved.experiment_id} resumes it"
        raise InputError(f"{saved.experiment_id} is a search: {again}")
    result = run_and_show(saved, how)
    if how.as_json:
        sys.stdout.write(json.dumps(result.as_json(), ensure_ascii=False) + "\n")
    return result.code


def run_and_show(saved: SavedExperiment, how: RunOptions) -> ExperimentResult:
    """Run the rest of the experiment and show the verdict. Raises ``UserError``."""
    configuration = saved.plan.configuration
    choice = ready_to_run(saved, how.toxiproxy)
    _check_place(saved.plan.experiment, how)
    engine = _engine(how, saved)
    console = plain_console(stderr=how.as_json)  # with --json, standard output contains only the object
    console.print(saved.plan.experiment.title, style="bold", markup=False)
    for line in head_lines(saved.plan):
        console.print(Text(line))
    with _explained_file_errors(), _progress_on(console, verbose=how.verbose) as progress:
        result = run_experiment(
            replace(saved, retry_invalid=how.retry_invalid),
            RunControl(
                choice,
                print_to_stderr,
                lambda arm: console.print(arm_line(arm)),
                workers_for(configuration.wiring, how.workers),
                how.verbose,
                progress=progress,
            ),
            engine,
        )
    if agent_of(saved.plan) and not any(arm.hypothesis or arm.asserted for arm in _faulted(result)):
        show_page(saved)  # it states nothing: the tournament compares it
    else:
        show_verdict(console, result, how.out, page=True)
    return result


def _faulted(result: ExperimentResult) -> Iterator[ArmResult]:
    calm = {arm.name for arm in result.plan.arms if arm.is_calm}
    return (arm for arm in result.arms if arm.name not in calm)


def own_recording(name: str, arm: str | None, out: Path | None) -> tuple[SavedExperiment, RecordedArm]:
    """Return a recorded experiment whose plan may be run, and its arm. Raises ``UserError``."""
    environ = environ_below(out)
    saved, of_run = saved_plan(logs_in(environ), name, environ)
    saved.require_own_plan("--again", with_code=True)
    _check_function(saved)
    return saved, recording_of(saved).arm(arm or next(iter(of_run), None))


def ready_to_run(saved: SavedExperiment, toxiproxy: str) -> Choice:
    """Return the Toxiproxy of its lab. Raises ``UserError`` if packages or files are not as needed."""
    configuration = saved.plan.configuration
    require_packages(configuration.wiring, saved.plan.subject)
    choice = choose_toxiproxy(toxiproxy, configuration.environ)
    _check_files(configuration)
    return choice


def _progress_on(console: Console, *, verbose: bool) -> AbstractContextManager[RunProgress | None]:
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


def show_run(
    console: Console,
    saved: SavedExperiment,
    history: ArmHistory,
    as_json: bool = False,
    *,
    shows_why: bool = True,
) -> None:
    """Show the summary of all runs of an experiment without a hypothesis.

    ``shows_why``: with the line about the worst episode, which must come last.
    """
    summary = summarise(history.events)
    print_summary(console, summary, f"wirefault run --again {saved.experiment_id}", logs=saved.logs)
    if shows_why:
        print_why(console, summary, saved.logs)
    if as_json:
        sys.stdout.write(json.dumps(summary.as_json(), ensure_ascii=False) + "\n")


def show_verdict(console: Console, result: ExperimentResult, out: Path | None, *, page: bool = False) -> None:
    """Show the effect of the faults, the verdict and the folder; without a verdict, how to resume.

    ``page``: write its page, too.
    """
    if result.plan.is_plain_run:
        history = result.saved.history_of(result.plan.arms[0])
        if history.events:
            show_run(console, result.saved, history)
    else:
        print_effects(console, result.effects)
        print_resilience(console, result.arms)
        print_surface(console, result)
        if result.plan.experiment.replies:
            print_replies(console, recording_of(result.saved))
        print_verdict(console, result, obstacles_in(result))
    if result.can_be_resumed:
        words = ["wirefault", "run", "--resume", result.saved.experiment_id]
        console.print(
            f"to resume it: {shlex.join([*words, *([f'--out={out}'] if out else [])])}", soft_wrap=True
        )
    console.print(f"experiment: {result.saved.folder}", soft_wrap=True)
    if page and result.arms:
        show_page(result.saved)
    decided_by = result.judged.decided_by if result.judged else None
    if decided_by is not None:
        _show_failed_arm(console, result.saved, decided_by)


def _show_failed_arm(console: Console, saved: SavedExperiment, check: Check) -> None:
    """Show the findings of the check's arm, and how to see the episode that explains the check best."""
    recording = recording_of(saved)
    arm = recording.arms.get(check.arm)
    if arm is None:  # a statement about the whole experiment, or an arm that could not run
        return
    try:
        summary = arm.summary
    except InputError:  # the verdict says that it cannot be read
        return
    if summary.findings:
        console.print()
        console.print(findings_table(summary.findings, summary.run_id, saved.logs))
    if not (key := worst_episode(summary.episodes, summary.findings, check.episodes)):
        key = next((episode.episode for episode in summary.episodes if episode.outcome != "success"), "")
    for episode in summary.episodes:
        if episode.episode == key:
            because = f", {one_line(episode.why)}" if episode.why else ""
            console.print(Text(strip_control(f"{key} in {check.arm}: {episode.outcome}{because}")))
            name = "" if arm is recording.default_arm else check.arm
            line = why_line(saved.experiment_id, key, saved.logs, arm=name)
            console.print(Text(strip_control(line)), soft_wrap=True)


@contextmanager
def _explained_file_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(error_text(error)) from None


@dataclass(frozen=True)
class CompletedRun:
    """The exit code of a finished run, and its recording; a run that did not start has no history."""

    code: int
    saved: SavedExperiment

    @property
    def logs(self) -> Path:
        return self.saved.logs

    @property
    def run_id(self) -> str:
        return self.saved.experiment_id


def run_in_own_lab(
    wiring: Wiring, prompts: PromptsOptions, settings: Mapping[str, str | None], how: RunOptions
) -> CompletedRun:
    """Run the prompts in a new lab and show the results. Raises ``UserError``."""
    require_packages(wiring, how.subject)
    if how.charts:
        require_charts()
    try:
        configuration = _configuration(wiring, how, prompts.file, settings)
        choice = choose_toxiproxy(how.toxiproxy, configuration.environ)
        # report mistakes in the run's files before the lab starts
        if how.subject:
            split_subject_name(how.subject)
        check_cassettes(configuration.settings)
        loaded = prompts.load(configuration.prompts, configuration.wiring.links)
        if wiring.intercept is None and draws_for_used(configuration.settings):
            check_tool_links(loaded, wiring.links.tool_names)
        workers = workers_for(configuration.wiring, how.workers)
        _check_files(configuration)
    except (SettingsError, PromptsError) as error:
        log_error(logs_in(environ_below(how.out)), str(error))
        # the console shows it, so an unwritable log is not fatal / otherwise .env is not read,
        # because the run has its settings already
        raise
    if wiring.intercept is None:  # else .env is not read, and the run has its settings already
        for remark in dotenv_remarks(Path(".env")):
            print_to_stderr(f"warning: {remark}")
    if not how.on_stderr:  # else the command line is the agent
        print_to_stderr(agent_line(wiring, how.subject or ""))
    level = configuration.settings.chaos_level
    if configuration.settings.faults and level != 1:
        print_to_stderr(f"the fault set at chaos level {level:g}:")
        print_set(find_set(configuration.settings.faults, wiring.links), level, err=True)
    title = _title(wiring, how.subject, len(loaded.entries))
    saved = saved_anew(plan_plain_run(title, configuration, loaded.entries, how.subject or "", loaded.source))
    control = RunControl(
        choice,
        print_to_stderr,
        lambda _: None,
        workers,
        verbose=not how.as_json,
        as_json=how.as_json,
        as_is=how.as_is,
        on_stderr=how.on_stderr,
        shows_why=False,  # the lines of page and charts come first
    )
    with _explained_file_errors():
        code = run_experiment(saved, control, LocalEngine()).code
    history = saved.history_of(saved.plan.arms[0]) if workers > 1 else None
    if history and history.events:
        for line in (*loaded.problems, *loaded.notes):
            print_to_stderr(f"warning: {line}")
        show_run(plain_console(stderr=how.as_json), saved, history, how.as_json, shows_why=False)
    run_id = saved.experiment_id
    if (configuration.logs / "runs" / run_id).exists():
        if how.charts is not False:
            _draw_charts(configuration.logs, run_id, history)
        if not how.on_stderr:  # else the caller has more to show first
            show_page(saved)
            show_why(plain_console(stderr=how.as_json), configuration.logs, run_id, history)
    return CompletedRun(code, saved)


def _check_files(configuration: Configuration) -> None:
    """Raise for a database of another version or another program, and for bad playbooks. ``UserError``."""
    wiring = configuration.wiring
    answers_intercepted = wiring.intercept is not None and wiring.intercept.models == "scripted"
    if answers_intercepted or any(link.upstream == SCRIPTED for link in wiring.links):
        check_playbooks(configuration.environ)
    check_version(configuration.state)
    if configuration.wiring.is_lab:
        check_effects(configuration.effects)


def _title(wiring: Wiring, subject: str | None, prompts: int) -> str:
    name = subject or ("the lab's agent" if wiring.is_lab else shlex.join(wiring.arguments) or "a subject")
    return f"{name}, {counted(prompts, 'prompt', 'prompts')}"


def _configuration(
    wiring: Wiring, how: RunOptions, prompts: Path | None, settings: Mapping[str, str | None]
) -> Configuration:
    environ = environ_below(how.out) | {ORIGINAL_VARIABLE: json.dumps(original_variables(os.environ))}
    if prompts is not None:
        environ["PROMPTS_FILE"] = str(prompts)
    if how.playbooks is not None:
        environ["PLAYBOOKS"] = str(how.playbooks)
    command_line = {name: value for name, value in settings.items() if value is not None}
    # the environment of an unchanged command is for the command, not for the lab
    return load_configuration(environ, command_line, wiring, from_surroundings=wiring.intercept is None)


def show_page(saved: SavedExperiment) -> None:
    """Write the page of what was recorded, and print its path.

    Where OpenTelemetry's variables name a collector, its spans go there; a failure to send them is a warning.
    """
    from wirefault.report.page.write import page_line  # the template engine is slow to import
    from wirefault.report.telemetry.export import export, is_wanted

    print_to_stderr(page_line(saved.logs, saved.experiment_id, saved.plan.configuration.environ))
    if is_wanted(os.environ):
        try:
            print_to_stderr(f"spans exported: {export(recording_of(saved))}")
        except UserError as error:
            print_to_stderr(f"warning: no spans exported: {error}")


def show_why(console: Console, logs: Path, run_id: str, history: ArmHistory | None) -> None:
    """Print the command for the worst episode, if the run has its end; the run's process told the rest."""
    try:
        events = history.events if history else read_history(logs, run_id).events()
    except HistoryError:
        return
    if any(isinstance(event, RunFinished) for event in events):
        print_why(console, summarise(events), logs)


def _draw_charts(logs: Path, run_id: str, history: ArmHistory | None) -> None:
    """Draw the charts; ``history`` has the events of all runs if there are several."""
    try:
        require_charts()
    except NotInstalled as error:
        print_to_stderr(f"no charts: {error}")
        return
    # matplotlib is slow to import, and only runs with charts need it
    from wirefault.report.charts import write_charts
    from wirefault.report.charts.data import Selection
    from wirefault.report.charts.extract import ChartsError, run_data, select_runs

    folder = logs / "charts" / run_id
    try:
        whole = Selection((replace(run_data(history.events), run_id=run_id),)) if history else None
        write_charts(whole or select_runs(logs, run_id, print_to_stderr), folder, logs)
    except (ChartsError, HistoryError, AlteredError, OSError) as error:
        print_to_stderr(f"no charts: {error}")
    else:
        print_to_stderr(f"charts: {folder}")
