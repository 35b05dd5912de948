"""A lane's state: its run, the attempt in progress, and which connections belong to it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from windtunnel.core.worlds import TRANSLATOR_HEADER, WORLD_HEADER, world_of
from windtunnel.dialects.mcp import MCP
from windtunnel.faults.catalogue.http.http_error import HttpError
from windtunnel.faults.matching.matcher import FaultMatcher
from windtunnel.faults.sets.canonical import read_canonical
from windtunnel.faults.sets.fault_set import Entry, FaultSet
from windtunnel.gateway.endpoint import Endpoint
from windtunnel.history.events import FaultsSet
from windtunnel.history.writer import Writer, dump_line
from windtunnel.links.link import Link
from windtunnel.links.links import Links
from windtunnel.settings.settings import Settings


class LaneConnection(Protocol):
    """What a lane must be able to do with a client's connection."""

    def end(self, reason: str) -> None:
        """Closes it at once; a request in progress is recorded with that reason."""

    def settle(self, attempt: LaneAttempt) -> None:
        """The attempt is over: its delayed requests go on, replies that only a fault holds up are cut off, as
        are streams; a connection without a request ends."""

    def cut_off(self, attempt: LaneAttempt) -> None:
        """Ends it at once if it has only not been closed by its client."""


class ForeignLink(ValueError):
    """A fault set that would do to somebody else's server what is allowed only with the lab's own."""


class Run:
    """A run that has the lane: its frozen settings, its history, and the faults that its requests may meet.

    ``matcher`` holds the armed faults, ``configuration`` their number: 0 for the run's own settings. Raises
    ``ForeignLink``. ``model`` stands in the place of the scripted model, None where the settings name no
    other.
    """

    def __init__(
        self, run_id: str, settings: Settings, writer: Writer, model: Endpoint | None, links: Links
    ) -> None:
        self.run_id = run_id
        self._links = links
        self.settings = settings
        self.settings_hash = settings.hash
        self.keeps_bodies = settings.bodies != "off"
        self.model = model
        self._faults = read_canonical(settings.faults, settings.chaos_level)
        self.matcher = self._armed_with(self._faults)
        self.configuration = 0
        self.failure = ""
        self._writer = writer
        self._unwritten: list[str] = []
        self._began = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run's start."""
        return time.perf_counter() - self._began

    def configure(self, number: int, faults: FaultSet, episode: str, attempt: int) -> None:
        """Arms another fault set; counts start anew, tries under way keep what was decided for them.

        Recorded in the history as of that attempt, unless that configuration is in force already. Raises
        ``ForeignLink``: then nothing has changed.
        """
        if number == self.configuration:
            return
        self.matcher, self.configuration = self._armed_with(faults), number
        self._faults = faults
        self.write(dump_line(FaultsSet(time.time(), episode, attempt, number, faults.dump(), faults.ids)))

    def add_link(self, link: Link) -> None:
        """Arms the faults in force on a link that was found. Raises ``ForeignLink``: then nothing changed."""
        before, self._links = self._links, self._links.adding([link])
        try:
            entries = self._entries(self._faults)
        except ForeignLink:
            self._links = before
            raise
        self.matcher.add_link(link.name, entries)

    def _armed_with(self, faults: FaultSet) -> FaultMatcher:
        return FaultMatcher(self.settings.seed, self._entries(faults))

    def _entries(self, faults: FaultSet) -> list[Entry]:
        """What may strike the links as they are now, in the order of the set."""
        entries = [*_error_prob(self.settings, self._links.tool_names), *faults.on(self._links).faults]
        for entry in entries:
            foreign = [name for name in entry.links if entry.fault.lab_only and self._is_foreign(name)]
            if foreign:
                raise ForeignLink(
                    f"the fault {entry.id} is for the lab's own servers only, and the one behind the link"
                    f" {foreign[0]} is not one of them: leave that link out of its links, or let its wiring"
                    " say planted: true"
                )
        return entries

    def _is_foreign(self, name: str) -> bool:
        link = self._links[name]
        if link.takes_model and self.model is not None:
            return not self.model.is_lab
        return not (link.is_of_lab or link.planted)

    def write(self, line: str) -> None:
        """Appends to the history: in this turn of the loop, with all else that it has to write.

        A process that is killed outright loses at most that turn's, whose replies may have gone out.
        """
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unwritten.append(line)

    def flush(self) -> None:
        """Writes now. What cannot be written is kept as ``failure``: the lane is then unfit.

        Nothing is written after that: it would go on the line that was cut, and spoil what is there.
        """
        lines, self._unwritten = self._unwritten, []
        if not lines or self.failure:
            return
        try:
            self._writer.write_lines(lines)
        except OSError as error:
            self.failure = f"the history cannot be written: {error}"

    def close(self) -> None:
        self.flush()
        self._writer.close()


def _error_prob(settings: Settings, tools: tuple[str, ...]) -> list[Entry]:
    """The lab's own errors on the tool links. Without an id, so that their draws are the schedule's."""
    fault = HttpError(chance=settings.error_prob, retry_after=settings.retry_after)
    return [Entry(fault, tools)] if settings.error_prob else []


def attempt_fields(run_id: str, episode: str, number: int) -> str:
    """The fields of an attempt's records that say which it is, as JSON."""
    quoted = (json.dumps(text, ensure_ascii=False) for text in (run_id, episode))
    return '"run":{},"episode":{},"attempt":{}'.format(*quoted, number)


