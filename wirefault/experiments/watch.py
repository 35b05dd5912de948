"""Watch a running experiment, and end it by its abort conditions and limits.

``Watch`` follows the histories as they grow on disk; pure functions decide.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event as ThreadEvent
from threading import Thread

from wirefault.experiments.arms import facts_of_one
from wirefault.experiments.cost import Cost, taken
from wirefault.experiments.estimates import Terms
from wirefault.experiments.expression import Bounds, exactly, parse_expression
from wirefault.experiments.facts_store import facts_in
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.repeated import by_control
from wirefault.experiments.safety import Spending
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.events import EpisodeJudged, Event, RunSealed, RunStarted
from wirefault.judging.judge import RunJudgement, judge_identified
from wirefault.judging.oracle.outcome import UNCOUNTED
from wirefault.judging.usage import costs_of
from wirefault.lab.own_lab import Halt
from wirefault.settings.budgets import load_prices
from wirefault.stats.sequential import rate_interval

_POLL_S = 0.5
MIN_EPISODES = 10
"""The episodes from which shares are watched."""
_MAX_FINDINGS = 3


@dataclass
class ArmSoFar:
    """The current arm: the number of ``planned`` episodes, and the outcomes of the judged ones.

    An episode that was judged again, after a late side effect, counts by its last verdict. ``findings`` are
    the last ones, for the display, which removes them.
    """

    name: str = ""
    planned: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    findings: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_FINDINGS))
    terms: Terms = field(default_factory=Terms)
    left: Cost | None = None
    """The cost still to come, all arms together."""

    @property
    def successes(self) -> int:
        return sum(outcome == "success" for outcome in self.outcomes.values())

    @property
    def judged(self) -> int:
        """The episodes that count in a rate."""
        return sum(outcome not in UNCOUNTED for outcome in self.outcomes.values())

    @property
    def invalid(self) -> int:
        return sum(outcome == "invalid" for outcome in self.outcomes.values())


def watched(arm: ArmSoFar, cost: float, seconds: float) -> dict[str, Bounds]:
    """The measures of abort conditions with their bounds.

    Shares are intervals that hold at every look together, with 5 % error on each side, from ten episodes on:
    some failures at the start end nothing. Episodes without an outcome widen them.
    """
    figures = {"cost": exactly(cost), "time": exactly(seconds)}
    completed = len(arm.outcomes)
    if completed >= MIN_EPISODES:
        errors, undecided = arm.judged - arm.successes, completed - arm.judged
        figures["error_rate"] = _interval(errors, errors + undecided, completed)
        figures["invalid_share"] = _interval(arm.invalid, arm.invalid, completed)
    return figures


def _interval(fewest: int, most: int, n: int) -> Bounds:
    return Bounds(*rate_interval(fewest, n, most))


def abort_reason(conditions: Sequence[str], arm: str, figures: dict[str, Bounds]) -> str:
    """The first condition that is certainly true, with its measures; empty if there is none."""
    for text in conditions:
        expression = parse_expression(text)
        if not all(name in figures for name in expression.names) or not expression.holds(figures):
            continue
        figures_text = ", ".join(f"{name} {_bounds_text(figures[name])}" for name in expression.names)
        return f"{text}: {figures_text} in {arm}"
    return ""


def _bounds_text(bounds: Bounds) -> str:
    low, high = f"{float(bounds.low):.3g}", f"{float(bounds.high):.3g}"
    return low if low == high else f"{low} to {high}"


def limit_reason(limits: Spending, cost: float, seconds: float) -> str:
    """The limit that was reached; empty if none was."""
    if limits.time is not None and seconds >= limits.time:
        return f"the limit of time, {limits.time:g} s, was reached"
    if limits.cost is not None and cost >= limits.cost:
        return f"the limit of cost, {limits.cost:g} USD, was reached"
    return ""


class Watch:
    """Reads the histories every half second, and halts the experiment if it must end.

    ``arm`` is the current one. A thread reads; ``look`` reads the rest after its end. Time counts from the
    start of the first arm; cost includes earlier runs, except for the limit.
    """

    def __init__(
        self,
        saved: SavedExperiment,
        halt: Halt,
        tell: Callable[[ArmSoFar], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.arm = ArmSoFar()
        self.expected: Cost | None = None
        """The cost that was left when it was estimated."""
        self._taken_before: dict[str, float] = {}
        self._arms: dict[str, ArmSoFar] = {}
        self._saved = saved
        self._halt = halt
        self._tell = tell
        self._clock = clock
        self._began: float | None = None
        self._completed = 0
        self._cost = self._earlier_cost = 0.0
        self._is_priced = True
        self._counts = Counter[str]()  # of the events read, by run
        self._sealed: set[str] = set()
        self._prices = load_prices(saved.plan.configuration.settings.prices)

    @contextmanager
    def over(self, arm: PlannedArm, grown: SavedExperiment | None = None) -> Iterator[None]:
        """Watch that arm while it runs, including its episodes of earlier runs.

        ``grown``: the experiment with the arms that a search has added.
        """
        self._saved = grown or self._saved
        self.arm = self._arms.setdefault(
            arm.name, ArmSoFar(arm.name, terms=self._saved.plan.experiment.terms)
        )
        self.arm.planned = len(self._saved.prompts_of(arm))
        self.begin()
        before = self._cost, self._completed
        self._read(arm)
        self._earlier_cost += self._cost - before[0]
        self._completed = before[1]
        done = ThreadEvent()

        def look_until_done() -> None:
            while not done.wait(_POLL_S):
                self.look(arm)

        thread = Thread(target=look_until_done, name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        self.look(arm)
        for run_id in self._saved.run_ids(arm):  # killed ones are never sealed
            self._saved.facts.end_watch(run_id, arm.entries)

    def expect(self, cost: Cost) -> None:
        """Count what is left from here on."""
        self.expected, self._taken_before = cost, self.taken

    def begin(self) -> None:
        """Let time count from now on, if it does not yet."""
        if self._began is None:
            self._began = self._clock()

    def trial_ended(self, episode: str, planned: int) -> None:
        """Count an episode that ran beside others; its strategy reads it."""
        self._completed += 1
        self.arm.name, self.arm.planned = "runs", planned
        self.arm.outcomes[episode] = "unjudged"
        self._show()

    def _show(self) -> None:
        if self._tell:
            since = {name: each - self._taken_before.get(name, 0) for name, each in self.taken.items()}
            self.arm.left = self.expected and self.expected.after(taken(since))
            self._tell(self.arm)

    def look(self, arm: PlannedArm) -> None:
        """Read new events and decide."""
        self._read(arm)
        self._show()
        seconds = self._clock() - (self._began or 0.0)
        safety, limits = self._saved.plan.experiment.safety, self._saved.plan.experiment.limits
        figures = watched(self.arm, self._cost, seconds)
        if not self._halt.end_now and (why := abort_reason(safety.abort, arm.name, figures)):
            self._halt.end_now = f"aborted: {why}"  # first, even if the note cannot be written
            self._saved.note_end(aborted=why)
        cost = self._cost - self._earlier_cost
        if not self._halt.requested and (why := limit_reason(limits, cost, seconds)):
            self._halt.begin_no_other = why
            self._saved.note_end(limited=why)

    @property
    def taken(self) -> dict[str, float]:
        """Seconds since the start of the first arm, the episodes in them, and ``usd`` if all is priced."""
        seconds = 0.0 if self._began is None else self._clock() - self._began
        money = {"usd": self._cost - self._earlier_cost} if self._prices and self._is_priced else {}
        return {"seconds": round(seconds, 3), "episodes": self._completed, **money}

    def _read(self, arm: PlannedArm) -> None:
        """Read run by run: all events of a long, resumed arm would fill the memory."""
        for run_id in self._saved.run_ids(arm):
            if run_id not in self._sealed:
                identified = self._saved.facts.new_events(run_id, self._counts[run_id])
                self._counts[run_id] += len(identified)
                self._take_in(arm, run_id, identified)
                if run_id in self._sealed:
                    self._saved.facts.end_watch(run_id, arm.entries)

    def _take_in(self, arm: PlannedArm, run_id: str, identified: Sequence[tuple[str, Event]]) -> None:
        events = [event for _, event in identified]
        costs = costs_of(events, self._prices)
        self._cost += costs.usd or 0.0
        self._is_priced &= not costs.unpriced and not costs.uncounted
        judged = {event.episode: event for event in events if isinstance(event, EpisodeJudged)}
        for key, event in judged.items():
            is_new = key not in self.arm.outcomes
            self._completed += is_new
            self.arm.outcomes[key] = event.outcome
            if event.findings or event.by_outcome or not (arm.is_control or event.world == "as_asked"):
                compared = self._compared(arm, run_id, event)
                self.arm.outcomes[key] = compared.episodes[0].outcome
                if self._tell and is_new:
                    self.arm.findings += [f"{key}: {finding.text}" for finding in compared.findings]
        if any(isinstance(event, RunSealed) for event in events):  # the other processes had finished writing
            self._sealed.add(run_id)

    def _compared(self, arm: PlannedArm, run_id: str, judged: EpisodeJudged) -> RunJudgement:
        """The episode as the control until now judges it."""
        identified = [
            (f"{run_id}/{id}", event)
            for id, event in self._saved.facts.new_events(run_id, 0)
            if isinstance(event, RunStarted) or getattr(event, "episode", "") == judged.episode
        ]
        judgement = judge_identified(identified, {judged.episode: judged.from_history("", run_id)})
        facts = facts_of_one(facts_in(run_id, judgement, (), runs_code=False))
        return judgement.by_control(by_control(self._saved.compared(arm, facts)))
