"""``wirefault list``: the experiments that were begun here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from wirefault.cli.experiment import environ_of
from wirefault.experiments.index import saved_ids, shown_of
from wirefault.report.plain_table import table_lines, width_of


@click.command("list")
@click.option("--out", type=click.Path(path_type=Path), help="folder of the logs/")
def list_command(out: Path | None) -> None:
    """List the experiments that were begun here, with their verdicts; the last one comes last."""
    logs = Path(environ_of(out).get("LOGS_DIR") or "logs")
    rows = [(name, *shown_of(logs, name)) for name in saved_ids(logs)]
    if not rows:
        click.echo(f"{os.fspath(logs / 'experiments')}: no experiment was begun there")
        return
    for line in table_lines(("experiment", "verdict", "title"), rows, width_of(sys.stdout)):
        click.echo(line)
