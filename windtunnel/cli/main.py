"""The command line: ``windtunnel demo``, ``lab``, ``judge``, ``faults`` and ``toxiproxy``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from windtunnel.cli.faults import faults, print_set
from windtunnel.core.sockets import LOOPBACK
from windtunnel.faults.sets.presets import find_set
from windtunnel.history.logs import log_error
from windtunnel.history.reader import HistoryError, Torn, latest_run, read_run
from windtunnel.judging.prompts import PromptsError, load_prompts
from windtunnel.judging.summary import summarise
from windtunnel.lab import daemon
from windtunnel.lab.demo import fly, tell
from windtunnel.lab.process import python
from windtunnel.lab.toxiproxy import choose_toxiproxy
from windtunnel.links.catalog import TOXIPROXY_PORT
from windtunnel.report.console import episode_line, line_width, plain_console, print_summary
from windtunnel.report.reproduce import DEMO_PRESET, command
from windtunnel.settings.configuration import Configuration, load_configuration
from windtunnel.settings.settings import NAMES, Settings, SettingsError

USAGE_ERROR = 2


class Group(click.Group):
    """Turns the errors that are meant for people into one line and exit code 2."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (SettingsError, PromptsError) as error:
            raise click.UsageError(str(error), None) from None


@click.group(cls=Group)
@click.version_option(package_name="windtunnel")
def main() -> None:
    """Windtunnel, a chaos lab for AI agents."""


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option for each setting; validated with the other sources, not here."""
    for name in reversed(NAMES):
        text = Settings.model_fields[name].description or ""
        flag = "--" + name.replace("_", "-")
        command = click.option(flag, name, metavar="VALUE", help=f"{text} [{name.upper()}]")(command)
    return command


@main.command()
@setting_options
@click.option("--prompts", type=click.Path(path_type=Path), help="the prompts file [PROMPTS_FILE]")
@click.option("--toxiproxy", default="auto", show_default=True, help="auto, embedded, or a server's URL")
@click.option("--out", type=click.Path(path_type=Path), help="folder for state/ and logs/; default: this one")
@click.option("--charts/--no-charts", default=True, show_default=True, help="draw the run's charts")
@click.option("--json", "as_json", is_flag=True, help="end with one JSON object on standard output")
def demo(
    prompts: Path | None, toxiproxy: str, out: Path | None, charts: bool, as_json: bool, **given: str | None
) -> None:
    """Start a lab, send the prompts through it under chaos, show what happened, take the lab down."""
    try:
        configuration = _configuration(out, prompts, given)
        choice = choose_toxiproxy(toxiproxy, configuration.environ)
        load_prompts(configuration.prompts)  # what cannot be flown is said before the lab starts
    except (SettingsError, PromptsError) as error:
        log_error(Path(os.environ.get("LOGS_DIR") or (out or Path()) / "logs"), str(error))
        raise  # said on the console, which is enough if the log cannot be written
    level = configuration.settings.chaos_level
    if configuration.settings.faults and level != 1:
        tell(f"the fault set at chaos level {level:g}:")
        print_set(find_set(configuration.settings.faults), level, err=True)
    before = _runs(configuration)
    code = fly(configuration, choice, ["--json"] if as_json else [], tell)
    if charts:
        _draw_charts(configuration, before)
    sys.exit(code)


def _configuration(out: Path | None, prompts: Path | None, given: dict[str, str | None]) -> Configuration:
    environ = dict(os.environ)
    if out is not None:
        environ |= {
            "STATE_DB": str(out / "state" / "state.db"),
            "EFFECTS_DB": str(out / "state" / "effects.db"),
            "LOGS_DIR": str(out / "logs"),
        }
    if prompts is not None:
        environ["PROMPTS_FILE"] = str(prompts)
    command_line = {name: value for name, value in given.items() if value is not None}
    return load_configuration(environ, command_line, DEMO_PRESET)


def _runs(configuration: Configuration) -> set[str]:
    folder = configuration.logs / "runs"
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def _draw_charts(configuration: Configuration, before: set[str]) -> None:
    """Charts of the run that this call made, if it made one with anything in it."""
    # matplotlib takes its time to load; only who draws pays it
    from windtunnel.report.charts import write_charts
    from windtunnel.report.charts.pick import ChartsError, pick

    for run_id in sorted(_runs(configuration) - before):
        folder = configuration.logs / "charts" / run_id
        try:
            write_charts(pick(configuration.logs, run_id, tell), folder)
        except (ChartsError, HistoryError, OSError) as error:
            tell(f"no charts: {error}")
        else:
            tell(f"charts: {folder}")


main.add_command(faults)


@main.group()
def lab() -> None:
    """A lab that stays up, to play with."""


@lab.command("up")
@click.option("--toxiproxy", default="auto", show_default=True, help="auto, embedded, or a server's URL")
def lab_up(toxiproxy: str) -> None:
    """Start a lab and leave it running; then: python -m agent."""
    configuration = load_configuration(os.environ)
    choose_toxiproxy(toxiproxy, configuration.environ)
    sys.exit(daemon.up(configuration, toxiproxy, tell))


@lab.command("down")
def lab_down() -> None:
    """Heal and stop the lab that is up."""
    sys.exit(daemon.down(load_configuration(os.environ), tell))


@lab.command("status")
def lab_status() -> None:
    """Show the lab that is up: addresses, attempt, toxics desired and observed."""
    sys.exit(daemon.status(load_configuration(os.environ), click.echo))


@main.command()
@click.argument("run")
@click.option("--logs", type=click.Path(path_type=Path), default=Path("logs"), show_default=True)
@click.option(
    "--prompts", metavar="PATH", default="agent/prompts.json", help="the run's, for the line that repeats it"
)
@click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")
def judge(run: str, logs: Path, prompts: str, as_json: bool) -> None:
    """Score a run again from its history, to the same outcomes. RUN is its id, or latest."""
    torn = Torn()
    try:
        summary = summarise(
            read_run(logs, latest_run(logs) if run == "latest" else run, torn), torn=torn.count
        )
    except ValueError as error:
        raise click.UsageError(str(error), None) from None
    if as_json:
        click.echo(json.dumps(summary.as_json(), ensure_ascii=False))
        return
    console = plain_console()
    for index, judgement in enumerate(summary.episodes, start=1):
        console.print(episode_line(judgement, index, len(summary.episodes), line_width(console)))
    settings = Settings(**summary.settings)
    print_summary(console, summary, command(settings, prompts, summary.lab_id))


@main.command()
@click.option("--host", default=LOOPBACK, show_default=True, help="host of the HTTP API")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=TOXIPROXY_PORT,
    show_default=True,
    help="its port; 0: any",
)
@click.option("--config", metavar="FILE", help="proxies to start with: what POST /populate takes")
@click.option("--proxy-metrics", is_flag=True, help="count bytes, for Prometheus at /metrics")
def toxiproxy(host: str, port: int, config: str | None, proxy_metrics: bool) -> None:
    """Run the embedded Toxiproxy by itself, for clients of every language. Ctrl-C ends it."""
    arguments = ["--host", host, "--port", str(port)]
    if config:
        arguments += ["--config", config]
    if proxy_metrics:
        arguments.append("--proxy-metrics")
    # in place of this process: nothing stands between a terminal's signals and the server
    serve = python("windtunnel.toxiproxy.embedded", *arguments)
    os.execv(serve[0], serve)
