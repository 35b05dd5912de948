"""Read the history of a run as typed events.

A line that is not an event of this version is an error, never skipped.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from types import MappingProxyType

from msgspec import ValidationError, convert
from msgspec.json import Decoder
from msgspec.structs import replace

from wirefault._version import __version__
from wirefault.core.files import open_shared, read_shared, read_shared_tail
from wirefault.dialects.mcp import MCP
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    BudgetSpent,
    BudgetUnknown,
    BudgetWarned,
    ConnectionEnded,
    ConnectionUnanswered,
    Event,
    Exchange,
    FaultsSet,
    InterceptionFailed,
    LateRequest,
    LinkOpened,
    RunSealed,
    RunStarted,
    SealedFile,
    ToolTry,
    ToxicsChanged,
    WentPastLab,
    WorldRead,
)
from wirefault.history.lines import Clock, line_hash
from wirefault.history.logs import strip_control
from wirefault.history.seal import Integrity, examine
from wirefault.history.writer import MAX_HISTORY_BYTES, logs_folder
from wirefault.wiring.links import HTTP, Link

_VERSION = re.compile(rb'"versions": ?\{[^{}]*"wirefault": ?"([\w.+]{1,40})"')
_RUN_ID = re.compile(rb'"run_id": ?"([^"]*)"')


def with_found_links(events: Iterable[Event]) -> list[Event]:
    """Return the events in order, with the run's found links and their toxics added.

    Idempotent.
    """
    events = list(events)
    opened = [event for event in events if isinstance(event, LinkOpened)]
    spoken: dict[str, str] = {}
    for event in events:
        if isinstance(event, Exchange) and _shows_dialect(event):
            # a server with both dialects is a model's; each exchange has its request's dialect
            known = spoken.get(event.link, MCP.name)
            spoken[event.link] = event.dialect if known == MCP.name else known
    if not (opened or spoken):
        return events
    by_attempt: defaultdict[tuple[str, int], list[LinkOpened]] = defaultdict(list)
    for event in opened:
        by_attempt[event.episode, event.attempt].append(event)

    def completed(event: Event) -> Event:
        if isinstance(event, RunStarted):
            known = {link.name for link in event.links}
            new_links = [one.link for one in opened if one.link.name not in known]
            return replace(event, links=[_as_spoken(link, spoken) for link in (*event.links, *new_links)])
        if isinstance(event, AttemptArmed):
            links = by_attempt[event.episode, event.attempt]
            link_toxics = [toxic for link in links for toxic in link.toxics]
            new = [toxic for toxic in link_toxics if toxic not in event.toxics]
            return replace(event, toxics=[*event.toxics, *new])
        return event

    return [completed(event) for event in events]


def changes_found_links(event: Event) -> bool:
    """Return whether the event can change the found links in other events."""
    return isinstance(event, LinkOpened) or (isinstance(event, Exchange) and _shows_dialect(event))


def _shows_dialect(event: Exchange) -> bool:
    return event.dialect == MCP.name or event.of_model


def _as_spoken(link: Link, spoken: Mapping[str, str]) -> Link:
    """Return a found link with the dialect that its requests showed."""
    dialect = spoken.get(link.name, "")
    if not (link.found and dialect and link.dialect in (HTTP, MCP.name)):
        return link
    return replace(link, dialect=dialect, recognised=dialect != MCP.name)


_MAX_LINE_LENGTH = 16 * 1024 * 1024  # bytes; parsed data needs many times as much
_DECODER: Decoder[Event] = Decoder(Event)

# prefix of run ids for traffic that crossed a lab outside any run
LIVE = "live-"


class HistoryError(ValueError):
    """An unreadable history; the message names file and line, and is safe for a terminal."""

    def __init__(self, message: str) -> None:
        super().__init__(strip_control(message))


def read_file(path: Path) -> Iterator[Event]:
    """Read the events of one file, in order. Raises ``HistoryError`` for a bad line, or ``OSError``.

    An unterminated last line (its writer was killed, or is still writing) is left out.
    """
    data = read_shared(logs_folder(path), path, MAX_HISTORY_BYTES)
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        yield parse_line(line, path, number)


def parse_line(line: bytes, path: Path, number: int) -> Event:
    """Parse the event on a line; ``path`` and ``number`` are for the error. Raises ``HistoryError``."""
    if len(line) > _MAX_LINE_LENGTH:
        raise HistoryError(f"{path}:{number}: not an event: a line of {len(line)} bytes")
    try:
        event = _DECODER.decode(line)
    except RecursionError:
        raise HistoryError(f"{path}:{number}: not an event: nested too deeply") from None
    except ValueError as error:
        raise HistoryError(f"{path}:{number}: not an event: {error}") from None
    if isinstance(event, WorldRead) and not all(_is_time(effect.get("at", 0.0)) for effect in event.effects):
        raise HistoryError(f"{path}:{number}: not an event: effects.at is not a time")
    return event


def _is_time(value: object) -> bool:
    try:
        convert(value, Clock)
    except ValidationError:
        return False
    return True


@dataclass(frozen=True)
class RunHistory:
    """The raw files of a run: the complete lines of each file, by file name.

    ``torn`` counts unterminated last lines, including lines moved aside.
    """

    folder: Path
    files: Mapping[str, Sequence[bytes]]
    torn: int
    integrity: Integrity

    def events(self, known: Mapping[str, Event] = MappingProxyType({})) -> list[Event]:
        """Return all events, file by file, except those after the seal. Raises ``HistoryError``.

        ``known``: events, by id, whose lines need not be parsed.
        """
        late = self.integrity.late
        try:
            return with_found_links(
                known.get(f"{file.stem}:{number}") or parse_line(line, file, number)
                for file, lines in ((self.folder / name, lines) for name, lines in self.files.items())
                for number, line in enumerate(lines[: len(lines) - late.get(file.name, 0)], start=1)
            )
        except HistoryError as error:
            writer = next(
                filter(None, (_VERSION.search(lines[0]) for lines in self.files.values() if lines)), None
            )
            version = writer[1].decode() if writer else __version__
            other = "" if version == __version__ else f"; Wirefault {version} recorded it, and reads it"
            raise HistoryError(f"{error}{other}") from None

    def line(self, id: str) -> bytes:
        """Return the line of an event by its id, ``<file>:<line>``. Raises ``HistoryError`` if unknown."""
        name, _, number = id.rpartition(":")
        lines = self.files.get(f"{name}.jsonl", ())
        if not number.isdecimal() or not 1 <= int(number) <= len(lines):
            known = ", ".join(f"{Path(file).stem}:1 to :{len(there)}" for file, there in self.files.items())
            raise HistoryError(f"{self.folder}: unknown event {id}; there are {known}")
        return lines[int(number) - 1]


def read_history(logs: Path, run_id: str) -> RunHistory:
    """Read a run's files and check chains and seal, without parsing events.

    Raises ``HistoryError`` if the run does not exist, or ``OSError``.
    """
    folder = logs / "runs" / run_id
    # first: a run that ends meanwhile announces its seal after it wrote the end
    seal = announced_seal(logs, run_id)
    files, torn = {}, 0
    for path in sorted(folder.glob("*.jsonl")):
        *files[path.name], rest = read_shared(logs, path, MAX_HISTORY_BYTES).split(b"\n")
        torn += bool(rest)
    if not files:
        raise HistoryError(f"{folder}: not the history of a run")
    for path in folder.glob("*.jsonl.torn"):
        torn += read_shared(logs, path, MAX_HISTORY_BYTES).count(b"\n")
    return RunHistory(folder, files, torn, examine(run_id, files, seal))


def announced_seal(logs: Path, run_id: str) -> str:
    """Return the hash of the run's sealing line according to the summary in info.log; empty if missing."""
    path = logs / "info.log"
    try:
        with os.fdopen(open_shared(logs, path, os.O_RDONLY), "rb") as file:
            status = os.fstat(file.fileno())
    except FileNotFoundError:
        return ""
    state = status.st_ino, status.st_size, status.st_ctime_ns
    for line in reversed(_summaries(logs, path, state).get(run_id, ())):
        try:
            summary = json.loads(line)
        except (ValueError, RecursionError):  # RecursionError: nested too deeply
            continue
        if isinstance(summary, dict) and summary.get("run_id") == run_id:
            return str(summary.get("seal") or "")
    return ""


