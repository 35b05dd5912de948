"""A lane: its run, the attempt in progress, its listeners, and the connections that belong to it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from wirefault.core.identity import Identity, Sender
from wirefault.core.redaction import Redaction
from wirefault.dialects import Dialect
from wirefault.dialects.mcp import MCP
from wirefault.gateway.calls import AttemptCalls, OpenFunctions
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.kills import AttemptKills, KillEnd, OnEnd, StartKill
from wirefault.gateway.run import Run
from wirefault.settings.settings import SettingsError
from wirefault.state.effects import TRANSLATOR_HEADER, WORLD_HEADER, world_key
from wirefault.state.state import State
from wirefault.state.tables import HeldCall, KillOrder
from wirefault.wiring.links import HTTP, Link, Links


class Origin(NamedTuple):
    """The attempt that a request belongs to, and how that is known."""

    run: Run | None
    attempt: LaneAttempt | None
    episode: str
    attempt_number: int
    identity: Literal["baggage", "counted", "late"]
    """``baggage``: the request names it. ``counted``: its connection does."""
    late_of: LaneAttempt | None = None
    """The earlier attempt that a late request is recorded in; the others are of the attempt in progress."""


NO_ORIGIN = Origin(None, None, "", 0, "counted")


_CANNOT_KILL = "this gateway has no runner that could kill the subject"


class LaneAttempt:
    """One attempt of a run: what has arrived in it, and the connections that it waits for.

    ``hold`` is called with each call that waits until the manager has changed its link's toxics, ``kill``
    with each order to kill the subject.
    """

    began: float
    """When it was armed (``perf_counter``)."""
    turn: int
    """The user's turn in progress, from 1."""
    open: int
    """Number of connections that it waits for."""
    open_functions: OpenFunctions
    """The subject's own functions that run now."""
    settling: bool
    """It is over: faults no longer delay anything in it."""
    toxic_links: frozenset[str]
    """Links that may have a toxic between the gateway and its clients."""
    lab_headers: bytes
    """Header lines towards the lab's tools."""
    kills: AttemptKills
    """Faults that kill the subject."""
    counted_origin: Origin
    """The origin of its requests, as their connection shows it."""
    named_origin: Origin
    """... as their own baggage names it."""

    def __init__(
        self,
        run: Run,
        episode: str,
        number: int,
        hold: Callable[[HeldCall], None] = lambda _: None,
        kill: StartKill = lambda _order, _is_over, on_end: on_end("failed", _CANNOT_KILL),
    ) -> None:
        self.run = run
        self.episode = episode
        self.number = number
        self.open = 0
        self.turn = 1
        self.settling = False
        self.call_holds = CallHolds(
            lambda link, call: hold(HeldCall(run.run_id, episode, number, link, call))
        )
        self.kills = AttemptKills(kill)
        self.began = time.perf_counter()
        self.toxic_links = run.toxic_links(episode, number)
        self.lab_headers = (
            f"{WORLD_HEADER}: {world_key(run.run_id, episode)}\r\n"
            f"{TRANSLATOR_HEADER}: {run.settings.translator_backend}\r\n"
        ).encode("latin-1")
        self.counted_origin = Origin(run, self, episode, number, "counted")
        self.named_origin = self.counted_origin._replace(identity="baggage")
        self._macs: set[str] = set()
        self.calls = AttemptCalls()
        self.open_functions = OpenFunctions(run.function_sends)
        self._waiters: list[asyncio.Future[None]] = []

    def is_(self, episode: str, number: int) -> bool:
        return self.episode == episode and self.number == number

    def is_named_by(self, identity: Identity) -> bool:
        same_attempt = self.episode == identity.episode and self.number == identity.attempt
        return same_attempt and self.run.run_id == identity.run

    def believes(self, sender: Sender, link: str, *, late: bool) -> bool:
        """Whether the baggage, which names this attempt, has a valid MAC.

        A client may send a request again on a new connection. A late request must not have come before: it
        may be one that another program recorded and sends again.
        """
        if not sender.is_signed(link, self.run.key) or (late and sender.mac in self._macs):
            return False
        self._macs.add(sender.mac)
        return True

    def late_origin(self, during: LaneAttempt | None) -> Origin:
        """Return the origin of a request of this attempt, which is over. ``during``: the one in progress."""
        if during is None:
            return Origin(self.run, None, self.episode, self.number, "late", self)
        return Origin(self.run, during, during.episode, during.number, "late", self)

    def opened(self) -> None:
        self.open += 1

    def closed(self) -> None:
        self.open -= 1
        if not self.open:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    async def quiet(self, bound_s: float) -> None:
        """Wait until no connection is open, at most that many seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + bound_s
        while self.open and loop.time() < deadline:
            waiter = loop.create_future()
            self._waiters.append(waiter)
            await asyncio.wait([waiter], timeout=deadline - loop.time())


class LaneConnection(Protocol):
    """A client's connection, as its lane uses it."""

    def end(self, reason: str) -> None:
        """Close it at once; an exchange in progress is recorded with that reason."""

    def settle(self, attempt: LaneAttempt) -> None:
        """The attempt is over: release a delayed request, cut off a stream or a reply that only a fault
        delays, and end a connection without a request."""

    def cut_off(self, attempt: LaneAttempt) -> None:
        """End it at once if only its client's close is missing."""

    def bury(self) -> None:
        """Its client was killed: end it, except a request that its upstream has."""


