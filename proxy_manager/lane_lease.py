"""Which run has the lane: the first in line that is alive."""

from __future__ import annotations

from collections.abc import Callable

from proxy_manager import log
from proxy_manager.lease_age import LeaseAge
from wirefault.state.run_lock import RunLock
from wirefault.state.state import HUNG_AFTER, STALE_AFTER, RunRow, State


class LaneLease:
    """The lease of one lane of a lab. ``clock`` gives seconds since the epoch."""

    def __init__(self, state: State, lab_id: str, lane: int, clock: Callable[[], float]) -> None:
        self._state = state
        self._lab_id = lab_id
        self._lane = lane
        self._age = LeaseAge(clock)

    def renew(self) -> RunRow | None:
        """The run that has the lane; frees it from a dead one and gives it to the next in line.

        To be called in each step of the manager.
        """
        leased = self._state.runs(self._lab_id, self._lane, "leased")
        self._age.note_step()
        for run in leased:
            if self._shows_life(run):
                return run
            silent_s = self._age.of(run.heartbeat)
            log.warning("run %s has shown no sign of life for %.1f s: healing", run.run_id, silent_s)
            self._expire(run)
        for run in self._state.runs(self._lab_id, self._lane, "waiting"):
            if not self._shows_life(run):
                self._expire(run)
            elif self._state.move_run(run.run_id, "waiting", "leased"):
                return self._state.run(run.run_id)
        return None

    def _expire(self, run: RunRow) -> None:
        self._state.move_run(run.run_id, run.status, "expired")
        self._lock_of(run).remove()

    def _shows_life(self, run: RunRow) -> bool:
        silent_s = self._age.of(run.heartbeat)
        return silent_s <= STALE_AFTER or (silent_s <= HUNG_AFTER and self._lock_of(run).is_held())

    def _lock_of(self, run: RunRow) -> RunLock:
        return RunLock(self._state.path.parent, run.run_id)
