"""``wirefault show``: one episode as a timeline, or the episodes of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from wirefault.cli.experiment import environ_of
from wirefault.core.errors import InputError
from wirefault.experiments.recorded import RecordedArm, open_recording
from wirefault.report.console import episode_line
from wirefault.report.terminal import line_width, plain_console
from wirefault.report.timeline import timeline_of
from wirefault.report.timeline_text import print_timeline


@click.command("show")
@click.argument("run")
@click.argument("episode", required=False)
@click.option("--arm", help="of an experiment; by default the only one with faults")
@click.option("--out", type=click.Path(path_type=Path), help="folder of the logs/")
@click.option("--full", is_flag=True, help="cut no text off at the line's end")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on standard output")
def show_command(
    run: str, episode: str | None, arm: str | None, out: Path | None, full: bool, as_json: bool
) -> None:
    """Show an episode as a timeline: requests, faults, both sides of what was struck, effects, claim.

    RUN is the id of a run or an experiment, or latest. EPISODE is its key or its place; without one all
    episodes are listed.
    """
    environ = environ_of(out)
    recorded = open_recording(Path(environ.get("LOGS_DIR") or "logs"), run, environ).arm(arm)
    if episode is None:
        _list_episodes(recorded, as_json=as_json)
        return
    key = recorded.episode_named(episode)
    try:
        timeline = timeline_of(recorded.run_of(key), key)
    except ValueError as error:
        raise InputError(str(error)) from None
    if as_json:
        sys.stdout.write(json.dumps(timeline.as_json(), ensure_ascii=False) + "\n")
    else:
        print_timeline(plain_console(), timeline, full=full)


def _list_episodes(recorded: RecordedArm, *, as_json: bool) -> None:
    judged = {judgement.episode: judgement for judgement in recorded.summary.episodes}
    rows = [judged[key] for key in recorded.episodes if key in judged]
    if as_json:
        told = [{"episode": row.episode, "prompt": row.prompt, "outcome": row.outcome} for row in rows]
        sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
        return
    console = plain_console()
    for place, row in enumerate(rows, start=1):
        console.print(episode_line(row, place, len(rows), line_width(console)))
