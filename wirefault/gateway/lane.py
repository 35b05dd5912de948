"""A lane: its run, the attempt in progress, and the connections that belong to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from wirefault.gateway.lane_attempt import LaneAttempt
from wirefault.gateway.run import Run
from wirefault.state.held_calls import HeldCall
from wirefault.wiring.link import Link
from wirefault.wiring.links import Links


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
