"""``windtunnel judge``: a run scored again from its history."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from windtunnel.history.reader import Torn, latest_run, read_run
from windtunnel.judging.summary import summarise
from windtunnel.report.console import episode_line, print_summary
from windtunnel.report.reproduce import command, prompts_changed
from windtunnel.report.terminal import line_width, plain_console
from windtunnel.settings.settings import Settings


@click.command("judge")
@click.argument("run")
@click.option("--logs", type=click.Path(path_type=Path), default=Path("logs"), show_default=True)
@click.option(
    "--prompts",
    metavar="PATH",
    default="",
    help="the run's, if its file has moved, for the line that repeats it",
)
@click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")
def judge_command(run: str, logs: Path, prompts: str, as_json: bool) -> None:
    """Score a run again from its history, to the same outcomes. RUN is its id, or latest."""
    torn = Torn()
    try:
        run_id = latest_run(logs) if run == "latest" else run
        summary = summarise(read_run(logs, run_id, torn), torn=torn.count)
    except ValueError as error:
        raise click.UsageError(str(error), None) from None
    if as_json:
        click.echo(json.dumps(summary.as_json(), ensure_ascii=False))
        return
    console = plain_console()
    for index, judgement in enumerate(summary.episodes, start=1):
        console.print(episode_line(judgement, index, len(summary.episodes), line_width(console)))
    settings = Settings(**summary.settings)
    source = summary.prompts_source
    source = replace(source, file=prompts or source.file)
    repeat = command(settings, source, summary.lab_id)
    changed = prompts_changed(source)
    print_summary(console, summary, f"{repeat}\nnote: {changed}" if changed else repeat)
