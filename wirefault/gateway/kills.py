"""Kills of the subject: a connection waits at a point of the wire until the runner has killed the subject.

The gateway writes an order into ``state.db`` and holds the exchange, and takes no other request of the
attempt. The runner kills the process tree, notes that it is dead, and waits. The gateway then closes the
connections of the dead processes and notes ``closed``: from that moment nothing of them can arrive, and the
runner resumes the subject.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

from wirefault.settings.settings import SettingsError
from wirefault.state.state import State
from wirefault.state.tables import KillOrder

# after the subject's own grace period
KILL_BOUND_S = 30.0
_POLL_S = 0.002

KillEnd = Literal["dead", "gone", "failed"]
OnEnd = Callable[[KillEnd, str], None]
"""Called in the loop with the end of a kill, and the reason of a failure."""
StartKill = Callable[[KillOrder, Callable[[], bool], OnEnd], None]
"""Starts a kill: the order, whether the attempt is over, and the callback."""


class AttemptKills:
    """The kills of one attempt, one at a time."""

    pending: bool
    """The subject is to die: no request of it is taken."""

    def __init__(self, start: StartKill) -> None:
        self._start = start
        self._numbers: Counter[str] = Counter()
        self.pending = False

    def count(self, entry: str) -> int:
        """How often that entry of the fault set has begun a kill."""
        return self._numbers[entry]

    def begin(self, order: KillOrder, is_over: Callable[[], bool], on_end: OnEnd) -> bool:
        """Order a kill, whose ``number`` is filled in. False if one is pending."""
        if self.pending:
            return False
        self.pending = True
        self._numbers[order.entry] += 1

        def end(how: KillEnd, why: str) -> None:
            on_end(how, why)
            self.pending = False

        self._start(replace(order, number=self._numbers.total()), is_over, end)
        return True


class SubjectKills:
    """Carries orders to the runner by ``state.db``, in threads, and waits for its answers."""

    def __init__(
        self,
        state_db: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = state_db
        self._clock = clock
        self._sleep = sleep
        self._threads = ThreadPoolExecutor(4, "subject-kills")
        self._stopping = False

    def start(self, order: KillOrder, is_over: Callable[[], bool], on_end: OnEnd) -> None:
        """Order a kill; see ``StartKill``."""
        loop = asyncio.get_running_loop()

        def answer() -> tuple[KillEnd, str]:
            try:
                return self._answer(order, is_over)
            except (sqlite3.Error, SettingsError, OSError) as error:
                return "failed", str(error)

        def finish(done: asyncio.Future[tuple[KillEnd, str]]) -> None:
            how, why = done.result()
            on_end(how, why)
            if how == "dead" and not self._stopping:
                loop.run_in_executor(self._threads, self._close, order)

        loop.run_in_executor(self._threads, answer).add_done_callback(finish)

    def _answer(self, order: KillOrder, is_over: Callable[[], bool]) -> tuple[KillEnd, str]:
        """Write the order and wait for the runner."""
        with State(self._path) as state:
            state.kills.add(order)
            end = self._clock() + order.wait_s + order.grace_s + KILL_BOUND_S
            seen = -1
            while self._clock() < end and not self._stopping:
                version = state.data_version()
                if version != seen:
                    seen = version
                    row = state.kills.last(order.run_id, order.episode, order.attempt)
                    if row is not None and row.state in ("dead", "gone", "failed"):
                        return row.state, row.why
                if is_over() and state.kills.move(order, "gone"):
                    return "gone", ""
                self._sleep(_POLL_S)
            why = "no runner has killed the subject in time"
            state.kills.move(order, "failed", why)
            return "failed", why

    def _close(self, order: KillOrder) -> None:
        with State(self._path) as state:
            row = state.kills.last(order.run_id, order.episode, order.attempt)
            if row is not None:
                state.kills.move(row, "closed")

    def stop(self) -> None:
        """End pending orders."""
        self._stopping = True
        self._threads.shutdown()
