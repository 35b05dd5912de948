"""The manager's loop: poll the state, step when it changed, and survive lost servers and files."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from proxy_manager import log
from proxy_manager.gateway_control import GatewayError
from proxy_manager.proxies import LaneProxies
from proxy_manager.reconcile import Reconciler
from wirefault.core.interrupts import SignalFlag
from wirefault.core.sockets import Address
from wirefault.settings.settings import SettingsError
from wirefault.state.state import HEARTBEAT_EVERY, State
from wirefault.toxiproxy.answers import ToxiproxyError

_POLL_BUSY_S = 0.002
_POLL_IDLE_S = 0.02
# maximum delay until a change of the state is noticed, as a share of the quiet time before it
_MAX_LATE_SHARE = 0.05
_WATCH_EVERY_S = 0.25
# Longer than any step may take (settling is bounded separately).
STEP_BOUND_S = 10.0


def pause(run: bool, changing: bool, quiet_s: float) -> float:
    """Return the seconds until the next poll of the state, which last changed ``quiet_s`` ago.

    ``run``: whether a run has the lane. ``changing``: whether toxics change during its attempt.
    """
    if not run:
        return _POLL_IDLE_S
    if changing:
        return _POLL_BUSY_S
    return min(max(quiet_s * _MAX_LATE_SHARE, _POLL_BUSY_S), _POLL_IDLE_S)


class Loop:
    """The control loop, which runs until ``stop`` is set. It heals first and last."""

    def __init__(
        self,
        open_state: Callable[[], State],
        state_path: Path,
        proxies: LaneProxies,
        make_reconciler: Callable[[State], Reconciler],
        lab_id: str,
        lane: int,
    ) -> None:
        self.stop = threading.Event()
        self.end_requested = SignalFlag()
        self.addresses: dict[str, Address] = {}
        self.reconciler: Reconciler | None = None
        self._open_state = open_state
        self._state_path = state_path
        self._proxies = proxies
        self._make_reconciler = make_reconciler
        self._lab_id = lab_id
        self._lane = lane
        self._progress = time.monotonic()
        self._error: str | None = "starting"
        self._reason = "the proxy manager restarted during the attempt"

    @property
    def error(self) -> str | None:
        """Reason why the manager is not ready; None if it is ready."""
        return "the control loop is stuck" if self._is_stuck else self._error

    @property
    def _is_stuck(self) -> bool:
        bound = STEP_BOUND_S + (self.reconciler.settling_s if self.reconciler else 0.0)
        return time.monotonic() - self._progress > bound

    def run(self) -> None:
        beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        beating.start()
        try:
            while not self._is_to_end():
                self._run_until_lost()
        finally:
            self._heal_last()
            beating.join(HEARTBEAT_EVERY)

    def _is_to_end(self) -> bool:
        if self.end_requested.is_set():
            self.stop.set()  # for the other threads
        return self.stop.is_set()

    def _run_until_lost(self) -> None:
        """Work with one database and one Toxiproxy until it is stopped or either is lost."""
        try:
            self.addresses = self._proxies.ensure()
            with self._open_state() as state:
                inode = self._state_path.stat().st_ino
                self.reconciler = self._make_reconciler(state)
                self.reconciler.restore_links()
                self.reconciler.take_over(self._reason)
                self._error = None
                self._write_beat(state)
                log.info("ready: %d proxies, no toxic", len(self.addresses))
                self._steps(self.reconciler, state, inode)
        except (ToxiproxyError, GatewayError, sqlite3.Error, OSError) as error:
            self._lost(error)
            self.stop.wait(0.1)
        finally:
            if self.reconciler is not None:
                self.reconciler.close()

    def _lost(self, error: Exception) -> None:
        if str(error) != self._error:
            log.warning("%s", error)
        self._error = str(error)
        self._reason = f"the proxy manager had to start over during the attempt: {error}"
        self._progress = time.monotonic()

    def _steps(self, reconciler: Reconciler, state: State, inode: int) -> None:
        seen, watched = -1, time.monotonic()
        changed = watched
        while not self._is_to_end():
            version = state.data_version()
            if version != seen or reconciler.due:
                seen = version
                reconciler.step()
                changed = time.monotonic()
            now = self._progress = time.monotonic()
            if now - watched >= _WATCH_EVERY_S:
                watched = now
                self._check_file(inode)
                reconciler.step()
                reconciler.watch()
            self.stop.wait(pause(bool(reconciler.status.run), reconciler.changing, now - changed))

    def _check_file(self, inode: int) -> None:
        try:
            same = self._state_path.stat().st_ino == inode
        except FileNotFoundError:
            same = False
        if not same:
            raise OSError(f"{self._state_path} was deleted or replaced while in use; it is created again")

    def _beat(self) -> None:
        """Write the heartbeat in a separate thread, while the loop is not stuck."""
        while not self.stop.is_set():
            # the loop reports a file that cannot be opened
            with suppress(sqlite3.Error, OSError, SettingsError), self._open_state() as state:
                if not self._is_stuck:
                    self._write_beat(state)
            self.stop.wait(HEARTBEAT_EVERY)

    def _write_beat(self, state: State) -> None:
        state.beat_manager(self._lab_id, self._lane, os.getpid(), time.time(), self._error or "")

    def _heal_last(self) -> None:
        try:
            self._proxies.heal()
            with suppress(sqlite3.Error, OSError), self._open_state() as state:
                state.toxics.mark_removed(self._lab_id, self._lane, time.time())
            log.info("healed: no toxic left")
        except ToxiproxyError as error:
            log.warning("could not heal at the end: %s", error)
