"""Writes the history of a run: events, one JSON object a line, one file for each process that writes.

``logs/runs/<run_id>/<process>-<lane>.jsonl``. The history is the product: a run can be judged again from it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from wirefault.core.files import open_shared, read_shared
from wirefault.history.events import Event
from wirefault.history.lines import dump_event, line_hash, linked, origin

# in bytes of one file, some 30,000 prompts: what is larger is no run's, and would fill the memory
MAX_HISTORY_BYTES = 256 * 1024 * 1024


def history_file(logs: Path, run_id: str, process: str, lane: int) -> Path:
    return logs / "runs" / run_id / f"{process}-{lane}.jsonl"


def logs_folder(history: Path) -> Path:
    """The ``logs`` folder that a file named by ``history_file`` lies in."""
    return history.absolute().parents[2]


class Writer:
    """Appends events to one file, whole lines in each ``write``; for several threads. Raises ``OSError``.

    ``head`` is the hash of the last line, which the next will carry.

    Goes on with the chain of its predecessor; a line that this one left unterminated, because it was killed,
    is moved aside to ``<file>.torn`` first. A file has one writer at a time: two would fork its chain.
    """

    def __init__(self, path: Path) -> None:
        lines = _whole_lines(path)
        self._written = len(lines)
        self.head = line_hash(lines[-1]) if lines else origin(path.parent.name, path.name)
        self._file = open_shared(logs_folder(path), path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lock = threading.Lock()
        self._cut = ""

    def write(self, event: Event) -> None:
        self.write_line(dump_line(event))

    def write_line(self, record: str) -> None:
        """One JSON object, already dumped."""
        self.write_lines([record])

    def write_lines(self, records: Iterable[str]) -> None:
        """Several of them, in one ``write``. Takes no more once a line was cut: it would go on that."""
        with self._lock:
            if self._cut:
                raise OSError(self._cut)
            lines, head = linked(records, self._written + 1, self.head)
            data = b"\n".join([*lines, b""])
            taken = os.write(self._file, data)
            if taken != len(data):
                self._cut = f"the history took {taken} of {len(data)} bytes: is the disk full?"
                raise OSError(self._cut)
            self._written += len(lines)
            self.head = head

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def dump_line(event: Event) -> str:
    """As a line tells it: without what is as usual, which a reader has again."""
    return dump_event(event)


def _whole_lines(path: Path) -> list[bytes]:
    """What the file holds already; an unterminated last line is moved aside."""
    try:
        data = read_shared(logs_folder(path), path, MAX_HISTORY_BYTES)
    except FileNotFoundError:
        return []
    *lines, rest = data.split(b"\n")
    if rest:
        aside = path.with_suffix(".jsonl.torn")
        appending = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(open_shared(logs_folder(path), aside, appending), "ab") as torn:
            torn.write(rest + b"\n")
        with os.fdopen(open_shared(logs_folder(path), path, os.O_RDWR), "r+b") as file:
            file.truncate(len(data) - len(rest))
    return lines
