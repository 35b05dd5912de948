"""What an experiment has done until now, and whether that ends it: its abort conditions and its limits.

``Watch`` follows the histories as they grow on the disk; what they say is judged by the pure functions below.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as ThreadEvent
from threading import Thread

from wirefault.experiments.expression import Bounds, exactly, parse_expression
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.safety import Spending
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.events import EpisodeJudged, Event, RunSealed, RunStarted
from wirefault.history.reader import HistoryError, Tail
from wirefault.judging.findings.rules import findings_in
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.usage import model_usage
from wirefault.lab.own_lab import Halt

_POLL_S = 0.5
# a share of fewer episodes than this says nothing yet, unless the arm has no more
_LEAST = 5
_LAST_FINDINGS = 3
_IN_RATE: frozenset[str] = frozenset(name for name, row in OUTCOMES.items() if row.in_rate)


@dataclass
class ArmSoFar:
    """Of the arm in the air: how many episodes are ``planned``, and what became of those that were judged.

    An episode that was judged again, since a side effect came late, counts by its last verdict. ``findings``:
    the last ones in words, which whoever shows them takes away.
    """

    name: str = ""
    planned: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    findings: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_FINDINGS))

    @property
    def successes(self) -> int:
        return sum(outcome == "success" for outcome in self.outcomes.values())

    @property
    def judged(self) -> int:
        """Those that count in a rate."""
        return sum(outcome in _IN_RATE for outcome in self.outcomes.values())

    @property
    def invalid(self) -> int:
        return sum(outcome == "invalid" for outcome in self.outcomes.values())


def watched(arm: ArmSoFar, cost: float, seconds: float) -> dict[str, Bounds]:
    """What abort conditions may name, with the bounds that are known; shares only once they say something."""
    figures = {"cost": exactly(cost), "time": exactly(seconds)}
    flown = len(arm.outcomes)
    if flown and flown >= min(_LEAST, arm.planned):
        errors, undecided = arm.judged - arm.successes, flown - arm.judged
        figures["error_rate"] = Bounds(errors / flown, (errors + undecided) / flown)
        figures["invalid_share"] = exactly(arm.invalid / flown)
    return figures


def abort_reason(conditions: Sequence[str], arm: str, figures: dict[str, Bounds]) -> str:
    """The first condition that is true for certain, with what was measured; empty if there is none."""
    for text in conditions:
        expression = parse_expression(text)
        if not all(name in figures for name in expression.names) or not expression.holds(figures):
            continue
        shown = ", ".join(f"{name} {_shown(figures[name])}" for name in expression.names)
        return f"{text}: {shown} in {arm}"
    return ""


def _shown(bounds: Bounds) -> str:
    low, high = f"{bounds.low:.3g}", f"{bounds.high:.3g}"
    return low if low == high else f"{low} to {high}"


def limit_reason(limits: Spending, cost: float, seconds: float) -> str:
    """Which limit of the flight was reached; empty if none was."""
    if limits.time is not None and seconds >= limits.time:
        return f"the limit of time, {limits.time:g} s, was reached"
    if limits.cost is not None and cost >= limits.cost:
        return f"the limit of cost, {limits.cost:g} USD, was reached"
    return ""


class Watch:
    """Looks at the histories of a flight every half second, and halts it if it must end.

    ``arm`` is the one in the air. Its own thread reads; ``look`` after it has ended reads the rest. Time
    counts from the first arm's start, cost that of earlier flights too, but for the limit.
    """

    def __init__(
        self,
        saved: SavedExperiment,
        halt: Halt,
        tell: Callable[[ArmSoFar], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.arm = ArmSoFar()
        self._saved = saved
        self._halt = halt
        self._tell = tell
        self._clock = clock
        self._began: float | None = None
        self._flown = 0
        self._run: RunStarted | None = None
        self._in_the_air: dict[str, list[Event]] = {}
        self._cost = self._cost_of_earlier_flights = 0.0
        self._tails: dict[Path, Tail] = {}
        self._sealed: set[str] = set()
        self._prices = saved.plan.configuration.settings.prices

    @contextmanager
    def over(self, arm: PlannedArm) -> Iterator[None]:
        """Watches that arm while it is in the air, what earlier flights have flown of it included."""
        self.arm = ArmSoFar(arm.name, len(self._saved.plan.prompts))
        if self._began is None:
            self._began = self._clock()
        before = self._cost, self._flown
        self._read(arm)
        self._cost_of_earlier_flights += self._cost - before[0]
        self._flown = before[1]
        landed = ThreadEvent()

        def look_until_landed() -> None:
            while not landed.wait(_POLL_S):
                self.look(arm)

        thread = Thread(target=look_until_landed, name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            landed.set()
            thread.join()
        self.look(arm)

    def look(self, arm: PlannedArm) -> None:
        """Reads what was written since the last look, and decides."""
        self._read(arm)
        if self._tell:
            self._tell(self.arm)
        seconds = self._clock() - (self._began or 0.0)
        safety, limits = self._saved.plan.experiment.safety, self._saved.plan.experiment.limits
        figures = watched(self.arm, self._cost, seconds)
        if not self._halt.end_now and (why := abort_reason(safety.abort, arm.name, figures)):
            self._halt.end_now = f"aborted: {why}"  # first of all, also where the disk takes no note of it
            self._saved.note_end(aborted=why)
        cost = self._cost - self._cost_of_earlier_flights
        if not self._halt.asked and (why := limit_reason(limits, cost, seconds)):
            self._halt.begin_no_other = why
            self._saved.note_end(limited=why)

    @property
    def taken(self) -> dict[str, float]:
        """Seconds from the first arm's start until now, and the episodes flown in them."""
        seconds = 0.0 if self._began is None else self._clock() - self._began
        return {"seconds": round(seconds, 3), "episodes": self._flown}

    def _read(self, arm: PlannedArm) -> None:
        """Run by run: all events of a long arm that is gone on with would fill the memory."""
        for run_id in self._saved.run_ids(arm):
            if run_id not in self._sealed:
                self._take_in(run_id, self._new_events(run_id))

    def _new_events(self, run_id: str) -> list[Event]:
        folder = self._saved.plan.configuration.logs / "runs" / run_id
        events: list[Event] = []
        # the runner's own file first: then the others have all of an episode that it has judged
        for path in sorted(folder.glob("*.jsonl")):
            try:
                events += self._tails.setdefault(path, Tail(path)).read()
            except (HistoryError, OSError):  # it is told of when the arm is judged, from the whole history
                continue
        return events

    def _take_in(self, run_id: str, events: Sequence[Event]) -> None:
        self._cost += model_usage(events, self._prices).cost_usd or 0.0
        if self._tell:
            self._look_for_findings(events)
        for event in events:
            if isinstance(event, EpisodeJudged):
                self._flown += event.episode not in self.arm.outcomes
                self.arm.outcomes[event.episode] = event.outcome
            elif isinstance(event, RunSealed):  # the others had written all of theirs before
                self._sealed.add(run_id)

    def _look_for_findings(self, events: Sequence[Event]) -> None:
        """Keeps what episodes in the air have shown, until they are judged."""
        judged = {event.episode for event in events if isinstance(event, EpisodeJudged)}
        for event in events:
            if isinstance(event, RunStarted):
                self._run = event
            elif (key := getattr(event, "episode", "")) and key not in self.arm.outcomes:
                self._in_the_air.setdefault(key, []).append(event)
        for key in judged - self.arm.outcomes.keys():
            shown = [*([self._run] if self._run else []), *self._in_the_air.pop(key, ())]
            self.arm.findings += [f"{key}: {finding.text}" for finding in findings_in(shown)]
