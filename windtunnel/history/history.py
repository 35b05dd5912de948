"""The history of a run on disk: events, one JSON object a line, one writer a file.

``logs/runs/<run_id>/<process>-<lane>.jsonl``. The history is the product: scoring can be done again
from it.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from windtunnel.history.events import Event

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


class HistoryError(ValueError):
    """A line that is no event; the message names the file and the line."""


# with them what reorders a line (bidirectional overrides) and what no console can encode (surrogates)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def strip_control(text: str) -> str:
    """Without control characters, for the console; line feeds and tabs stay."""
    return _CONTROL.sub("", text)


def history_file(logs: Path, run_id: str, process: str, lane: int) -> Path:
    return logs / "runs" / run_id / f"{process}-{lane}.jsonl"


class Writer:
    """Appends events to one file, whole lines in each ``write``; for several threads. Raises ``OSError``.

    A line that a killed predecessor left unterminated is moved aside to ``<file>.torn`` first.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _move_torn_line_aside(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
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
    if not path.exists():
        return
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end == len(data):
        return
    with path.with_suffix(".jsonl.torn").open("ab") as aside:
        aside.write(data[end:] + b"\n")
    with path.open("r+b") as file:
        file.truncate(end)


@dataclass
class Torn:
    """How many unterminated last lines a reader met, those moved aside among them."""

    count: int = 0


def read_file(path: Path, torn: Torn | None = None) -> Iterator[Event]:
    """The events of one file, in order. Raises ``HistoryError`` for a bad line, ``OSError``.

    An unterminated last line (its writer was killed, or is writing) is counted, not returned.
    """
    data = path.read_bytes()
    *lines, rest = data.split(b"\n")
    if rest and torn is not None:
        torn.count += 1
    for number, line in enumerate(lines, start=1):
        yield parse_line(line, path, number)


def parse_line(line: bytes, path: Path, number: int) -> Event:
    """The event on a line; ``path`` and ``number`` are for the error. Raises ``HistoryError``."""
    try:
        return _ADAPTER.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise HistoryError(f"{path}:{number}: no event: {where} {first['msg']}".strip()) from None


def latest_run(logs: Path) -> str:
    """The id of the last run there, which begins with its time. Raises ``HistoryError`` without any."""
    names = [path.parent.name for path in (logs / "runs").glob("*/*.jsonl")]
    if not names:
        raise HistoryError(f"{logs / 'runs'}: no run was recorded there; fly one with: windtunnel demo")
    return max(names)


def read_run(logs: Path, run_id: str, torn: Torn | None = None) -> list[Event]:
    """All events of a run, file by file. Raises ``HistoryError``, also when there is no such run."""
    folder = logs / "runs" / run_id
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise HistoryError(f"{folder}: no history of a run there")
    if torn is not None:
        torn.count += sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl.torn"))
    return [event for path in files for event in read_file(path, torn)]
