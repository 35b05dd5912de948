"""``wirefault baseline``: accept a recording, so that a pipeline fails only on what changed since."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from wirefault.cli.help import Group, option
from wirefault.cli.options import environ_below, logs_in, recorded_out_option
from wirefault.core.errors import InputError


@click.group("baseline", cls=Group)
def baseline_command() -> None:
    """Accept a recording as the state to compare with, in a file to commit."""


@baseline_command.command(
    "accept", examples=("wirefault baseline accept latest", "wirefault compare --baseline latest")
)
@click.argument("run")
@option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write here.  [default: wirefault.baseline.json]",
)
@recorded_out_option
def accept_command(run: str, file: Path | None, out: Path | None) -> None:
    """Write the outcomes, measures and findings of RUN into a file to commit.

    Later, `wirefault compare --baseline FILE RUN` fails on what is worse or new.
    """
    from wirefault.experiments.baseline import (
        BASELINE_FILE,
        accepted,
        missing_in,
        read_baseline,
        write_baseline,
    )
    from wirefault.experiments.recorded import open_recording
    from wirefault.judging.summary import counted
    from wirefault.report.known_findings import compared_side, known_findings

    environ = environ_below(out)
    recording = open_recording(logs_in(environ), run, environ)
    target = file or BASELINE_FILE
    before = read_baseline(target).findings if target.exists() else None
    title = recording.experiment.plan.experiment.title if recording.experiment else ""
    baseline = accepted(compared_side(recording), known_findings(recording), title, datetime.now(UTC))
    if incomplete := [name or "the run" for name, arm in baseline.side.arms.items() if not arm.completed]:
        raise InputError(f"{incomplete[0]} did not run to its end; accept a recording that did")
    if nothing := [arm.shows_nothing for arm in baseline.side.arms.values() if arm.shows_nothing]:
        raise InputError(f"{recording.id}: {nothing[0]}; accept a recording that shows something")
    write_baseline(baseline, target)
    findings = counted(len(baseline.findings), "finding", "findings")
    click.echo(f"{target}: {recording.id}, {findings} accepted")
    if before is not None:
        more, gone = missing_in(before, baseline.findings), missing_in(baseline.findings, before)
        click.echo(f"replaced: {len(more)} more, {len(gone)} gone")
    for each in baseline.findings:
        click.echo(f"  {each.severity}: {each.text}")
