"""Write the history of a run: one file per writing process, one JSON object a line.

``logs/runs/<run_id>/<process>-<lane>.jsonl``. The history is the product: a run can be judged again from it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from wirefault.core.errors import DISK_FULL
from wirefault.core.files import open_shared, read_shared
from wirefault.history.events import Event
from wirefault.history.lines import dump_event, line_hash, linked, origin

# in bytes per file, about 30,000 prompts; a larger file cannot be a run's and would fill the memory
MAX_HISTORY_BYTES = 256 * 1024 * 1024


def history_file(logs: Path, run_id: str, process: str, lane: int) -> Path:
    return logs / "runs" / run_id / f"{process}-{lane}.jsonl"


def logs_folder(history: Path) -> Path:
    """Return the ``logs`` folder of a file named by ``history_file``."""
    return history.absolute().parents[2]


class Writer:
    """Append events to one file, complete lines in each ``write``. Thread-safe. Raises ``OSError``.

    ``head`` is the hash of the last line, which the next one will carry. Continues the chain of a previous
    writer; an unterminated line that a killed writer left is first moved aside to ``<file>.torn``. A file has
    one writer at a time: two would fork its chain.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_end()
        self._file = open_shared(logs_folder(path), path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lock = threading.Lock()
        self._cut = ""

    def _read_end(self) -> None:
        lines = _whole_lines(self._path)
        self._written = len(lines)
        self.head = line_hash(lines[-1]) if lines else origin(self._path.parent.name, self._path.name)
        self._interrupted = False

    def write(self, event: Event) -> None:
        self.write_lines([dump_event(event)])

    def write_lines(self, records: Iterable[bytes]) -> None:
        """Write several JSON objects in one ``write``. Fails after a cut line, which it would extend."""
        with self._lock:
            if self._cut:
                raise OSError(self._cut)
            if self._interrupted:
                self._read_end()
            lines, head = linked(records, self._written + 1, self.head)
            data = b"\n".join([*lines, b""])
            self._interrupted = True  # by the exception of a signal, which may come before or after the write
            try:
                taken = os.write(self._file, data)
            except OSError as error:
                self._interrupted = False
                error.filename = str(self._path)
                raise
            if taken != len(data):
                self._cut = f"{DISK_FULL}: wrote only {taken} of {len(data)} bytes of {self._path}"
                raise OSError(self._cut)
            self._written += len(lines)
            self.head = head
            self._interrupted = False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _whole_lines(path: Path) -> list[bytes]:
    """Return the complete lines in the file, and move an unterminated last line aside."""
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
