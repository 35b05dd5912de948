"""``windtunnel demo``: a lab, one run in it, its charts, and the lab gone again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from windtunnel.cassettes.cassettes import check_cassettes
from windtunnel.cli.faults import print_set
from windtunnel.cli.lab_extra import require_lab
from windtunnel.cli.run import prompts_options, subject_option
from windtunnel.faults.sets.presets import find_set
from windtunnel.history.logs import log_error
from windtunnel.history.reader import HistoryError
from windtunnel.judging.prompts import PromptsError, load_prompts
from windtunnel.lab.demo import run_demo
from windtunnel.lab.process import print_to_stderr
from windtunnel.lab.toxiproxy import choose_toxiproxy
from windtunnel.runner.run import new_run_id
from windtunnel.settings.configuration import Configuration, load_configuration
from windtunnel.settings.settings import NAMES, Settings, SettingsError
from windtunnel.state.state import check_version
from windtunnel.subjects.python import split_subject_name


def _setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option for each setting; validated with the other sources, not here."""
    for name in reversed(NAMES):
        text = Settings.model_fields[name].description or ""
        flag = "--" + name.replace("_", "-")
        command = click.option(flag, name, metavar="VALUE", help=f"{text} [{name.upper()}]")(command)
    return command


@click.command("demo")
@_setting_options
@prompts_options
@subject_option
@click.option("--toxiproxy", default="auto", show_default=True, help="auto, embedded, or a server's URL")
@click.option("--out", type=click.Path(path_type=Path), help="folder for state/ and logs/; default: this one")
@click.option("--charts/--no-charts", default=True, show_default=True, help="draw the run's charts")
@click.option("--json", "as_json", is_flag=True, help="end with one JSON object on standard output")
def demo_command(
    prompts: Path | None,
    only: tuple[str, ...],
    match: str,
    subject: str,
    toxiproxy: str,
    out: Path | None,
    charts: bool,
    as_json: bool,
    **settings: str | None,
) -> None:
    """Start a lab, send the prompts through it under chaos, show what happened, take the lab down."""
    require_lab()
    try:
        configuration = _configuration(out, prompts, settings)
        choice = choose_toxiproxy(toxiproxy, configuration.environ)
        # a mistake in what the run will read is reported before the lab starts
        split_subject_name(subject)
        check_cassettes(configuration.settings)
        load_prompts(configuration.prompts, only, match)
        check_version(configuration.state)
    except (SettingsError, PromptsError) as error:
        log_error(Path(os.environ.get("LOGS_DIR") or (out or Path()) / "logs"), str(error))
        raise  # the console shows it, which is enough if the log cannot be written
    level = configuration.settings.chaos_level
    if configuration.settings.faults and level != 1:
        print_to_stderr(f"the fault set at chaos level {level:g}:")
        print_set(find_set(configuration.settings.faults), level, err=True)
    run_id = new_run_id()
    arguments = [f"--subject={subject}", f"--run-id={run_id}", *(["--json"] if as_json else [])]
    arguments += [f"--only={name}" for name in only] + ([f"--match={match}"] if match else [])
    code = run_demo(configuration, choice, arguments, print_to_stderr)
    if charts and (configuration.logs / "runs" / run_id).exists():
        _draw_charts(configuration.logs, run_id)
    sys.exit(code)


def _configuration(out: Path | None, prompts: Path | None, settings: dict[str, str | None]) -> Configuration:
    environ = dict(os.environ)
    if out is not None:
        environ |= {
            "STATE_DB": str(out / "state" / "state.db"),
            "EFFECTS_DB": str(out / "state" / "effects.db"),
            "LOGS_DIR": str(out / "logs"),
        }
    if prompts is not None:
        environ["PROMPTS_FILE"] = str(prompts)
    command_line = {name: value for name, value in settings.items() if value is not None}
    return load_configuration(environ, command_line)


def _draw_charts(logs: Path, run_id: str) -> None:
    # matplotlib is slow to import: only a run whose charts are drawn waits for it
    from windtunnel.report.charts import write_charts
    from windtunnel.report.charts.pick import ChartsError, pick

    folder = logs / "charts" / run_id
    try:
        write_charts(pick(logs, run_id, print_to_stderr), folder, logs)
    except (ChartsError, HistoryError, OSError) as error:
        print_to_stderr(f"no charts: {error}")
    else:
        print_to_stderr(f"charts: {folder}")