class LaneAttempt:
    """One attempt in a run: how many connections it waits for, and what has arrived in it.

    ``settling``: it is over, so that no fault holds anything of it up any more.
    """

    def __init__(self, run: Run, episode: str, number: int) -> None:
        self.run = run
        self.episode = episode
        self.number = number
        self.open = 0
        self.settling = False
        self.fields_json = attempt_fields(run.run_id, episode, number)
        self.lab_headers = (
            f"{WORLD_HEADER}: {world_of(run.run_id, episode)}\r\n"
            f"{TRANSLATOR_HEADER}: {run.settings.translator_backend}\r\n"
        ).encode("latin-1")
        self._arrived: dict[tuple[str, str], int] = {}
        self._quiet: list[asyncio.Future[None]] = []

    def is_(self, episode: str, number: int) -> bool:
        return self.episode == episode and self.number == number

    def count(self, link: str, fingerprint: str) -> int:
        """The ordinal of this request among those on that link that ask for the same, from 1."""
        request = (link, fingerprint)
        ordinal = self._arrived[request] = self._arrived.get(request, 0) + 1
        return ordinal

    def opened(self) -> None:
        self.open += 1

    def closed(self) -> None:
        self.open -= 1
        if not self.open:
            for waiter in self._quiet:
                if not waiter.done():
                    waiter.set_result(None)
            self._quiet.clear()

    async def quiet(self, bound_s: float) -> None:
        """Waits until none of its connections is open, at most that many seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + bound_s
        while self.open and loop.time() < deadline:
            waiter = loop.create_future()
            self._quiet.append(waiter)
            await asyncio.wait([waiter], timeout=deadline - loop.time())


@dataclass
class Lane:
    """One set of listeners. It has at most one run and one attempt at a time."""

    number: int
    links: Links
    run: Run | None = None
    attempt: LaneAttempt | None = None
    connections: set[LaneConnection] = field(default_factory=set)
    _ended: LaneAttempt | None = None

    def start_run(self, run_id: str, settings_hash: str, make: Callable[[], Run]) -> Run:
        """The run, made unless it has the lane already; the previous one's history is closed."""
        if self.run is None or (self.run.run_id, self.run.settings_hash) != (run_id, settings_hash):
            new = make()
            self.close("another run took the lane")
            self.run = new
        return self.run

    def add_link(self, link: Link) -> None:
        """A link that was found: of this lane from now on, in the run in progress and in later ones."""
        if self.run is not None:
            self.run.add_link(link)
        self.links = self.links.adding([link])

    def start_attempt(self, run: Run, episode: str, number: int) -> None:
        """Connections accepted from now on belong to it. Told twice, it stays the same attempt."""
        if self.attempt is None or self.attempt.run is not run or not self.attempt.is_(episode, number):
            self.attempt = LaneAttempt(run, episode, number)

    async def settle(self, episode: str, number: int, bound_s: float) -> int:
        """Ends the attempt once no request of it is unanswered, or at the bound; how many then still are.

        What only a fault holds up is let go first, and what is idle is closed. An attempt that the lane does
        not know has none.
        """
        attempt = next((a for a in (self.attempt, self._ended) if a and a.is_(episode, number)), None)
        if attempt is None:
            return 0
        attempt.settling = True
        for connection in tuple(self.connections):
            connection.settle(attempt)
        await attempt.quiet(bound_s)
        for connection in tuple(self.connections):
            connection.cut_off(attempt)
        if self.attempt is attempt:
            self.attempt, self._ended = None, attempt
        return attempt.open

    def close(self, reason: str) -> None:
        """Ends every connection and closes the history."""
        for connection in tuple(self.connections):
            connection.end(reason)
        self.attempt = self._ended = None
        if self.run is not None:
            self.run.close()
            self.run = None


@dataclass(frozen=True)
class LinkListener:
    """One link's listener: its lane, its upstream outside any run, and its time limits (s).

    A client has ``head_timeout`` for a header block, an upstream ``connect_timeout`` for its connection.
    ``redact`` takes the keys that the lab knows out of what is recorded.
    """

    link: Link
    lane: Lane
    endpoint: Endpoint
    head_timeout: float = 10.0
    connect_timeout: float = 10.0
    redact: Callable[[str], str] = str

    @cached_property
    def name(self) -> str:
        return self.link.name

    @cached_property
    def is_model(self) -> bool:
        return self.link.is_model

    @cached_property
    def of_lines(self) -> bool:
        """Whether its messages are lines, shown as HTTP inside the gateway only."""
        return self.link.is_stdio

    @cached_property
    def no_message(self) -> str | None:
        """The ``message`` of a request before it is read: empty where MCP is spoken, else None."""
        return "" if self.link.dialect == MCP.name else None

    @cached_property
    def dialect_by_request(self) -> bool:
        """Whether a request itself must tell if it is one of MCP."""
        return self.link.dialect_by_request

    @cached_property
    def dialect_field(self) -> str:
        """What each of its exchanges says of it in the record, as JSON after a comma, unless it was of MCP
        and nobody had declared that."""
        return f',"dialect":"{self.link.dialect}"'

    def endpoint_in(self, run: Run | None) -> Endpoint:
        """The upstream of a request of that run, which may choose another model, or of none."""
        if self.link.takes_model and run is not None and run.model is not None:
            return run.model
        return self.endpoint
