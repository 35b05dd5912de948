"""State of one lane that the manager's parts share: planned toxics, history, status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from proxy_manager.gateway_control import GatewayControl
from proxy_manager.proxies import LaneProxies
from wirefault.history.events import Event, ToxicsAction, ToxicsChanged
from wirefault.history.writer import Writer, history_file
from wirefault.state.state import AttemptRow, State
from wirefault.toxiproxy.planned import PlannedToxic


class ToxicsStep(NamedTuple):
    """One change of the toxics in force."""

    in_force: list[PlannedToxic]
    """All toxics in force after the change."""
    started: list[PlannedToxic]
    """New toxics among them, and toxics with a new strength."""
    ended: list[PlannedToxic]
    """Planned toxics that have ended."""


class Outages:
    """The planned toxics of the armed attempt. ``clock`` gives seconds since any fixed time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Drop the plan of an attempt that is over."""
        self._plan: list[PlannedToxic] = []
        self._stood: list[PlannedToxic | None] = []
        self._armed_at = 0.0
        self._calls: dict[str, int] = {}
        self._turn = 1

    def begin(self, plan: Iterable[PlannedToxic]) -> None:
        """Start an armed attempt with the plan's toxics at its start."""
        self.forget()
        self._armed_at = self._clock()
        self._plan = list(plan)
        self._stood = [toxic.as_at(0.0, 1, 1) for toxic in self._plan]

    def add(self, plan: Iterable[PlannedToxic]) -> None:
        """Add toxics of a link found during the attempt."""
        new = list(plan)
        self._plan += new
        self._stood += [None] * len(new)

    def note_call(self, link: str, number: int) -> None:
        """Record the number of the link's latest call."""
        self._calls[link] = number

    def note_turn(self, number: int) -> None:
        """Record that this user turn begins."""
        self._turn = number

    @property
    def in_force(self) -> list[PlannedToxic]:
        """Toxics in force since the last change."""
        return [toxic for toxic in self._stood if toxic is not None]

    @property
    def due(self) -> bool:
        """Return whether the toxics in force must change now."""
        return bool(self._plan) and self._wanted() != self._stood

    @property
    def changing(self) -> bool:
        """Return whether any planned toxic lasts only a part of the attempt."""
        return not all(toxic.lasts_attempt for toxic in self._plan)

    def take_change(self) -> ToxicsStep | None:
        """Return the due change and record it as done; None if no change is due."""
        wanted, before = self._wanted(), self._stood
        if wanted == before:
            return None
        self._stood = wanted
        pairs = list(zip(before, wanted, strict=True))
        started = [new for old, new in pairs if new is not None and new != old]
        ended = [planned for planned, (old, new) in zip(self._plan, pairs, strict=True) if old and not new]
        return ToxicsStep(self.in_force, started, ended)

    def _wanted(self) -> list[PlannedToxic | None]:
        seconds = self._clock() - self._armed_at
        return [toxic.as_at(seconds, self._calls.get(toxic.link, 1), self._turn) for toxic in self._plan]


def calls_with_changes(plan: Iterable[PlannedToxic]) -> dict[str, list[int]]:
    """Return for each link the calls, counted from 1, before which its toxics change."""
    calls: dict[str, set[int]] = {}
    for toxic in plan:
        if toxic.span.changes_before:
            calls.setdefault(toxic.link, set()).update(toxic.span.changes_before)
    return {link: sorted(numbers) for link, numbers in calls.items()}


def toxics_at_start(plan: Sequence[PlannedToxic]) -> list[PlannedToxic]:
    """Return the toxics with which an attempt is armed."""
    return [toxic for planned in plan if (toxic := planned.as_at(0.0, 1, 1)) is not None]


class ManagerHistory:
    """Record changes of a lane's toxics. ``clock`` gives seconds since the epoch.

    Raises ``OSError``.
    """

    def __init__(self, logs: Path, lane: int, clock: Callable[[], float]) -> None:
        self._logs = logs
        self._lane = lane
        self._clock = clock
        self._writer: tuple[str, Writer] | None = None

    def record(
        self,
        attempt: AttemptRow,
        action: ToxicsAction,
        toxics: list[dict[str, Any]],
        detail: str = "",
    ) -> None:
        """Record an action. ``toxics``: as read back."""
        event = ToxicsChanged(self._clock(), attempt.episode, attempt.attempt, action, toxics, detail)
        self.write(attempt.run_id, event)

    def record_change(
        self, attempt: AttemptRow, toxics: list[dict[str, Any]], change: ToxicsStep, begun: float
    ) -> None:
        """Record a planned change. ``begun``: time at which the manager began it."""
        event = ToxicsChanged(
            self._clock(),
            attempt.episode,
            attempt.attempt,
            "started" if change.started else "ended",
            toxics,
            ended=change.ended,
            begun=begun,
            started=change.started,
        )
        self.write(attempt.run_id, event)

    def write(self, run_id: str, *events: Event) -> None:
        """Append events to the run's history."""
        if self._writer is None or self._writer[0] != run_id:
            self.close()
            path = history_file(self._logs, run_id, "manager", self._lane)
            self._writer = (run_id, Writer(path))
        for event in events:
            self._writer[1].write(event)

    def close(self) -> None:
        if self._writer:
            self._writer[1].close()
            self._writer = None


@dataclass(frozen=True)
class LaneParts:
    """The parts that work on one lane."""

    state: State
    proxies: LaneProxies
    gateway: GatewayControl
    history: ManagerHistory
    lab: tuple[str, int]
    """The lab's id and the lane's number."""
    clock: Callable[[], float]
    """Seconds since the epoch."""
    outages: Outages
    """Planned toxics of the attempt in progress."""


@dataclass
class ManagerStatus:
    """The lane's part of ``/status``."""

    run: str | None = None
    episode: str | None = None
    attempt: int | None = None
    configuration: int = 0
    """Number of the last configuration, 0 for none."""
    in_force_from: str | None = None
    """Place in the current run at which it came into force; None if it has not."""
    live: str | None = None
    """The live run's id, after it has begun."""
    desired: list[dict[str, Any]] = field(default_factory=list)
    observed: list[dict[str, Any]] | None = None
