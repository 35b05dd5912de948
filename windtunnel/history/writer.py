"""Writes the history of a run: events, one JSON object a line, one file for each process that writes.

``logs/runs/<run_id>/<process>-<lane>.jsonl``. The history is the product: a run can be judged again from it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from windtunnel.core.shared_files import open_shared, read_shared
from windtunnel.history.events import Event

# in bytes of one file, some 30,000 prompts: what is larger is no run's, and would fill the memory
LARGEST_HISTORY = 256 * 1024 * 1024


def history_file(logs: Path, run_id: str, process: str, lane: int) -> Path:
    return logs / "runs" / run_id / f"{process}-{lane}.jsonl"


def logs_of(history: Path) -> Path:
    """The ``logs`` folder that a file named by ``history_file`` lies in."""
    return history.absolute().parents[2]


class Writer:
    """Appends events to one file, whole lines in each ``write``; for several threads. Raises ``OSError``.

    A line that a killed predecessor left unterminated is moved aside to ``<file>.torn`` first.
    """

    def __init__(self, path: Path) -> None:
        _move_torn_line_aside(path)
        self._file = open_shared(logs_of(path), path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lock = threading.Lock()

    def write(self, event: Event) -> None:
        self.write_line(dump_line(event))

    def write_line(self, line: str) -> None:
        """One JSON object, already dumped."""
        self.write_lines([line])

    def write_lines(self, lines: Iterable[str]) -> None:
        """Several of them, in one ``write``."""
        # a lone surrogate, escaped or not, is no text that a reader would take
        data = "\n".join([*lines, ""]).encode("utf-8", "replace")
        with self._lock:
            written = os.write(self._file, data)
        if written != len(data):
            raise OSError(f"the history took {written} of {len(data)} bytes: is the disk full?")

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def dump_line(event: Event) -> str:
    return json.dumps(asdict(event), ensure_ascii=False, separators=(",", ":"))


def _move_torn_line_aside(path: Path) -> None:
    try:
        data = read_shared(logs_of(path), path, LARGEST_HISTORY)
    except FileNotFoundError:
        return
    end = data.rfind(b"\n") + 1
    if end == len(data):
        return
    aside = path.with_suffix(".jsonl.torn")
    with os.fdopen(open_shared(logs_of(path), aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as torn:
        torn.write(data[end:] + b"\n")
    with os.fdopen(open_shared(logs_of(path), path, os.O_RDWR), "r+b") as file:
        file.truncate(end)