@lru_cache(maxsize=1)  # all runs are read one after the other, and the file may have megabytes
def _summaries(logs: Path, path: Path, state: tuple[int, ...]) -> Mapping[str, Sequence[bytes]]:
    """Return the lines of info.log with a summary, by the ids of runs in them.

    ``state`` is the file's inode, size and time of change, so that a changed file is read again.
    """
    summaries: defaultdict[str, list[bytes]] = defaultdict(list)
    for line in read_shared_tail(logs, path, MAX_HISTORY_BYTES).splitlines():
        if b'"event": "summary"' in line:
            for run_id in set(_RUN_ID.findall(line)):
                summaries[run_id.decode("utf-8", "replace")].append(line)
    return summaries


def read_run(logs: Path, run_id: str) -> list[Event]:
    """Return all events of a run, file by file. Raises ``HistoryError``, also if the run does not exist."""
    return read_history(logs, run_id).events()


class Tail:
    """A reader of a file that another process is writing.

    Each ``read`` returns the events appended since the last one; none while the file does not exist. Raises
    ``HistoryError`` if it has become another file.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        self._offset = 0
        self._line = 0
        self._last = b""
        self._identity: tuple[int, int] | None = None

    def read(self) -> list[Event]:
        """Return the new events; an unterminated line waits for the next read. Raises ``HistoryError``."""
        return [event for _, event in self.read_with_ids()]

    def read_with_ids(self) -> list[tuple[str, Event]]:
        """Return them with their ids."""
        try:
            descriptor = open_shared(logs_folder(self._path), self._path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            identity = status.st_dev, status.st_ino
            if self._identity not in (None, identity):
                raise HistoryError(f"{self._path} was replaced while a process of the lab wrote it")
            self._identity = identity
            file.seek(self._offset)
            appended = max(status.st_size - self._offset, 0)
            data = file.read(min(appended, MAX_HISTORY_BYTES))  # read() allocates the requested size
        end = data.rfind(b"\n") + 1
        self._offset += end
        events: list[tuple[str, Event]] = []
        for line in data[:end].split(b"\n")[:-1]:
            self._line += 1
            self._last = line
            events.append((f"{self._path.stem}:{self._line}", parse_line(line, self._path, self._line)))
        return events

    def sealed(self) -> SealedFile:
        """Return the part of the file that was read."""
        return SealedFile(self._line, line_hash(self._last) if self._line else "")


class GrowingRun:
    """A reader of a run that may still be running: it parses each line once. Threads may share it."""

    def __init__(self, logs: Path, run_id: str) -> None:
        self._logs, self._run_id = logs, run_id
        self._tails: dict[str, Tail] = {}
        self._identified: list[tuple[str, Event]] = []
        self._reading = Lock()

    def since(self, count: int) -> list[tuple[str, Event]]:
        """Return the events with their ids, without the first ``count``. Bad lines: see ``events``."""
        with self._reading:
            self._read()
            return self._identified[count:]

    def events(self) -> list[Event]:
        """Return the events as ``read_run`` does. Raises ``HistoryError`` for a bad line."""
        with self._reading:
            self._read()
            history = read_history(self._logs, self._run_id)
            reads = {name: tail.sealed() for name, tail in self._tails.items()}
            unaltered = not history.integrity.alterations and all(
                [*map(line_hash, history.files.get(name, ())[read.lines - 1 : read.lines])] == [read.head]
                for name, read in reads.items()
                if read.lines
            )
            return history.events(dict(self._identified) if unaltered else {})

    def _read(self) -> None:
        # the runner's file first: the others are then complete for the episodes that it has judged
        for path in sorted((self._logs / "runs" / self._run_id).glob("*.jsonl")):
            with suppress(HistoryError, OSError):
                self._identified += self._tails.setdefault(path.name, Tail(path)).read_with_ids()


def with_run_ids(events: Iterable[Event]) -> list[tuple[str, Event]]:
    """Return each event of a run with the run's name and its id, ``RUN/gateway-0:17``, as ``with_ids``."""
    events = list(events)
    started = next((event for event in reversed(events) if isinstance(event, RunStarted)), None)
    return [(f"{started.run_id}/{id}" if started else id, event) for id, event in with_ids(events)]


