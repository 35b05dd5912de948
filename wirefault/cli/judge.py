"""``wirefault judge``: a run scored again from its history."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from wirefault.core.errors import UNKNOWN
from wirefault.history.reader import LIVE, RunHistory, latest_run, read_history
from wirefault.judging.summary import Summary, summarise
from wirefault.report.console import episode_line, print_summary
from wirefault.report.reproduce import command, prompts_changed
from wirefault.report.terminal import line_width, plain_console
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Links


@click.command("judge")
@click.argument("run")
@click.option("--logs", type=click.Path(path_type=Path), default=Path("logs"), show_default=True)
@click.option(
    "--prompts",
    metavar="PATH",
    default="",
    help="the run's, if its file has moved, for the line that repeats it",
)
@click.option("--event", metavar="ID", default="", help="print that event alone, as it was recorded")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")
def judge_command(run: str, logs: Path, prompts: str, event: str, as_json: bool) -> None:
    """Score a run again from its history, to the same outcomes. RUN is its id, or latest.

    Findings name the events that show them: gateway-0:17 is line 17 of gateway-0.jsonl. The exit code is 2 if
    the history was altered since it was recorded (then nothing is scored), or if an outcome is not the
    recorded one.
    """
    try:
        history = read_history(logs, latest_run(logs) if run == "latest" else run)
        if event:
            click.echo(history.line(event).decode("utf-8", "replace"))
            return
        if history.integrity.alterations:
            _refuse(history, as_json)
        summary = summarise(history.events(), torn=history.torn)
    except ValueError as error:
        raise click.UsageError(str(error), None) from None
    summary = replace(summary, remarks=[*history.integrity.remarks(), *summary.remarks])
    if as_json:
        seal = {"seal": history.integrity.seal, "altered": []}
        click.echo(json.dumps(summary.as_json() | seal, ensure_ascii=False))
    else:
        _show(summary, prompts)
    if summary.differences:
        sys.exit(UNKNOWN)


def _refuse(history: RunHistory, as_json: bool) -> NoReturn:
    """Nothing is scored by evidence that is not what was recorded."""
    altered = [f"{history.folder}/{alteration}" for alteration in history.integrity.alterations]
    for place in altered:
        click.echo(f"altered: {place}", err=True)
    click.echo("not scored: this is not the history that was recorded", err=True)
    if as_json:
        click.echo(json.dumps({"run_id": history.folder.name, "altered": altered}, ensure_ascii=False))
    sys.exit(UNKNOWN)


def _show(summary: Summary, prompts: str) -> None:
    console = plain_console()
    for index, judgement in enumerate(summary.episodes, start=1):
        console.print(episode_line(judgement, index, len(summary.episodes), line_width(console)))
    if summary.run_id.startswith(LIVE):  # no command sends again what others sent
        print_summary(console, summary)
        return
    links = Links.load(summary.links) if summary.links else None
    try:
        settings = Settings.model_validate(summary.settings, context={"links": links})
    except ValueError:
        raise click.UsageError("the settings in the history are not of this version", None) from None
    source = summary.prompts_source
    source = replace(source, file=prompts or source.file)
    repeat = command(
        settings,
        source,
        summary.lab_id,
        wiring=summary.flown_by,
        links=links,
    )
    changed = prompts_changed(source)
    print_summary(console, summary, f"{repeat}\nnote: {changed}" if changed else repeat)
