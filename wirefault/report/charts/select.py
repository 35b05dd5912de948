"""Select runs by their folders, and read their data for the charts. Needs the standard library alone.

With Wirefault's packages installed, the data are computed from the checked history. Else they are those that
the run stored at its end, unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from wirefault.core.files import read_shared, read_shared_head
from wirefault.judging.chart_data import (
    CHARTS_FILE,
    ChartsError,
    RunData,
    Selection,
    decode_run,
    with_outcomes,
)

MAX_NAMED = 5
# bytes of a history's file in which the run's start must be, and of a stored document
_MAX_HEAD, _MAX_STORED = 1024 * 1024, 1024 * 1024 * 1024
_LIVE = "live-"


class NoDataError(ChartsError):
    """A run without stored data for its charts."""


Warn = Callable[[str], None]


def select_runs(logs: Path, run: str, warn: Warn) -> Selection:
    """Return the runs that ``run`` selects: ``latest``, ``all``, an id or a unique prefix of one.

    ``warn`` gets a message for everything left out. Raises ``ChartsError``, or ``UserError`` if a file of
    a selected run was altered.
    """
    names = _folders(logs)
    if run not in ("latest", "all"):
        return Selection((_read(logs, _match(logs, names, run), warn),))
    dated = _by_start(logs, names, warn)
    if not dated:
        raise ChartsError(f"{logs / 'runs'}: no runs have started; start one with: make run")
    if run == "latest":
        newest = next((name for name in reversed(dated) if not _is_dry_run(logs, name)), None)
        if newest is None:
            raise ChartsError(f"{logs}: there are only dry runs, which show nothing; name one of them")
        return Selection((_read(logs, newest, warn),))
    return Selection(tuple(_readable(logs, dated, warn)))


def _readable(logs: Path, names: list[str], warn: Warn) -> Iterator[RunData]:
    """Read the runs that have data. If none has, raise the error of the last one."""
    missing: NoDataError | None = None
    count = 0
    for name in names:
        try:
            yield _read(logs, name, warn)
            count += 1
        except NoDataError as error:
            missing = error
            warn(f"left out {error}")
    if missing and not count:
        raise missing


def _folders(logs: Path) -> list[str]:
    if not logs.is_dir():
        raise ChartsError(f"{logs}: no such folder; name the lab's logs with --logs DIR")
    runs = logs / "runs"
    folders = [path.name for path in runs.iterdir() if path.is_dir()] if runs.is_dir() else []
    # live traffic has no prompts to chart
    names = sorted(name for name in folders if not name.startswith(_LIVE))
    if not names:
        raise ChartsError(f"{runs}: no runs; start one with: make run")
    return names


def _match(logs: Path, names: list[str], run: str) -> str:
    matches = [run] if run in names else [name for name in names if run and name.startswith(run)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ChartsError(f"--run {run} fits {len(matches)} runs: {_newest(logs, matches)}")
    raise ChartsError(f"{logs / 'runs'}: unknown run {run!r}; the newest are {_newest(logs, names)}")


def _newest(logs: Path, names: list[str]) -> str:
    """Return the newest few by modification time, for an error message, without reading histories."""
    by_time = sorted(names, key=lambda name: (logs / "runs" / name).stat().st_mtime, reverse=True)
    more = f" and {len(by_time) - MAX_NAMED} more" if len(by_time) > MAX_NAMED else ""
    return ", ".join(by_time[:MAX_NAMED]) + more


def _by_start(logs: Path, names: list[str], warn: Warn) -> list[str]:
    """Return the runs that have started, oldest first."""
    dated = []
    for name in names:
        starts = list(_starts(logs, logs / "runs" / name))
        if starts:
            dated.append((min(starts), name))
        else:
            warn(f"left out {logs / 'runs' / name}: no run_started in it")
    return [name for _, name in sorted(dated)]


def _starts(logs: Path, folder: Path) -> Iterator[float]:
    """Yield the start of the run in each file of the agent, in seconds since the epoch."""
    for path in sorted(folder.glob("agent-*.jsonl")):
        lines = read_shared_head(logs, path, _MAX_HEAD).split(b"\n")[:-1]
        for number, line in enumerate(lines, start=1):
            try:
                event = json.loads(line)
                if event["event"] == "run_started":
                    yield float(event["t"])
                    break
            except (ValueError, TypeError, KeyError, RecursionError):
                message = f"{path}:{number}: not an event; other runs can be charted with --run ID"
                raise ChartsError(message) from None


def _documents(logs: Path, name: str, file: str) -> Iterator[Any]:
    """Yield the JSON documents of that name in the folder of the experiment that has the run, if any."""
    for path in (logs / "experiments").glob(f"*/{file}"):
        owner = path.relative_to(logs / "experiments").parts[0]
        if name == owner or name.startswith((f"{owner}-", f"{owner}.")):
            yield json.loads(read_shared(logs, path, _MAX_STORED))


def _is_dry_run(logs: Path, name: str) -> bool:
    """Whether it is of an audit that was to ask nothing; ``latest`` passes it over."""
    try:
        return any(bool(audit["dry_run"]) for audit in _documents(logs, name, "audit.json"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # its reader says what is wrong
        return False


def _read(logs: Path, name: str, warn: Warn) -> RunData:
    try:
        from wirefault.report.charts.recorded import read_recorded

        return read_recorded(logs, name, warn)
    except ModuleNotFoundError as error:
        return _read_stored(logs, name, error.name or "")


def _read_stored(logs: Path, name: str, missing: str) -> RunData:
    """Return what the run stored at its end, with the outcomes that its experiment's control decided."""
    path = logs / "runs" / name / CHARTS_FILE
    try:
        stored = decode_run(read_shared(logs, path, _MAX_STORED))
        facts = list(_documents(logs, name, f"facts/{name}.json"))
        outcomes = {
            episode["judged"]["episode"]: episode["judged"]["outcome"]
            for document in facts
            for episode in document["facts"]["episodes"]
        }
    except FileNotFoundError:
        raise NoDataError(
            f"run {name}: no {CHARTS_FILE}: it has not ended, was killed, or is of an older version; with"
            " Wirefault's packages its history can be drawn: make setup, then .venv/bin/python charts.py"
        ) from None
    except OSError as error:
        raise ChartsError(f"cannot read the run {name}: {error}") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ChartsError(f"{path}: not the data of charts of this version: {error}") from None
    evidence = f"not checked: that needs Wirefault's packages, and {missing} is not installed"
    return replace(with_outcomes(stored, outcomes), run_id=name, evidence=evidence)