def with_ids(events: Iterable[Event]) -> Iterator[tuple[str, Event]]:
    """Return each event of a one-lane run with its id, which is its file and line.

    The events of one file must be in written order without a gap; files may come in any order.
    """
    events = list(events)
    ids = EventIds(next((event.lane for event in events if isinstance(event, RunStarted)), 0))
    return ((ids.next(event), event) for event in events)


def moment_of(event: Event) -> float:
    """Return when the event ended, in seconds since the epoch; the seal has no time."""
    if isinstance(event, RunSealed):
        return 0.0
    if isinstance(event, Exchange):
        return event.start + event.ms / 1000
    return event.end if isinstance(event, ToolTry | AttemptEnded) else event.t


def bare_id(id: str) -> str:
    """Return the id of an event without the run's name."""
    return id.rpartition("/")[2]


class EventIds:
    """Numbers the events of one lane's run as they come."""

    def __init__(self, lane: int) -> None:
        self._lane = lane
        self._lines = Counter[str]()

    def next(self, event: Event) -> str:
        """Return the event's id, its file and line."""
        writer = _writer_of(event)
        self._lines[writer] += 1
        return f"{writer}-{self._lane}:{self._lines[writer]}"


def _writer_of(event: Event) -> str:
    """Return the process that writes the event to its file."""
    if isinstance(event, BudgetWarned | BudgetSpent | BudgetUnknown):
        return "agent" if event.of_subject else "gateway"
    if isinstance(event, WentPastLab):
        return "gateway" if event.link else "agent" if event.sent is None else "ingress"
    return _WRITERS.get(type(event), "agent")


_WRITERS: Mapping[type[Event], str] = {
    **dict.fromkeys((ConnectionUnanswered, Exchange, FaultsSet, InterceptionFailed, LateRequest), "gateway"),
    **{ConnectionEnded: "ingress", LinkOpened: "manager", ToxicsChanged: "manager"},
}