# A request that comes later than this many attempts is not known to be late.
_MAX_ENDED = 16


@dataclass
class Lane:
    """One set of listeners. It has at most one run and one attempt at a time."""

    number: int
    links: Links
    run: Run | None = None
    attempt: LaneAttempt | None = None
    connections: set[LaneConnection] = field(default_factory=set)
    hold: Callable[[HeldCall], None] = lambda _: None
    """Called with each call that waits until the manager has changed its link's toxics."""
    kill: StartKill = lambda _order, _is_over, on_end: on_end("failed", _CANNOT_KILL)
    """Orders a kill of the subject."""
    on_model: Callable[[Link, Dialect], None] = lambda *_: None
    """Called once for each link that was found at run time and proves to carry model requests."""
    _ended: deque[LaneAttempt] = field(default_factory=lambda: deque(maxlen=_MAX_ENDED))
    """The last one first."""
    _model_links: set[str] = field(default_factory=set)

    def start_run(self, run_id: str, settings_hash: str, make: Callable[[], Run]) -> Run:
        """Return the run, made unless it has the lane already; the previous one's history is closed."""
        if self.run is None or (self.run.run_id, self.run.settings_hash) != (run_id, settings_hash):
            new = make()
            self.close("another run took the lane")
            self.run = new
        return self.run

    def add_link(self, link: Link) -> None:
        """Add a link that was found during a run, for that run and later ones."""
        if self.run is not None:
            self.run.add_link(link)
        self.links = self.links.adding([link])

    def note_model(self, link: Link, dialect: Dialect) -> None:
        """A request on a link that was found asks a model."""
        if not link.recognised and link.name not in self._model_links:
            self._model_links.add(link.name)
            self.on_model(link, dialect)

    def start_attempt(self, run: Run, episode: str, number: int) -> None:
        """Let new connections belong to that attempt. Idempotent."""
        if self.attempt is None or self.attempt.run is not run or not self.attempt.is_(episode, number):
            if self.attempt is not None:
                self._ended.appendleft(self.attempt)
            self.attempt = LaneAttempt(run, episode, number, self.hold, self._kill)

    def _kill(self, order: KillOrder, is_over: Callable[[], bool], on_end: OnEnd) -> None:
        """Order a kill; at its end the killed processes' connections are closed, too."""

        def end(how: KillEnd, why: str) -> None:
            on_end(how, why)
            for connection in tuple(self.connections):
                connection.bury()

        self.kill(order, is_over, end)

    @property
    def killing(self) -> bool:
        """Whether the subject is to die, so that no request of it is taken."""
        return self.attempt is not None and self.attempt.kills.pending

    def origin_of(
        self, attempt: LaneAttempt | None, sender: Sender | None, link: str
    ) -> tuple[Origin, Identity | None]:
        """Return the origin of a request, and what its sender says about call and try if that is believed.

        ``attempt`` is the one of its connection. Only baggage with a valid MAC is believed. The request is
        late if it names an earlier attempt of the lane. Other baggage that names another attempt is ignored.
        """
        counted = attempt.counted_origin if attempt is not None else NO_ORIGIN
        if sender is None:
            return counted, None
        identity = sender.identity
        if attempt is not None and attempt.is_named_by(identity):
            is_believed = attempt.believes(sender, link, late=False)
            return attempt.named_origin, identity if is_believed else None
        for earlier in (self.attempt, *self._ended):
            if earlier is not None and earlier.is_named_by(identity):
                is_believed = earlier.believes(sender, link, late=True)
                return (earlier.late_origin(during=attempt), identity) if is_believed else (counted, None)
        return counted, None

    async def settle(self, episode: str, number: int, bound_s: float) -> int:
        """End the attempt once its requests are answered, or at the bound; return how many are unanswered.

        First, everything that only a fault delays is released, and idle connections are closed. An attempt
        that the lane does not know has no requests.
        """
        known = (self.attempt, *self._ended)
        attempt = next((each for each in known if each and each.is_(episode, number)), None)
        if attempt is None:
            return 0
        attempt.settling = True
        for connection in tuple(self.connections):
            connection.settle(attempt)
        await attempt.quiet(bound_s)
        for connection in tuple(self.connections):
            connection.cut_off(attempt)
        if self.attempt is attempt:
            self.attempt = None
            self._ended.appendleft(attempt)
        return attempt.open

    def close(self, reason: str) -> None:
        """End all connections and close the history."""
        for connection in tuple(self.connections):
            connection.end(reason)
        self.attempt = None
        self._ended.clear()
        if self.run is not None:
            self.run.close()
            self.run = None


