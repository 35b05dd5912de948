"""A lane's state: its run, the attempt in progress, and which connections belong to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from windtunnel.catalog import LINKS
from windtunnel.faults import FAULTS, Fault
from windtunnel.gateway.endpoint import Endpoint
from windtunnel.history import Writer
from windtunnel.settings import Settings
from windtunnel.worlds import TRANSLATOR_HEADER, WORLD_HEADER, world_of


class Connection(Protocol):
    """What a lane must be able to do with a client's connection."""

    def end(self, reason: str) -> None:
        """Closes it at once; a request in progress is recorded with that reason."""


class Run:
    """A run that has the lane: its frozen settings, its history, the faults that may strike by link."""

    def __init__(self, run_id: str, settings: Settings, writer: Writer, model: Endpoint) -> None:
        self.run_id = run_id
        self.settings = settings
        self.settings_hash = settings.hash
        self.model = model
        self.faults: dict[str, tuple[Fault, ...]] = {
            link.name: tuple(fault for fault in FAULTS if fault.applies(link.name, settings))
            for link in LINKS
        }
        self.failure = ""
        self._writer = writer

    def write(self, line: str) -> None:
        """Appends to the history. What cannot be written is kept as ``failure``: the lane is then unfit."""
        try:
            self._writer.write_line(line)
        except OSError as error:
            self.failure = f"the history cannot be written: {error}"

    def close(self) -> None:
        self._writer.close()


class Attempt:
    """One attempt in a run: how many tool-link connections it has open, and what has arrived in it."""

    def __init__(self, run: Run, episode: str, number: int) -> None:
        self.run = run
        self.episode = episode
        self.number = number
        self.open = 0
        self.lab_headers = (
            f"{WORLD_HEADER}: {world_of(run.run_id, episode)}\r\n"
            f"{TRANSLATOR_HEADER}: {run.settings.translator_backend}\r\n"
        ).encode("latin-1")
        self._arrived: Counter[tuple[str, str]] = Counter()
        self._quiet: list[asyncio.Future[None]] = []

    def is_(self, episode: str, number: int) -> bool:
        return self.episode == episode and self.number == number

    def count(self, link: str, fingerprint: str) -> int:
        """The ordinal of this request among those on that link that ask for the same, from 1."""
        self._arrived[link, fingerprint] += 1
        return self._arrived[link, fingerprint]

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
        """Waits until none of its tool-link connections is open, at most that many seconds."""
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
    run: Run | None = None
    attempt: Attempt | None = None
    connections: set[Connection] = field(default_factory=set)
    _ended: Attempt | None = None

    def start_run(self, run_id: str, settings_hash: str, make: Callable[[], Run]) -> Run:
        """The run, made unless it has the lane already; the previous one's history is closed."""
        if self.run is None or (self.run.run_id, self.run.settings_hash) != (run_id, settings_hash):
            new = make()
            self.close("another run took the lane")
            self.run = new
        return self.run

    def start_attempt(self, run: Run, episode: str, number: int) -> None:
        """Connections accepted from now on belong to it. Told twice, it stays the same attempt."""
        if self.attempt is None or self.attempt.run is not run or not self.attempt.is_(episode, number):
            self.attempt = Attempt(run, episode, number)

    async def settle(self, episode: str, number: int, bound_s: float) -> int:
        """Ends the attempt once it is quiet, or at the bound; how many connections are still open.

        An attempt that the lane does not know has none.
        """
        attempt = next((a for a in (self.attempt, self._ended) if a and a.is_(episode, number)), None)
        if attempt is None:
            return 0
        await attempt.quiet(bound_s)
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
