"""Reconcile desired and observed toxics, one step at a time, from the current ``state.db``.

A step leases the lane, arms a requested attempt, starts and ends toxics that are due, and heals a finished
attempt. Between steps an armed attempt is watched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from proxy_manager import log
from proxy_manager.gateway_control import GatewayControl, GatewayError, GatewayFaults
from proxy_manager.lane import (
    LaneParts,
    ManagerHistory,
    ManagerStatus,
    Outages,
    calls_with_changes,
    toxics_at_start,
)
from proxy_manager.links_on_demand import LinksOnDemand
from proxy_manager.live_traffic import LiveTraffic
from proxy_manager.proxies import LaneProxies, toxic_row, toxic_rows
from wirefault.settings.settings import load_frozen
from wirefault.state.state import HUNG_AFTER, STALE_AFTER, AttemptRow, RunRow, State
from wirefault.state.state_files import RunLock
from wirefault.toxiproxy.answers import ToxiproxyError

# the manager steps at least every 0.25 s: after more than twice that time, something delayed it
_MAX_STEP_S = 0.5
_MAX_DELAYS = 256  # far more than can occur before a lease expires


class LeaseAge:
    """Age of a heartbeat without the manager's own delays.

    A suspended computer, a locked database or a busy processor delays the runs' heartbeats too.
    ``clock`` gives seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = self._last_step = clock()
        self._delays: deque[tuple[float, float]] = deque(maxlen=_MAX_DELAYS)

    def note_step(self) -> None:
        """Record a step; call it in each step of the manager."""
        now = self._clock()
        if abs(now - self._last_step) > _MAX_STEP_S:
            self._delays.append((now, now - self._last_step - _MAX_STEP_S / 2))
        self._last_step = now

    def of(self, heartbeat: float) -> float:
        """Return the seconds since the heartbeat, or since a later start, without the manager's delays."""
        since = max(heartbeat, self._since)
        return self._clock() - since - sum(delay for ended, delay in self._delays if ended > since)


class LaneLease:
    """The lease of one lane of a lab. ``clock`` gives seconds since the epoch."""

    def __init__(self, state: State, lab_id: str, lane: int, clock: Callable[[], float]) -> None:
        self._state = state
        self._lab_id = lab_id
        self._lane = lane
        self._age = LeaseAge(clock)

    def renew(self) -> RunRow | None:
        """Return the run that has the lane. Take the lane from a dead run and give it to the next run.

        Call it in each step of the manager.
        """
        leased = self._state.runs(self._lab_id, self._lane, "leased")
        self._age.note_step()
        for run in leased:
            if self._shows_life(run):
                return run
            silent_s = self._age.of(run.heartbeat)
            log.warning("run %s has sent no heartbeat for %.1f s: healing", run.run_id, silent_s)
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


