"""Reads the history of a run as typed events. What is no event of this version is an error, never skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from windtunnel.core.shared_files import open_shared, read_shared
from windtunnel.history.events import Event, WorldRead
from windtunnel.history.logs import strip_control
from windtunnel.history.writer import LARGEST_HISTORY, logs_of

_LONGEST_LINE = 16 * 1024 * 1024  # bytes; what is parsed takes many times as many
_LARGEST_TIME = 32_503_680_000  # in seconds the year 3000; in milliseconds a year
_ADAPTER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


class HistoryError(ValueError):
    """A line that is no event; the message names the file and the line, and is fit for a terminal."""

    def __init__(self, message: str) -> None:
        super().__init__(strip_control(message))


@dataclass
class Torn:
    """How many unterminated last lines a reader met, those moved aside among them."""

    count: int = 0


def read_file(path: Path, torn: Torn | None = None) -> Iterator[Event]:
    """The events of one file, in order. Raises ``HistoryError`` for a bad line, ``OSError``.

    An unterminated last line (its writer was killed, or is writing) is counted, not returned.
    """
    data = read_shared(logs_of(path), path, LARGEST_HISTORY)
    *lines, rest = data.split(b"\n")
    if rest and torn is not None:
        torn.count += 1
    for number, line in enumerate(lines, start=1):
        yield parse_line(line, path, number)


def parse_line(line: bytes, path: Path, number: int) -> Event:
    """The event on a line; ``path`` and ``number`` are for the error. Raises ``HistoryError``."""
    if len(line) > _LONGEST_LINE:
        raise HistoryError(f"{path}:{number}: no event: a line of {len(line)} bytes")
    try:
        event = _ADAPTER.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise HistoryError(f"{path}:{number}: no event: {where} {first['msg']}".strip()) from None
    implausible = _implausible(event)
    if implausible:
        raise HistoryError(f"{path}:{number}: no event: {implausible}")
    return event


def _implausible(event: Event) -> str:
    """Which number no clock shows, in words. An axis that reached to it would never be drawn to its end."""
    clocks: dict[str, Any] = {name: value for name, value in vars(event).items() if isinstance(value, float)}
    if isinstance(event, WorldRead):
        clocks |= {f"effects.{place}.at": effect.get("at", 0.0) for place, effect in enumerate(event.effects)}
    for name, value in clocks.items():
        if not isinstance(value, int | float) or not 0 <= value <= _LARGEST_TIME:
            return f"{name} is no time"
    return ""


def latest_run(logs: Path) -> str:
    """The id of the last run there, which begins with its time. Raises ``HistoryError`` without any."""
    names = [path.parent.name for path in (logs / "runs").glob("*/*.jsonl")]
    if not names:
        raise HistoryError(f"{logs / 'runs'}: no run was recorded there; fly one, or name its --logs")
    return max(names)


def read_run(logs: Path, run_id: str, torn: Torn | None = None) -> list[Event]:
    """All events of a run, file by file. Raises ``HistoryError``, also when there is no such run."""
    folder = logs / "runs" / run_id
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise HistoryError(f"{folder}: no history of a run there")
    if torn is not None:
        moved_aside = [read_shared(logs, path, LARGEST_HISTORY) for path in folder.glob("*.jsonl.torn")]
        torn.count += sum(data.count(b"\n") for data in moved_aside)
    return [event for path in files for event in read_file(path, torn)]


class Tail:
    """Follows a file that another process is writing.

    Each ``read`` returns the events that were appended since the last; none while there is no file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._line = 0

    def read(self) -> list[Event]:
        """Raises ``HistoryError`` for a bad line. An unterminated one is left for the next time."""
        try:
            descriptor = open_shared(logs_of(self._path), self._path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        with os.fdopen(descriptor, "rb") as file:
            file.seek(self._offset)
            data = file.read(LARGEST_HISTORY)
        end = data.rfind(b"\n") + 1
        self._offset += end
        events = []
        for line in data[:end].split(b"\n")[:-1]:
            self._line += 1
            events.append(parse_line(line, self._path, self._line))
        return events
