"""Run the prompts of a wiring in a new lab, and show the results."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from wirefault.cli.faults import print_set
from wirefault.cli.options import PromptsOptions, RunOptions, environ_below, logs_in
from wirefault.cli.results import show_page, show_resume, show_run, show_why
from wirefault.cli.running import check_files, workers_for
from wirefault.cli.saved import explained_file_errors, saved_anew
from wirefault.core.errors import UNKNOWN, InputError
from wirefault.experiments.arms import ArmHistory
from wirefault.experiments.engine import LocalEngine, RunControl
from wirefault.experiments.evidence import AlteredError
from wirefault.experiments.plan import plan_plain_run
from wirefault.experiments.recorded import Recording, stored_recording
from wirefault.experiments.run_experiment import ExperimentResult, run_experiment
from wirefault.faults.sets.presets import find_set
from wirefault.gateway.cassettes import check_cassettes
from wirefault.history.logs import log_error
from wirefault.history.reader import HistoryError
from wirefault.judging.ending import FailOn, run_ending
from wirefault.judging.summary import counted
from wirefault.lab.extra import NotInstalled, require_charts, require_packages
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.report.experiment_plan import agent_line
from wirefault.report.terminal import plain_console
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.episode_faults import draws_for_used
from wirefault.settings.settings import SettingsError
from wirefault.settings.sources import dotenv_remarks
from wirefault.subjects.loading import split_subject_name
from wirefault.subjects.surroundings import ORIGINAL_VARIABLE, original_variables
from wirefault.wiring.prompts import PromptsError, check_tool_links
from wirefault.wiring.wiring import Wiring


def run_in_own_lab(
    wiring: Wiring, prompts: PromptsOptions, settings: Mapping[str, str], how: RunOptions
) -> tuple[ExperimentResult, Recording | None]:
    """Run the prompts in a new lab and show the results. Raises ``UserError``.

    Returns the result, with the exit code by what was found, and its recording; None if it cannot be read.
    """
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
        check_files(configuration)
    except (SettingsError, PromptsError) as error:
        log_error(logs_in(environ_below(how.out)), str(error))
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
        workers,
        verbose=not how.as_json,
        details=how.verbose,
        as_json=how.as_json,
        as_is=how.as_is,
        on_stderr=how.on_stderr,
        shows_why=False,  # the lines of page and charts come first
    )
    saved.facts.keeps_judgements = True  # the page shows them
    with explained_file_errors():
        result = run_experiment(saved, control, LocalEngine())
    history = saved.history_of(saved.plan.arms[0]) if workers > 1 else None
    if history and history.events:
        for line in (*loaded.problems, *loaded.notes):
            print_to_stderr(f"warning: {line}")
        show_run(
            plain_console(stderr=how.as_json),
            saved,
            history,
            how.as_json,
            shows_why=False,
            verbose=how.verbose,
        )
    run_id, recording = saved.experiment_id, stored_recording(saved)
    if result.code == 0 and how.fail_on is not None:
        result.code = ending_of(recording, how.fail_on)
    if (configuration.logs / "runs" / run_id).exists():
        if how.charts is not False:
            _draw_charts(configuration.logs, run_id, history)
        if not how.on_stderr:  # else the caller has more to show first
            show_page(saved, recording)
            for arm in recording.arms.values() if recording else ():
                show_why(plain_console(stderr=how.as_json), arm)
            show_resume(plain_console(stderr=how.as_json), saved)
    return result, recording


def ending_of(recording: Recording | None, fail_on: FailOn) -> int:
    """The exit code by what was found: ``UNKNOWN`` if it cannot be read, 0 if no run was recorded."""
    if recording is None:
        return UNKNOWN
    try:
        return max((run_ending(arm.summary, fail_on) for arm in recording.arms.values()), default=0)
    except InputError:
        return UNKNOWN


def _title(wiring: Wiring, subject: str | None, prompts: int) -> str:
    name = subject or ("the lab's agent" if wiring.is_lab else shlex.join(wiring.arguments) or "a subject")
    return f"{name}, {counted(prompts, 'prompt', 'prompts')}"


def _configuration(
    wiring: Wiring, how: RunOptions, prompts: Path | None, settings: Mapping[str, str]
) -> Configuration:
    environ = environ_below(how.out) | {ORIGINAL_VARIABLE: json.dumps(original_variables(os.environ))}
    if prompts is not None:
        environ["PROMPTS_FILE"] = str(prompts)
    if how.playbooks is not None:
        environ["PLAYBOOKS"] = str(how.playbooks)
    # the environment of an unchanged command is for the command, not for the lab
    return load_configuration(environ, settings, wiring, from_surroundings=wiring.intercept is None)


def _draw_charts(logs: Path, run_id: str, history: ArmHistory | None) -> None:
    """Draw the charts; ``history`` has the events of all runs if there are several."""
    try:
        require_charts()
    except NotInstalled as error:
        print_to_stderr(f"no charts: {error}")
        return
    # matplotlib is slow to import, and only runs with charts need it
    from wirefault.judging.chart_data import Selection
    from wirefault.judging.charted import run_data
    from wirefault.report.charts import ChartsError, select_runs, write_charts

    folder = logs / "charts" / run_id
    try:
        whole = Selection((replace(run_data(history.events), run_id=run_id),)) if history else None
        write_charts(whole or select_runs(logs, run_id, print_to_stderr), folder, logs)
    except (ChartsError, HistoryError, AlteredError, OSError) as error:
        print_to_stderr(f"no charts: {error}")
    else:
        print_to_stderr(f"charts: {folder}")
