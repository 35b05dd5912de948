"""The manager's loop: polls the state, takes a step when it changed, survives what fails around it."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from proxy_manager.client import ToxiproxyError
from proxy_manager.gateway_control import GatewayError
from proxy_manager.proxies import LaneProxies
from proxy_manager.reconcile import Reconciler
from windtunnel.state import HEARTBEAT_EVERY, State
from windtunnel.topology import Address

POLL_BUSY_S = 0.002
POLL_IDLE_S = 0.02
WATCH_EVERY_S = 0.25
# longer than any one step may take (settling is bounded), shorter than anybody would wait
STEP_BOUND_S = 10.0

log = logging.getLogger("proxy_manager")


class Loop:
    """Runs until ``stop`` is set; heals first and heals last."""

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

    @property
    def error(self) -> str | None:
        """What keeps the manager from being ready, None when nothing does."""
        if time.monotonic() - self._progress > STEP_BOUND_S:
            return "the control loop is stuck"
        return self._error

    def run(self) -> None:
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        try:
            while not self.stop.is_set():
                self._run_until_lost()
        finally:
            self._heal_last()

    def _run_until_lost(self) -> None:
        """One life with one database and one Toxiproxy: until stopped, or until either is lost."""
        try:
            self.addresses = self._proxies.ensure()
            with self._open_state() as state:
                inode = self._state_path.stat().st_ino
                self.reconciler = self._make_reconciler(state)
                self.reconciler.heal()
                state.beat_manager(self._lab_id, self._lane, os.getpid(), time.time())
                self._error = None
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
        self._progress = time.monotonic()
        if isinstance(error, ToxiproxyError) and self.reconciler is not None:
            with suppress(sqlite3.Error), self._open_state() as state:
                self.reconciler.state = state
                self.reconciler.lost_toxiproxy(error)

    def _steps(self, reconciler: Reconciler, state: State, inode: int) -> None:
        seen, watched = -1, time.monotonic()
        while not self.stop.is_set():
            version = state.data_version()
            if version != seen:
                seen = version
                reconciler.step()
            now = self._progress = time.monotonic()
            if now - watched >= WATCH_EVERY_S:
                watched = now
                if self._state_path.stat().st_ino != inode:
                    raise OSError(f"{self._state_path} was replaced")
                reconciler.step()
                reconciler.watch()
            self.stop.wait(POLL_BUSY_S if reconciler.status.run else POLL_IDLE_S)

    def _beat(self) -> None:
        """The heartbeat has a thread of its own, but stops when the loop is stuck or not ready."""
        while not self.stop.is_set():
            if self.error is None:
                with suppress(sqlite3.Error), self._open_state() as state:
                    state.beat_manager(self._lab_id, self._lane, os.getpid(), time.time())
            self.stop.wait(HEARTBEAT_EVERY)

    def _heal_last(self) -> None:
        try:
            self._proxies.heal()
            log.info("healed: no toxic left")
        except ToxiproxyError as error:
            log.warning("could not heal at the end: %s", error)
