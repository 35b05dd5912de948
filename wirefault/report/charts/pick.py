"""Which runs to chart: finds them under ``logs/runs`` and reads their histories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from wirefault.history.events import RunStarted
from wirefault.history.reader import LIVE, HistoryError, read_file, read_history
from wirefault.report.charts.data import RunData, Selection
from wirefault.report.charts.extract import run_data

_SHOWN = 5


class ChartsError(ValueError):
    """There is nothing to chart; the message says what, where, and what to do."""


def pick(logs: Path, run: str, warn: Callable[[str], None]) -> Selection:
    """The runs that ``run`` names: ``latest``, ``all``, an ID or the unique start of one.

    ``warn`` is told of everything that was left out. Raises ``ChartsError``.
    """
    names = _folders(logs)
    if run not in ("latest", "all"):
        return Selection((_read(logs, _match(logs, names, run), warn),))
    dated = _by_start(logs, names, warn)
    if not dated:
        raise ChartsError(f"{logs / 'runs'}: no run there has started yet; fly one with: make run")
    chosen = dated[-1:] if run == "latest" else dated
    return Selection(tuple(_read(logs, name, warn) for name in chosen))


def _folders(logs: Path) -> list[str]:
    if not logs.is_dir():
        raise ChartsError(f"{logs}: no such folder; name the lab's logs with --logs DIR")
    runs = logs / "runs"
    folders = [path.name for path in runs.iterdir() if path.is_dir()] if runs.is_dir() else []
    # what crossed a lab outside any run has no prompts to chart
    names = sorted(name for name in folders if not name.startswith(LIVE))
    if not names:
        raise ChartsError(f"{runs}: no run was recorded there; fly one with: make run")
    return names


def _match(logs: Path, names: list[str], run: str) -> str:
    matches = [run] if run in names else [name for name in names if run and name.startswith(run)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ChartsError(f"--run {run} fits {len(matches)} runs: {_newest(logs, matches)}")
    raise ChartsError(f"{logs / 'runs'}: no run {run!r}; the newest are {_newest(logs, names)}")


def _newest(logs: Path, names: list[str]) -> str:
    """The last few by the folder's own time: this is for an error message and reads no history."""
    by_time = sorted(names, key=lambda name: (logs / "runs" / name).stat().st_mtime, reverse=True)
    more = f" and {len(by_time) - _SHOWN} more" if len(by_time) > _SHOWN else ""
    return ", ".join(by_time[:_SHOWN]) + more


def _by_start(logs: Path, names: list[str], warn: Callable[[str], None]) -> list[str]:
    """The runs that have started, oldest first."""
    dated = []
    for name in names:
        start = _start(logs / "runs" / name)
        if start is None:
            warn(f"left out {logs / 'runs' / name}: no run_started in it")
        else:
            dated.append((start, name))
    return [name for _, name in sorted(dated)]


def _start(folder: Path) -> float | None:
    """When the run began, in seconds since the epoch; reads no further than that line."""
    starts = []
    for path in sorted(folder.glob("agent-*.jsonl")):
        try:
            event = next((event for event in read_file(path) if isinstance(event, RunStarted)), None)
        except (HistoryError, OSError) as error:
            raise ChartsError(f"{error}; other runs can be charted with --run ID") from None
        if event:
            starts.append(event.t)
    return min(starts, default=None)


def _read(logs: Path, name: str, warn: Callable[[str], None]) -> RunData:
    try:
        history = read_history(logs, name)
        for alteration in history.integrity.alterations:
            warn(f"run {name}: altered: {alteration}")
        data = run_data(history.events())
    except HistoryError as error:
        place = logs / "runs" / name
        where = "" if str(error).startswith(str(place)) else f"{place}: "
        raise ChartsError(f"{where}{error}") from None
    except OSError as error:
        raise ChartsError(f"cannot read the run {name}: {error}") from None
    if history.torn:
        warn(
            f"run {name}: {history.torn} unfinished last line(s) not counted; its writer was killed or writes"
        )
    return replace(data, run_id=name)
