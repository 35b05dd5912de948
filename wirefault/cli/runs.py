"""``wirefault runs``: list the recorded runs and experiments; prune, archive and bundle them.

Commands import only what they need, so that ``verify`` of a run starts fast.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import click

from wirefault.cli.compare import compare_command, trend_command
from wirefault.cli.help import Group, option
from wirefault.cli.options import environ_below, logs_in, recorded_out_option
from wirefault.cli.recorded import require_unaltered, resolved_id
from wirefault.cli.report import report_command, verify_command
from wirefault.cli.show import show_command
from wirefault.core.errors import InputError
from wirefault.experiments.index import StoredRun, listed_run, lone_runs, saved_ids, stored_runs
from wirefault.judging.ending import CAN_RESUME


@click.group("runs", cls=Group)
def runs_command() -> None:
    """Look at recorded runs and experiments; verify, prune and bundle them.

    RUN is the id of a run or an experiment; latest is the newest of both.
    """


@runs_command.command("list", examples=("wirefault runs list", "wirefault list --out ../other-lab"))
@recorded_out_option
def list_command(out: Path | None) -> None:
    """List the recorded runs and experiments: verdict, worst finding and agent; the newest last."""
    from wirefault.experiments.evidence import AlteredError, Evidence, evidence_of
    from wirefault.report.plain_table import table_lines, width_of

    logs = logs_in(environ_below(out))
    rows = {name: listed_run(logs, name, is_saved=True) for name in saved_ids(logs)}
    rows |= {name: listed_run(logs, name, is_saved=False) for name in lone_runs(logs)}
    if not rows:
        click.echo(f"{logs}: no runs or experiments there")
        return
    states = {}
    resume = ""  # the command for the newest that can be resumed
    for name, row in sorted(rows.items()):
        if row.verdict in CAN_RESUME:
            worst, command = _so_far(logs, name, out)
            rows[name], resume = replace(row, worst=worst), command or resume
    for name in rows:
        try:
            states[name] = evidence_of(logs, name)
        except OSError as error:
            states[name] = Evidence("altered", (str(error),))
    lines = [
        (name, "unknown", "-", states[name].state, "-", row.title)
        if states[name].alterations
        else (name, row.verdict, row.worst, states[name].state, row.tested, row.title)
        for name, row in sorted(rows.items())
    ]
    head = ("run", "verdict", "worst finding", "evidence", "tested", "title")
    for line in table_lines(head, lines, width_of(sys.stdout)):
        click.echo(line)
    if resume:
        click.echo(f"to resume the newest without its end: {resume}")
    altered = [place for name, *_ in lines for place in states[name].alterations]
    if altered:
        raise AlteredError(altered)


def _so_far(logs: Path, name: str, out: Path | None) -> tuple[str, str]:
    """The worst finding of a recording without its end, and the command that resumes it.

    ``-`` and a printed reason if the finding is unknown; no command for what cannot be resumed.
    """
    from wirefault.audit.result import worst_so_far
    from wirefault.core.errors import UserError
    from wirefault.experiments.recorded import open_recording
    from wirefault.report.next_command import with_folder

    try:
        recording = open_recording(logs, name, environ_below(out))
        worst, saved = worst_so_far(recording), recording.experiment
    except (UserError, OSError) as error:
        click.echo(f"{name}: its worst finding is not known: {error}", err=True)
        return "-", ""
    return worst or "none", with_folder(saved.resume_command, logs) if saved else ""


for each in (show_command, compare_command, report_command, trend_command, verify_command):
    runs_command.add_command(each)

_keep_option = option(
    "--keep", type=click.IntRange(0), required=True, help="Keep this many of the newest runs and experiments."
)


@runs_command.command(
    "prune",
    examples=("wirefault runs prune --keep 20 --dry-run", "wirefault runs prune --keep 20"),
)
@_keep_option
@option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@recorded_out_option
def prune_command(keep: int, dry_run: bool, out: Path | None) -> None:
    """Remove old runs and experiments with their charts, and print their sizes.

    Anything written to within the last minute is kept: it may be in progress.
    """
    stored = list(stored_runs(logs_in(environ_below(out))))
    removed = _old(stored, keep)
    freed = 0
    for item in removed:
        size = item.size
        freed += size
        click.echo(f"{'would remove' if dry_run else 'removed'} {item.name}  {_shown_size(size)}")
        for path in item.paths if not dry_run else ():
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise InputError(f"{error.filename or path}: cannot remove: {error.strerror}") from None
    others = [item for item in stored if item not in removed]
    sizes = _shown_size(freed), _shown_size(sum(item.size for item in others))
    click.echo(
        f"{len(removed)} {'to remove' if dry_run else 'removed'}, {sizes[0]}; {len(others)} kept, {sizes[1]}"
    )


@runs_command.command(
    "archive",
    examples=("wirefault runs archive --keep 20 --dry-run", "wirefault runs archive --keep 20"),
)
@_keep_option
@option("--dry-run", is_flag=True, help="Show what would be archived; move nothing.")
@recorded_out_option
def archive_command(keep: int, dry_run: bool, out: Path | None) -> None:
    """Move old runs and experiments into logs/archive.zip, which wirefault memory still reads.

    Their charts and pages are removed. Anything written to within the last minute is kept. Unpacked, the
    folder of each run or experiment is a folder of logs.
    """
    from wirefault.experiments.archive import ARCHIVE, archive_runs

    logs = logs_in(environ_below(out))
    moved = _old(list(stored_runs(logs)), keep)
    sizes = {item.name: item.size for item in moved}
    if moved and not dry_run:
        archive_runs(logs, moved)
    for name, size in sizes.items():
        click.echo(f"{'would archive' if dry_run else 'archived'} {name}  {_shown_size(size)}")
    archive = logs / ARCHIVE
    size_text = f", {_shown_size(archive.stat().st_size)}" if archive.exists() else ""
    click.echo(f"{archive}: {len(moved)} {'to archive' if dry_run else 'archived'}{size_text}")


def _old(stored: list[StoredRun], keep: int) -> list[StoredRun]:
    """Return all but the newest ``keep``, without those in progress."""
    return [item for item in stored[: max(len(stored) - keep, 0)] if not item.is_active]


def _shown_size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


@runs_command.command(
    "bundle", examples=("wirefault runs bundle latest", "wirefault runs bundle latest for-a-colleague.tar.gz")
)
@click.argument("run")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@recorded_out_option
def bundle_command(run: str, file: Path | None, out: Path | None) -> None:
    """Pack a run or an experiment into one archive, to hand it to a colleague.

    FILE is RUN.tar.gz by default. Unpacked into an empty folder, it can be shown and verified.
    """
    from wirefault.experiments.bundle import write_bundle

    logs, name = logs_in(environ_below(out)), resolved_id(run, out)
    file = file or Path(f"{name}.tar.gz")
    if name in {each.name for each in stored_runs(logs)}:
        require_unaltered(logs, name, as_json=False)
    evidence = write_bundle(logs, name, file)
    click.echo(f"{file}  {_shown_size(file.stat().st_size)}  {evidence.text}")