@dataclass(frozen=True)
class LinkListener:
    """A link's listener in a lane."""

    link: Link
    lane: Lane
    endpoint: Endpoint
    """The upstream outside any run."""
    head_timeout: float = 10.0
    """Seconds that a client has for a header block."""
    connect_timeout: float = 10.0
    """Seconds for the connection to an upstream."""
    redaction: Redaction = field(default_factory=Redaction)
    """Removes secrets from records."""

    @cached_property
    def name(self) -> str:
        return self.link.name

    @cached_property
    def is_model(self) -> bool:
        """Whether all its requests ask a model; where each shows its dialect, the exchange says so."""
        return self.link.is_model and not self.link.dialect_by_request

    @cached_property
    def is_function(self) -> bool:
        """Whether its requests call functions of the subject's own processes."""
        return self.link.is_in_process

    @cached_property
    def is_lines(self) -> bool:
        """Whether its messages are lines."""
        return self.link.is_stdio

    @cached_property
    def no_message(self) -> str | None:
        """``Exchange.message`` before the request is read: empty on a link of MCP, else None."""
        return "" if self.link.dialect == MCP.name else None

    @cached_property
    def dialect_by_request(self) -> bool:
        """Whether each request itself must show if it is of MCP, or asks a model."""
        return self.link.dialect_by_request

    @cached_property
    def shows_mcp(self) -> bool:
        """Whether its requests may show that they are of MCP: also where the wiring names no dialect."""
        link = self.link
        is_http = link.dialect == HTTP and not (link.is_of_lab or link.is_in_process)
        return is_http or self.dialect_by_request

    @cached_property
    def may_be_mcp(self) -> bool:
        return self.shows_mcp or self.no_message is not None

    @cached_property
    def recorded_dialect(self) -> str:
        """The dialect in the record of an exchange that does not show another one."""
        return HTTP if self.dialect_by_request else self.link.dialect

    def endpoint_in(self, run: Run | None) -> Endpoint:
        """Return the upstream of a request of that run, which may choose another model, or of no run."""
        if self.link.takes_model and run is not None and run.model is not None:
            return run.model
        return self.endpoint


class CallHolds:
    """The calls of one attempt that wait for a change of their link's toxics.

    ``hold(link, call)`` is called once for each call before which the toxics change.
    """

    links: Collection[str]
    """Links on which calls may have to wait."""

    def __init__(self, hold: Callable[[str, int], None]) -> None:
        self._hold = hold
        self._changes: dict[str, set[int]] = {}
        self.links = self._changes.keys()
        self._awaited: dict[str, dict[int, list[Callable[[], None]]]] = {}

    def expect(self, changes: Mapping[str, Collection[int]]) -> None:
        """Add calls of each link, counted from 1, before which its toxics change."""
        for link, calls in changes.items():
            self._changes.setdefault(link, set()).update(calls)

    def must_wait(self, link: str, call: int) -> bool:
        """Whether that call on one of the ``links`` waits for a change: its own, or an earlier call's."""
        changes = self._changes[link]
        if call in changes:
            changes.remove(call)
            self._awaited.setdefault(link, {})[call] = []
            self._hold(link, call)
        return any(earlier <= call for earlier in self._awaited.get(link, ()))

    def wait(self, link: str, call: int, release: Callable[[], None]) -> None:
        """Call ``release`` after the last change that the call must wait for."""
        last = max(earlier for earlier in self._awaited[link] if earlier <= call)
        self._awaited[link][last].append(release)

    def release(self, link: str, call: int) -> None:
        """Release the requests that wait for that call's change of toxics. Idempotent."""
        for release in self._awaited.get(link, {}).pop(call, ()):
            release()


class StateNotes:
    """Writes into ``state.db`` what the manager has to learn, in a thread, since another writer of that file
    can be slow. Its methods return at once.

    ``on_failure`` is called in the loop with a held call and the reason.
    """

    def __init__(self, state_db: Path, on_failure: Callable[[HeldCall, str], None]) -> None:
        self._path = state_db
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(1, "state-notes")

    def add_call(self, call: HeldCall) -> None:
        """Note a call that waits for a change of its link's toxics."""

        def report(done: asyncio.Future[str]) -> None:
            if done.result():
                self._on_failure(call, f"the manager cannot learn of a held call: {done.result()}")

        self._write(lambda state: state.held_calls.add(call)).add_done_callback(report)

    def add_model(self, lab_id: str, lane: int, link: Link, dialect: Dialect) -> None:
        """Note that a link carries model requests. After a failure it keeps the toxics of a tool's link."""
        self._write(lambda state: state.found_links.mark_model(lab_id, lane, link.name, dialect))

    def _write(self, change: Callable[[State], None]) -> asyncio.Future[str]:
        """The result is the reason of a failure; empty without one."""

        def write() -> str:
            try:
                with State(self._path) as state:
                    change(state)
            except (sqlite3.Error, SettingsError, OSError) as error:
                return str(error)
            return ""

        return asyncio.get_running_loop().run_in_executor(self._thread, write)

    def close(self) -> None:
        """Wait for pending writes."""
        self._thread.shutdown()
