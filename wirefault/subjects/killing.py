"""The runner's side of a kill: end the subject's processes when the gateway orders it, and confirm.

Orders are in ``state.db``; ``wirefault.gateway.kills`` writes them.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from wirefault.core.identity import Identity
from wirefault.history.events import Event, SubjectKilled, SubjectResumed
from wirefault.settings.settings import SettingsError
from wirefault.state.state import State
from wirefault.state.tables import KillOrder

_POLL_S = 0.002
# for the gateway to close the dead processes' connections
_CLOSE_BOUND_S = 10.0
_NOT_CLOSED = "kill_subject: the gateway has not closed the killed subject's connections"


class LabFailed(Exception):
    """The lab, not the subject, failed during an attempt; the message says how."""


class Killable(Protocol):
    """The subject's process tree."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""

    def kill(self, *, grace_s: float | None) -> bool:
        """End it, first by SIGTERM unless ``grace_s`` is None; whether all of it is dead.

        Raises ``LabFailed`` if a command that is to kill it fails.
        """


@dataclass
class Watch:
    """One process tree under watch. ``order`` is the kill that ended it, None if it was not killed."""

    order: KillOrder | None = None
    failure: str = ""
    _over: threading.Event = field(default_factory=threading.Event)


class SubjectKills:
    """The kills of one attempt. ``open_state`` opens ``state.db``; ``record`` writes an event."""

    def __init__(
        self,
        open_state: Callable[[], State],
        identity: Identity,
        record: Callable[[Event], object],
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_state = open_state
        self._identity = identity
        self._record = record
        self._sleep = sleep
        self._clock = clock

    @contextmanager
    def watching(self, process: Killable) -> Iterator[Watch]:
        """Kill the process tree within the block when the gateway orders it.

        Raises ``LabFailed`` at the block's end if that failed.
        """
        watch = Watch()
        thread = threading.Thread(target=self._watch, args=(process, watch), name="kills", daemon=True)
        thread.start()
        try:
            yield watch
        finally:
            watch._over.set()
            thread.join()
        if watch.failure:
            raise LabFailed(watch.failure)

    def resumed(self, order: KillOrder, command: str) -> None:
        """Wait until nothing of the dead processes can arrive, and record that the subject runs again.

        Raises ``LabFailed`` if the gateway does not confirm that in time.
        """
        end = self._clock() + _CLOSE_BOUND_S
        with self._open_state() as state:
            while (last := self._last(state)) is None or last.state != "closed":
                if self._clock() > end:
                    raise LabFailed(_NOT_CLOSED)
                self._sleep(_POLL_S)
        identity = self._identity
        self._record(SubjectResumed(time.time(), identity.episode, identity.attempt, order.number, command))

    def failure(self) -> str:
        """The reason why the attempt's last kill failed, at the attempt's end; empty without a failure."""
        try:
            with self._open_state() as state:
                last = self._last(state)
        except (sqlite3.Error, SettingsError) as error:
            return f"kill_subject: {error}"
        return f"kill_subject: {last.why}" if last is not None and last.state == "failed" else ""

    def _last(self, state: State) -> KillOrder | None:
        return state.kills.last(self._identity.run, self._identity.episode, self._identity.attempt)

    def _watch(self, process: Killable, watch: Watch) -> None:
        try:
            with self._open_state() as state:
                seen = -1
                while True:
                    is_over = watch._over.is_set()
                    version = state.data_version()
                    if version != seen:
                        seen = version
                        order = self._last(state)
                        if order is not None and order.state == "wanted":
                            self._carry_out(state, order, process, watch)
                            return
                    if is_over:
                        return
                    watch._over.wait(_POLL_S)
        except (sqlite3.Error, SettingsError, OSError) as error:
            watch.failure = f"kill_subject: {error}"

    def _carry_out(self, state: State, order: KillOrder, process: Killable, watch: Watch) -> None:
        began = time.perf_counter()
        watch._over.wait(order.wait_s)
        if process.exit_code is not None:  # it ended before the kill
            state.kills.move(order, "gone")
            return
        why = "kill_subject: processes of the subject are still alive"
        try:
            dead = process.kill(grace_s=order.grace_s if order.signal == "term" else None)
        except LabFailed as error:
            dead, why = False, str(error)
        ms = round((time.perf_counter() - began) * 1000, 3)
        self._record(
            SubjectKilled(
                *(time.time(), order.episode, order.attempt, order.number, order.link, order.entry),
                *(order.point, order.signal, dead, ms),
            )
        )
        if dead:
            watch.order = replace(order, state="dead")
            state.kills.move(order, "dead")
        else:
            watch.failure = why
            state.kills.move(order, "failed", why.removeprefix("kill_subject: "))
