"""A lane: its run, the attempt in progress, and the connections that belong to it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from wirefault.dialects.mcp import MCP
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.run import Run
from wirefault.settings.settings import SettingsError
from wirefault.state.effects import TRANSLATOR_HEADER, WORLD_HEADER, world_of
from wirefault.state.held_calls import HeldCall
from wirefault.state.state import State
from wirefault.wiring.links import Link, Links


class HeldCalls:
    """Those of one attempt. ``tell`` is called once for each call before which its link's toxics change.

    ``links``: those where calls may have to wait.
    """

    def __init__(self, tell: Callable[[str, int], None]) -> None:
        self._tell = tell
        self._changes: dict[str, set[int]] = {}
        self.links: Collection[str] = self._changes.keys()
        self._awaited: dict[str, dict[int, list[Callable[[], None]]]] = {}

    def expect(self, changes: Mapping[str, Collection[int]]) -> None:
        """Before these calls of each link, counted from 1, its toxics change."""
        for link, calls in changes.items():
            self._changes.setdefault(link, set()).update(calls)

    def must_wait(self, link: str, call: int) -> bool:
        """Whether the call of that number waits for a change: its own, or that of an earlier one.

        ``link`` is one of ``links``.
        """
        changes = self._changes[link]
        if call in changes:
            changes.remove(call)
            self._awaited.setdefault(link, {})[call] = []
            self._tell(link, call)
        return any(earlier <= call for earlier in self._awaited.get(link, ()))

    def wait(self, link: str, call: int, go_on: Callable[[], None]) -> None:
        """Calls ``go_on`` when the last change is made that the call must wait for."""
        last = max(earlier for earlier in self._awaited[link] if earlier <= call)
        self._awaited[link][last].append(go_on)

    def release(self, link: str, call: int) -> None:
        """The toxics are as that call is to meet them; told again, it changes nothing."""
        for go_on in self._awaited.get(link, {}).pop(call, ()):
            go_on()


class CallNotes:
    """Writes held calls into ``state.db``, in a thread of its own: another writer of that file can be slow.

    ``fail`` is called in the loop with what went wrong.
    """

    def __init__(self, state_db: Path, fail: Callable[[HeldCall, str], None]) -> None:
        self._path = state_db
        self._fail = fail
        self._thread = ThreadPoolExecutor(1, "held-calls")

    def tell(self, held: HeldCall) -> None:
        """Returns at once."""
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, held)
        writing.add_done_callback(lambda done: self._fail(held, done.result()) if done.result() else None)

    def _write(self, held: HeldCall) -> str:
        """What went wrong; empty if nothing did."""
        try:
            with State(self._path) as state:
                state.held_calls.add(held)
        except (sqlite3.Error, SettingsError, OSError) as error:
            return f"a call could not be told to the manager: {error}"
        return ""

    def close(self) -> None:
        """Waits for what is being written."""
        self._thread.shutdown()


def attempt_fields(episode: str, number: int) -> str:
    """The fields of an attempt's records that say which it is of the file's run, as JSON."""
    return f'"episode":{json.dumps(episode, ensure_ascii=False)},"attempt":{number}'


class LaneAttempt:
    """One attempt in a run: how many connections it waits for, and what has arrived in it.

    ``began``: when it was armed, on the clock of ``perf_counter``. ``turn``: the user's turn in progress,
    from 1. ``settling``: it is over, so that no fault holds anything of it up any more.
    ``toxic_links``: those that have a toxic between the gateway and its clients.
    """

    def __init__(
        self, run: Run, episode: str, number: int, tell: Callable[[HeldCall], None] = lambda _: None
    ) -> None:
        self.run = run
        self.episode = episode
        self.number = number
        self.open = 0
        self.turn = 1
        self.settling = False
        self.held_calls = HeldCalls(
            lambda link, call: tell(HeldCall(run.run_id, episode, number, link, call))
        )
        self.began = time.perf_counter()
        self._calls: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self.toxic_links = run.toxic_links(episode, number)
        self.fields_json = attempt_fields(episode, number)
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

    def count_call(self, link: str, fingerprint: str, call: int) -> int:
        """The number of this call among all of the attempt on that link, from 1; its tries share it."""
        calls = self._calls[link]
        return calls.setdefault((fingerprint, call), len(calls) + 1)

    def last_call(self, link: str) -> int:
        """The number of the last call there; 1 before the first."""
        return max(len(self._calls.get(link, ())), 1)

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


class LaneConnection(Protocol):
    """What a lane must be able to do with a client's connection."""

    def end(self, reason: str) -> None:
        """Closes it at once; a request in progress is recorded with that reason."""

    def settle(self, attempt: LaneAttempt) -> None:
        """The attempt is over: its delayed requests go on, replies that only a fault holds up are cut off, as
        are streams; a connection without a request ends."""

    def cut_off(self, attempt: LaneAttempt) -> None:
        """Ends it at once if it has only not been closed by its client."""


@dataclass
class Lane:
    """One set of listeners. It has at most one run and one attempt at a time.

    ``tell`` is called with a call that waits until the manager has changed its link's toxics.
    """

    number: int
    links: Links
    run: Run | None = None
    attempt: LaneAttempt | None = None
    connections: set[LaneConnection] = field(default_factory=set)
    tell: Callable[[HeldCall], None] = lambda _: None
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
            self.attempt = LaneAttempt(run, episode, number, self.tell)

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
