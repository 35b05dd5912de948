"""A flight in a lab of its own: an experiment without a hypothesis, and its charts."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from wirefault.cli.faults import print_set
from wirefault.cli.lab_extra import require_lab
from wirefault.cli.options import PromptsOptions
from wirefault.cli.running import saved_anew, show_run, workers_for
from wirefault.experiments.arms import ArmHistory
from wirefault.experiments.engine import LocalEngine, RunControl
from wirefault.experiments.plan import plan_plain_run
from wirefault.experiments.run_experiment import run_experiment
from wirefault.faults.sets.presets import find_set
from wirefault.gateway.cassettes import check_cassettes
from wirefault.history.logs import log_error
from wirefault.history.reader import HistoryError
from wirefault.judging.summary import counted
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.report.terminal import plain_console
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import SettingsError
from wirefault.settings.sources import dotenv_remarks
from wirefault.state.state import check_version
from wirefault.subjects.loading import split_subject_name
from wirefault.subjects.surroundings import ORIGINAL_VARIABLE, original_variables
from wirefault.wiring.prompts import PromptsError
from wirefault.wiring.wiring import Wiring


@dataclass(frozen=True)
class RunOptions:
    """What the command line says besides the wiring, the prompts and the settings."""

    subject: str | None
    toxiproxy: str
    out: Path | None
    charts: bool
    as_json: bool
    workers: str = "1"


@dataclass(frozen=True)
class Flown:
    """A flight that has ended: its exit code, and where its history is, if it came as far."""

    code: int
    logs: Path
    run_id: str


def run_in_own_lab(
    wiring: Wiring, prompts: PromptsOptions, settings: dict[str, str | None], options: RunOptions
) -> Flown:
    """Flies, and shows what happened. Raises ``UserError``."""
    require_lab()
    out = options.out
    try:
        configuration = _configuration(wiring, out, prompts.file, settings)
        choice = choose_toxiproxy(options.toxiproxy, configuration.environ)
        # a mistake in what the run will read is reported before the lab starts
        if options.subject:
            split_subject_name(options.subject)
        check_cassettes(configuration.settings)
        loaded = prompts.load(configuration.prompts, configuration.wiring.links)
        workers = workers_for(configuration.wiring, options.workers)
        check_version(configuration.state)
    except (SettingsError, PromptsError) as error:
        log_error(Path(os.environ.get("LOGS_DIR") or (out or Path()) / "logs"), str(error))
        raise  # the console shows it, which is enough if the log cannot be written
    if wiring.intercept is None:  # else .env is not read; the run, which has its settings already, does not
        for remark in dotenv_remarks(Path(".env")):
            print_to_stderr(f"warning: {remark}")
    level = configuration.settings.chaos_level
    if configuration.settings.faults and level != 1:
        print_to_stderr(f"the fault set at chaos level {level:g}:")
        print_set(find_set(configuration.settings.faults, wiring.links), level, err=True)
    title = _title(wiring, options.subject, len(loaded.entries))
    saved = saved_anew(
        plan_plain_run(title, configuration, loaded.entries, options.subject or "", loaded.source)
    )
    cockpit = RunControl(
        choice, print_to_stderr, lambda _: None, workers, verbose=not options.as_json, as_json=options.as_json
    )
    code = run_experiment(saved, cockpit, LocalEngine()).code
    history = saved.history_of(saved.plan.arms[0]) if workers > 1 else None
    if history and history.events:
        for problem in loaded.problems:
            print_to_stderr(f"warning: {problem}")
        show_run(plain_console(stderr=options.as_json), saved, history, options.as_json)
    run_id = saved.experiment_id
    if options.charts and (configuration.logs / "runs" / run_id).exists():
        _draw_charts(configuration.logs, run_id, history)
    return Flown(code, configuration.logs, run_id)


def _title(wiring: Wiring, subject: str | None, prompts: int) -> str:
    flown = subject or ("the lab's agent" if wiring.is_lab else shlex.join(wiring.said) or "a subject")
    return f"{flown}, {counted(prompts, 'prompt', 'prompts')}"


def _configuration(
    wiring: Wiring, out: Path | None, prompts: Path | None, settings: dict[str, str | None]
) -> Configuration:
    environ = dict(os.environ) | {ORIGINAL_VARIABLE: json.dumps(original_variables(os.environ))}
    if out is not None:
        environ |= {
            "STATE_DB": str(out / "state" / "state.db"),
            "EFFECTS_DB": str(out / "state" / "effects.db"),
            "LOGS_DIR": str(out / "logs"),
        }
    if prompts is not None:
        environ["PROMPTS_FILE"] = str(prompts)
    command_line = {name: value for name, value in settings.items() if value is not None}
    # what stands in the surroundings of a command that is flown unchanged is meant for the command
    return load_configuration(environ, command_line, wiring, from_surroundings=wiring.intercept is None)


def _draw_charts(logs: Path, run_id: str, history: ArmHistory | None) -> None:
    """``history``: that of all runs of the flight, where it is not one alone."""
    # matplotlib is slow to import: only a run whose charts are drawn waits for it
    from wirefault.report.charts import write_charts
    from wirefault.report.charts.data import Selection
    from wirefault.report.charts.extract import ChartsError, run_data, select_runs

    folder = logs / "charts" / run_id
    try:
        whole = Selection((replace(run_data(history.events), run_id=run_id),)) if history else None
        write_charts(whole or select_runs(logs, run_id, print_to_stderr), folder, logs)
    except (ChartsError, HistoryError, OSError) as error:
        print_to_stderr(f"no charts: {error}")
    else:
        print_to_stderr(f"charts: {folder}")
