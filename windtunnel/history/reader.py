"""Reads the history of a run as typed events. What is no event of this version is an error, never skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from windtunnel.history.chain import line_hash
from windtunnel.history.events import Event, SealedFile
from windtunnel.history.seal import Integrity, examine

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])


class HistoryError(ValueError):
    """A line that is no event; the message names the file and the line."""


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
        raise HistoryError(f"{logs / 'runs'}: no run was recorded there; fly one, or name its --logs")
    return max(names)


@dataclass(frozen=True)
class RunHistory:
    """The files of a run as they lie there: the whole lines of each, by file name.

    ``torn`` counts unterminated last lines, those moved aside among them.
    """

    folder: Path
    files: Mapping[str, Sequence[bytes]]
    torn: int
    integrity: Integrity

    def events(self) -> list[Event]:
        """All events, file by file, but those that came after the seal. Raises ``HistoryError``."""
        late = self.integrity.late
        return [
            parse_line(line, self.folder / name, number)
            for name, lines in self.files.items()
            for number, line in enumerate(lines[: len(lines) - late.get(name, 0)], start=1)
        ]


def read_history(logs: Path, run_id: str) -> RunHistory:
    """Reads a run's files and examines chains and seal; no event is parsed yet.

    Raises ``HistoryError`` when there is no such run, ``OSError``.
    """
    folder = logs / "runs" / run_id
    files, torn = {}, 0
    for path in sorted(folder.glob("*.jsonl")):
        *files[path.name], rest = path.read_bytes().split(b"\n")
        torn += bool(rest)
    if not files:
        raise HistoryError(f"{folder}: no history of a run there")
    torn += sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl.torn"))
    return RunHistory(folder, files, torn, examine(run_id, files, announced_seal(logs, run_id)))


def announced_seal(logs: Path, run_id: str) -> str:
    """The hash of the run's sealing line, as the summary in info.log tells it; empty if it does not."""
    path = logs / "info.log"
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        told = [line for line in file if b'"event": "summary"' in line and run_id.encode() in line]
    for line in reversed(told):
        try:
            summary = json.loads(line)
        except (ValueError, RecursionError):  # the latter for brackets nested beyond all measure
            continue
        if isinstance(summary, dict) and summary.get("run_id") == run_id:
            return str(summary.get("seal") or "")
    return ""


def read_run(logs: Path, run_id: str, torn: Torn | None = None) -> list[Event]:
    """All events of a run, file by file. Raises ``HistoryError``, also when there is no such run."""
    history = read_history(logs, run_id)
    if torn is not None:
        torn.count += history.torn
    return history.events()


class Tail:
    """Follows a file that another process is writing.

    Each ``read`` returns the events that were appended since the last; none while there is no file.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        self._offset = 0
        self._line = 0
        self._last = b""

    def read(self) -> list[Event]:
        """Raises ``HistoryError`` for a bad line. An unterminated one is left for the next time."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._offset += end
        events = []
        for line in data[:end].split(b"\n")[:-1]:
            self._line += 1
            self._last = line
            events.append(parse_line(line, self._path, self._line))
        return events

    def sealed(self) -> SealedFile:
        """The file as far as it was read."""
        return SealedFile(self._line, line_hash(self._last) if self._line else "")
