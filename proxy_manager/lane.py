"""What everything that works on one lane works with."""

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
    """What is to be made of the toxics that stand.

    ``standing``: all that are to stand from now on. ``started``: those of them that did not stand before, or
    in another dose. ``ended``: the planned ones that stood and are over.
    """

    standing: list[PlannedToxic]
    started: list[PlannedToxic]
    ended: list[PlannedToxic]


class Outages:
    """The planned toxics of the attempt that is armed. ``clock`` gives seconds, from whenever."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """The attempt is over, so that none of its toxics is to be changed any more."""
        self._plan: list[PlannedToxic] = []
        self._stood: list[PlannedToxic | None] = []
        self._armed_at = 0.0
        self._calls: dict[str, int] = {}
        self._turn = 1

    def begin(self, plan: Iterable[PlannedToxic]) -> None:
        """The attempt is armed with those of the plan that stand at its start."""
        self.forget()
        self._armed_at = self._clock()
        self._plan = list(plan)
        self._stood = [toxic.as_at(0.0, 1, 1) for toxic in self._plan]

    def add(self, plan: Iterable[PlannedToxic]) -> None:
        """More toxics of the same attempt, of a link that was found in its midst."""
        new = list(plan)
        self._plan += new
        self._stood += [None] * len(new)

    def note_call(self, link: str, number: int) -> None:
        """The call of that number is the last that has come on the link."""
        self._calls[link] = number

    def note_turn(self, number: int) -> None:
        """The user's turn of that number begins."""
        self._turn = number

    @property
    def standing(self) -> list[PlannedToxic]:
        """What was to stand when it was last asked for a change."""
        return [toxic for toxic in self._stood if toxic is not None]

    @property
    def due(self) -> bool:
        """Whether other toxics are to stand than do."""
        return bool(self._plan) and self._wanted() != self._stood

    @property
    def changing(self) -> bool:
        """Whether any toxic of the plan does not stand from the arming to the end."""
        return not all(toxic.lasts_attempt for toxic in self._plan)

    def take_change(self) -> ToxicsStep | None:
        """What is to change now, once; None if nothing is."""
        wanted, before = self._wanted(), self._stood
        if wanted == before:
            return None
        self._stood = wanted
        pairs = list(zip(before, wanted, strict=True))
        started = [new for old, new in pairs if new is not None and new != old]
        ended = [planned for planned, (old, new) in zip(self._plan, pairs, strict=True) if old and not new]
        return ToxicsStep(self.standing, started, ended)

    def _wanted(self) -> list[PlannedToxic | None]:
        seconds = self._clock() - self._armed_at
        return [toxic.as_at(seconds, self._calls.get(toxic.link, 1), self._turn) for toxic in self._plan]


def calls_with_changes(plan: Iterable[PlannedToxic]) -> dict[str, list[int]]:
    """By link the calls, counted from 1, before which the link's toxics change."""
    calls: dict[str, set[int]] = {}
    for toxic in plan:
        if toxic.span.changes_before:
            calls.setdefault(toxic.link, set()).update(toxic.span.changes_before)
    return {link: sorted(numbers) for link, numbers in calls.items()}


def standing_at_start(plan: Sequence[PlannedToxic]) -> list[PlannedToxic]:
    """Those that an attempt is armed with."""
    return [toxic for planned in plan if (toxic := planned.as_at(0.0, 1, 1)) is not None]


class ManagerHistory:
    """Records what was done to a lane's toxics; ``clock`` gives seconds since the epoch.

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
        """``toxics``: those that were read back."""
        event = ToxicsChanged(self._clock(), attempt.episode, attempt.attempt, action, toxics, detail)
        self.write(attempt.run_id, event)

    def record_change(
        self, attempt: AttemptRow, toxics: list[dict[str, Any]], change: ToxicsStep, begun: float
    ) -> None:
        """A planned one. ``begun``: when the manager began to carry it out."""
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
        """Events of that run, one by one."""
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
    """``lab``: the lab's id and the lane's number. ``clock`` gives seconds since the epoch.

    ``outages``: which toxics of the attempt in progress stand.
    """

    state: State
    proxies: LaneProxies
    gateway: GatewayControl
    history: ManagerHistory
    lab: tuple[str, int]
    clock: Callable[[], float]
    outages: Outages


@dataclass
class ManagerStatus:
    """What ``/status`` shows.

    ``configuration`` is the number of the one that was set last, 0 where none was; ``in_force_from`` is where
    in the run in progress it came into force, if it has. ``live`` is the run that traffic outside any run
    belongs to, once it has begun.
    """

    run: str | None = None
    episode: str | None = None
    attempt: int | None = None
    configuration: int = 0
    in_force_from: str | None = None
    live: str | None = None
    desired: list[dict[str, Any]] = field(default_factory=list)
    observed: list[dict[str, Any]] | None = None