class Reconciler:
    """The control plane of one lane.

    ``clock`` gives seconds since the epoch. ``monotonic`` gives the seconds by which toxics start and end: it
    is never set back.
    """

    def __init__(
        self,
        state: State,
        proxies: LaneProxies,
        gateway: GatewayControl,
        logs: Path,
        lab_id: str,
        lane: int,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self.state = state
        self.status = ManagerStatus()
        self.settling_s = 0.0  # seconds by which the step in progress may exceed the usual bound
        self._proxies = proxies
        self._gateway = gateway
        self._history = ManagerHistory(logs, lane, clock)
        self._outages = Outages(monotonic)
        self._lab_id = lab_id
        self._lane = lane
        self._clock = clock
        self._heal_needed = True
        self._given_up: set[int] = set()
        self._faults = GatewayFaults(state.configurations, gateway, lab_id, lane)
        self._lease = LaneLease(state, lab_id, lane, clock)
        parts = LaneParts(state, proxies, gateway, self._history, (lab_id, lane), clock, self._outages)
        self._on_demand = LinksOnDemand(parts)
        self._live = LiveTraffic(parts)

    def close(self) -> None:
        self._history.close()

    @property
    def due(self) -> bool:
        """Return whether a toxic must start or end now, which needs a step without a change of the state."""
        return self._outages.due

    @property
    def changing(self) -> bool:
        """Return whether toxics start or end during the attempt."""
        return self._outages.changing

    def step(self) -> None:
        """Do one step towards the desired state.

        Raises ``ToxiproxyError``, ``GatewayError``, ``sqlite3.Error``, ``OSError``.
        """
        # before the lease, so that each attempt's run is known when the lane is leased to another one
        attempts = self.state.open_attempts(self._lab_id, self._lane)
        leased = self._lease.renew()
        # before any change, so that /status shows toxics together with their run
        self.status.run = leased.run_id if leased else None
        self._faults.read()
        current: AttemptRow | None = None
        for attempt in attempts:
            if leased is None or attempt.run_id != leased.run_id:
                self._abandon(attempt)
            elif attempt.state == "finished":
                self._heal(attempt, leased)
            else:
                current = attempt
        if current is not None and leased is not None:
            self._show(current)
            if current.state == "requested":
                self._arm(current, leased)
            else:
                self._change_toxics(current)
                self._faults.send(current, leased)
                self._open_links(current, leased)
        elif self._heal_needed or self.state.toxics.left(self._lab_id, self._lane):
            self.heal()
        if current is None:
            self._on_demand.open_wanted(None, leased, None)
        if leased is None:
            self.status.live = self._live.keep(self._faults.latest, self._faults, self._proxies.links)
        else:
            self._live.yield_lane()
            self.status.live = None
        self.status.in_force_from = self._faults.since(self.status.run or self.status.live)
        self.status.configuration = self._faults.number  # last: the API waits for it, then reads the rest

    # life cycle of an attempt

    def _arm(self, attempt: AttemptRow, run: RunRow) -> None:
        plan = self.state.toxics.planned(attempt.id)
        self._heal_needed = True
        try:
            observed = self._proxies.apply(toxics_at_start(plan))
            self._gateway.begin(attempt, run.settings_hash)
            changes = calls_with_changes(plan)
            if changes:
                self._gateway.expect_changes(attempt, changes)
            self._faults.forget()
            self._faults.send(attempt, run)
        except (ToxiproxyError, GatewayError) as error:
            if not attempt.disturbed:  # cleared if a later step arms it
                self.state.disturb(attempt.id, str(error))
            raise
        armed_at = self._clock()
        if not self.state.move_attempt(attempt.id, "requested", "armed", armed_at):
            self.heal()  # the runner gave up waiting meanwhile
            self._end_at_gateway(attempt)
            return
        self.status.observed = observed
        self._outages.begin(plan)
        self._show(attempt)
        self._history.record(attempt, "armed", observed)

    def _open_links(self, attempt: AttemptRow, run: RunRow) -> None:
        """Open the links that the subject has called for the first time."""
        if self._on_demand.open_wanted(attempt, run, self._faults.latest):
            self._show(attempt)

    def restore_links(self) -> None:
        """Reopen the links that were found before this manager started. Raises ``ToxiproxyError``."""
        self._on_demand.restore()

    def _change_toxics(self, attempt: AttemptRow) -> None:
        """Start and end toxics that are due by time, call or turn."""
        self._carry_out_change(attempt)
        if attempt.turn != attempt.armed_turn:
            self._outages.note_turn(attempt.turn)
            self._carry_out_change(attempt)
            self._gateway.begin_turn(attempt)
            self.state.arm_turn(attempt.id, attempt.turn)
        for waiting_call in self.state.held_calls.of(attempt.run_id, attempt.episode, attempt.attempt):
            self._outages.note_call(waiting_call.link, waiting_call.call)
            self._carry_out_change(attempt)
            self._gateway.release(attempt, waiting_call.link, waiting_call.call)
            self.state.held_calls.remove(waiting_call)

    def _carry_out_change(self, attempt: AttemptRow) -> None:
        """Carry out a planned change, which is not a disturbance."""
        if not self._outages.due:
            return
        self._check(attempt, "repaired")  # otherwise a foreign change would be undone without a record
        begun = self._clock()
        change = self._outages.take_change()
        if change is not None:
            self.status.observed = observed = self._proxies.apply(change.in_force)
            self._history.record_change(attempt, observed, change, begun)
            self._show(attempt)

    def _heal(self, attempt: AttemptRow, run: RunRow) -> None:
        if not attempt.disturbed:
            self._check(attempt, "disturbed")
        self.heal()
        self._history.record(attempt, "healed", [])
        self.settling_s = load_frozen(run.settings).settle_bound
        try:
            settled = self._gateway.settle(attempt, self.settling_s)
        finally:
            self.settling_s = 0.0
        self.state.move_attempt(attempt.id, "finished", "healed", self._clock(), settled)

    def _abandon(self, attempt: AttemptRow) -> None:
        """Heal and end an attempt whose run lost its lease."""
        self._heal_needed = True
        self.heal()
        self.state.move_attempt(attempt.id, attempt.state, "abandoned", self._clock())
        self._end_at_gateway(attempt)

    def _end_at_gateway(self, attempt: AttemptRow) -> None:
        try:
            self._gateway.settle(attempt, 0.0)
        except GatewayError as error:
            log.warning("%s", error)  # the lane is healed, and the next attempt takes the gateway anyway

    def heal(self) -> None:
        """Remove every toxic of the lane and verify it."""
        self.status.observed = self._proxies.heal()
        self.state.toxics.mark_removed(self._lab_id, self._lane, self._clock())
        self._outages.forget()
        self.status.desired = []
        self.status.episode = self.status.attempt = None
        self._heal_needed = False

    # watching

    def take_over(self, reason: str) -> None:
        """Heal the lane as the successor of a lost manager.

        An attempt in progress was not watched for a time, so it counts as disturbed and is not armed again.
        """
        self.heal()
        for attempt in self.state.open_attempts(self._lab_id, self._lane):
            if attempt.state == "requested":
                continue
            if not attempt.disturbed:
                self.state.disturb(attempt.id, reason)
                self._history.record(attempt, "disturbed", [], reason)
            self._given_up.add(attempt.id)

    def watch(self) -> None:
        """Compare desired and observed toxics, repair differences and mark the attempt as disturbed.

        Requested and finished attempts are left to ``step``.
        """
        attempts = self.state.open_attempts(self._lab_id, self._lane)
        armed = next((attempt for attempt in attempts if attempt.state == "armed"), None)
        if not attempts:
            # toxics set by hand remain until a run starts
            misplaced = self._proxies.misplaced(self._proxies.observe())
            if misplaced:
                log.warning("changed while idle, repaired: %s", "; ".join(misplaced))
                self.heal()
                self._live.yield_lane()
        elif armed is not None and armed.id not in self._given_up and self._check(armed, "repaired"):
            self.status.observed = self._proxies.apply(self._outages.in_force)

    def _check(self, attempt: AttemptRow, action: Literal["repaired", "disturbed"]) -> bool:
        """Return whether another program changed the attempt's toxics; if so, mark it as disturbed."""
        observed = self._proxies.observe()
        differing = self._proxies.differences(self._outages.in_force, observed)
        if not differing:
            return False
        reason = f"Toxiproxy was changed during the attempt: {'; '.join(differing)}"
        log.warning("%s", reason)
        self.state.disturb(attempt.id, reason)
        self._history.record(attempt, action, toxic_rows(observed), reason)
        return True

    def _show(self, attempt: AttemptRow) -> None:
        self.status.episode, self.status.attempt = attempt.episode, attempt.attempt
        self.status.desired = [toxic_row(toxic.link, toxic) for toxic in self._outages.in_force]
