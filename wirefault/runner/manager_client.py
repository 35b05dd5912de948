"""The runner's side of the control protocol: lease a lane, and arm and heal each attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from sqlite3 import Error as DatabaseError
from time import perf_counter

from wirefault.settings.settings import Settings
from wirefault.state.state import HEARTBEAT_EVERY, STALE_AFTER, AttemptRow, RunRow, State
from wirefault.state.state_files import RunLock
from wirefault.state.tables import ConfigurationRow
from wirefault.subjects.subject import LabFailed
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

_POLL_S = 0.001
_SETTLE_MARGIN_S = 4.0
# grace period for a manager that was delayed (locked database, suspended computer)
_GRACE_LOOKS = 50
# for one that lives but lost Toxiproxy, the gateway or the state: containers restart within this time
_RECOVERY_LOOKS = 1000
_LOOK_EVERY_S = 0.02
_CHECK_MANAGER_EVERY_S = 0.25


class RunAborted(Exception):
    """The lab cannot continue this run; the message says why and what to do."""


@dataclass(frozen=True)
class Arming:
    """The result of arming an attempt.

    ``arming_ms`` is the time until the manager's acknowledgement, None if it did not come in time;
    ``why_not`` is then the reason that the manager noted.
    """

    attempt_id: int
    arming_ms: float | None
    why_not: str = ""


class ManagerClient:
    """Talks to the proxy manager for one run, through ``state.db``. Raises ``RunAborted``.

    ``clock`` gives seconds since the epoch, ``sleep`` takes seconds.
    """

    def __init__(
        self, open_state: Callable[[], State], clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self.open_state = open_state
        self._state = open_state()
        self._inode = self._state.path.stat().st_ino
        self._clock = clock
        self._sleep = sleep
        self._run: RunRow | None = None
        self._lock: RunLock | None = None
        self._lab_read_at = 0.0
        self._stop_beating = threading.Event()
        self._beating: threading.Thread | None = None

    # the run and its lease

    def lease(
        self, run_id: str, lab_id: str, lane: int, settings: Settings, say: Callable[[str], None]
    ) -> None:
        """Insert the run and wait for the lane; ``say`` gets a sentence while another run has it."""
        self._lock = RunLock(self._state.path.parent, run_id)
        self._lock.take()
        frozen, now = (settings.dump(), settings.hash, settings.seed), self._clock()
        self._state.insert_run(run_id, lab_id, lane, *frozen, self._lab_read_at or now, heartbeat=now)
        self._beating = threading.Thread(target=self._beat, args=(run_id,), name="heartbeat", daemon=True)
        self._beating.start()
        self._run = self._state.run(run_id)
        self._wait_for_manager(say)
        self._wait_for_lane(say)

    def lab_faults(self, lab_id: str, lane: int) -> ConfigurationRow | None:
        """The latest fault set on the lab.

        Call it before ``lease``: sets from this moment on belong to the run.
        """
        self._lab_read_at = self._clock()
        return self._state.configurations.latest(lab_id, lane)

    def faults_set_in_run(self) -> ConfigurationRow | None:
        """The latest fault set since the run's start; it replaces the run's own."""
        run = self._row()
        return self._state.configurations.latest(run.lab_id, run.lane, since=run.created)

    def found_links(self, lab_id: str, lane: int) -> list[Link]:
        """The open links that were found on the lane until now."""
        rows = self._state.found_links.rows(lab_id, lane)
        return [row.link for row in rows if row.status == "open"]

    def _wait_for_manager(self, say: Callable[[str], None]) -> None:
        waited = 0.0
        while (lack := self._manager_lack()) is not None:
            if waited >= 10:
                raise RunAborted(self._no_manager(lack))
            if waited == 0:
                say("waiting for the proxy manager")
            self._sleep(0.1)
            waited += 0.1

    def _wait_for_lane(self, say: Callable[[str], None]) -> None:
        named: str | None = None
        while (run := self._row()).status == "waiting":
            leased = self._state.runs(run.lab_id, run.lane, "leased")
            others = [
                other for other in leased if other.run_id != run.run_id
            ]  # the lane may be this run's by now
            if others and others[0].run_id != named:
                named = others[0].run_id
                say(f"lane {run.lane} is in use by run {named}; waiting for it")
            self._need_manager()
            self._sleep(0.02 if others else _POLL_S)
        if run.status != "leased":
            raise RunAborted(
                f"run {run.run_id} lost its place in the line for lane {run.lane}; start it again"
            )

    def _beat(self, run_id: str) -> None:
        # the next beat makes up for a missed one; with a locked database the lease should expire
        while not self._stop_beating.wait(HEARTBEAT_EVERY):
            with suppress(DatabaseError), self.open_state() as state:
                state.beat_run(run_id, self._clock())

    def _row(self) -> RunRow:
        run = self._state.run(self._run.run_id) if self._run else None
        if run is None:
            raise RunAborted(f"the run's row is gone from {self._state.path}; was the file deleted?")
        return run

    def _need_manager(self) -> bool:
        """Wait for a manager that is not ready; return whether it was ready at once.

        Raises ``RunAborted`` if it shows no sign of life or does not recover.
        """
        silent = 0
        for look in range(_RECOVERY_LOOKS):  # counted, not timed: a busy machine delays both sides
            lack = self._manager_lack()
            if lack is None:
                return look == 0
            silent = silent + 1 if not lack else 0
            if silent == _GRACE_LOOKS:
                break
            self._sleep(_LOOK_EVERY_S)
        raise RunAborted(self._no_manager(lack))

    def _manager_lack(self) -> str | None:
        """Reason why the manager cannot arm an attempt, empty without a recent heartbeat; None if it can."""
        run = self._row()
        beat = self._state.manager_beat(run.lab_id, run.lane)
        if beat is None or self._clock() - beat.at > STALE_AFTER:
            return ""
        return beat.not_ready or None

    def _no_manager(self, lack: str | None) -> str:
        if not self._same_file():
            return f"{self._state.path} was deleted or replaced during the run; run again"
        if lack:
            return f"the proxy manager did not recover: {lack}. Run again when it is ready"
        return (
            f"the proxy manager has shown no sign of life for {STALE_AFTER:.0f} s;"
            " no attempt is started without it. If no lab is up, start one (`wirefault lab up` or"
            " `docker compose up`); else look at the manager's log (logs/lab). Then run again"
        )

    def _same_file(self) -> bool:
        try:
            return self._state.path.stat().st_ino == self._inode
        except OSError:
            return False

    # attempts

    def arm(self, episode: str, attempt: int, plan: Sequence[PlannedToxic], timeout_s: float) -> Arming:
        """Request the attempt and wait until it is armed, at most ``timeout_s``."""
        with self._naming_a_lost_file():
            run = self._row()
            if run.status != "leased":
                raise RunAborted("the run lost its lease: it had shown no sign of life for too long")
            self._need_manager()
            start = perf_counter()
            attempt_id = self._state.request_attempt(run, episode, attempt, plan, self._clock())
            row = self._wait_while(attempt_id, "requested", timeout_s)
            if row.state == "requested" and self._state.move_attempt(
                attempt_id, "requested", "abandoned", self._clock()
            ):
                return Arming(attempt_id, None, "; ".join(self._state.attempt(attempt_id).disturbed))
            row = self._state.attempt(attempt_id)
            arming_ms = round((perf_counter() - start) * 1000, 3)
            return Arming(attempt_id, arming_ms if row.state == "armed" else None)

    def begin_turn(self, attempt_id: int, turn: int, timeout_s: float) -> None:
        """Arm the turn's toxics. Raises ``LabFailed`` if that takes too long."""
        with self._naming_a_lost_file():
            self._state.request_turn(attempt_id, turn)
            end = perf_counter() + timeout_s
            while self._state.attempt(attempt_id).armed_turn != turn:
                if perf_counter() > end:
                    raise LabFailed(f"turn {turn} was not armed within {timeout_s:g} s")
                self._sleep(_POLL_S)

    def finish(self, attempt_id: int, settings: Settings) -> AttemptRow:
        """End the attempt and wait until it is healed and settled."""
        with self._naming_a_lost_file():
            self._state.move_attempt(attempt_id, "armed", "finished", self._clock())
            bound_s = settings.settle_bound + _SETTLE_MARGIN_S
            end = perf_counter() + bound_s
            row = self._wait_while(attempt_id, "finished", _CHECK_MANAGER_EVERY_S)
            while row.state == "finished" and perf_counter() < end:
                if not self._need_manager():
                    end = perf_counter() + bound_s
                row = self._wait_while(attempt_id, "finished", _CHECK_MANAGER_EVERY_S)
            return row

    @contextmanager
    def _naming_a_lost_file(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError:  # SQLite reports a deleted file as read-only
            if self._same_file():
                raise
            raise RunAborted(self._no_manager(None)) from None

    def _wait_while(self, attempt_id: int, state: str, timeout_s: float) -> AttemptRow:
        end = perf_counter() + timeout_s
        seen = -1
        row = self._state.attempt(attempt_id)
        while row.state == state and perf_counter() < end:
            version = self._state.data_version()
            if version == seen:
                self._sleep(_POLL_S)
            else:
                seen = version
                row = self._state.attempt(attempt_id)
        return row

    # the end

    def release(self) -> int | None:
        """Return the lane; the number of toxics that may be left, None if unknown.

        The manager heals an open attempt. Raises nothing: a lease that could not be returned expires.
        """
        self._stop_beating.set()
        if self._beating and self._beating.ident is not None:  # an interruption may come before its start
            self._beating.join()
        try:
            return self._release()
        except (DatabaseError, RunAborted):
            return None
        finally:
            if self._lock:
                self._lock.free()

    def _release(self) -> int | None:
        if self._run is None:
            return None
        for status in ("leased", "waiting"):
            self._state.move_run(self._run.run_id, status, "finished")
        end = perf_counter() + _SETTLE_MARGIN_S
        while (left := self._toxics_left()) and self._manager_lack() is None and perf_counter() < end:
            self._sleep(_POLL_S * 10)
        return left if not left or self._manager_lack() is None else None

    def _toxics_left(self) -> int:
        return self._state.toxics.left(self._run.lab_id, self._run.lane) if self._run else 0

    def close(self) -> None:
        self._state.close()
