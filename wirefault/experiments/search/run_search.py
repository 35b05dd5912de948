"""Carry out searches: run the episodes that a search asks for until it has its answer.

The terms of a search are in its saved plan, so that ``run_search`` begins or resumes one, and ``answer_of``
gives its answer again from the recorded episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from msgspec import structs

from wirefault.core.errors import UNKNOWN, InputError
from wirefault.experiments.engine import RunControl, RunGrownArm
from wirefault.experiments.experiment import CONTROL
from wirefault.experiments.plan import PlannedArm, at_dose
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.search.chain import Chain, chain_of
from wirefault.experiments.search.explain import Cause, next_cause_step
from wirefault.experiments.search.faults import (
    LEVEL,
    fault_names,
    number_field,
    with_faults,
    with_number,
)
from wirefault.experiments.search.limit import Limit, LimitSearch, Tally
from wirefault.experiments.search.minimise import Ask, FaultNames, Smallest, Terms, next_step
from wirefault.experiments.search.pairs import Factor, Pairs, pairs_result, with_row
from wirefault.experiments.search.trials import (
    SearchEngine,
    ShowsNothing,
    Stopped,
    Trials,
    base_arm,
)
from wirefault.toxiproxy.planned import VERIFIED

Answer = Limit | Smallest | Cause | Chain | Pairs


class Steps(Protocol):
    """The steps of a search."""

    trials: Trials

    def step(self) -> bool:
        """Run the next episodes; whether there were any."""
        ...

    def is_done(self) -> bool:
        """Whether the recorded episodes are all that it asks for."""
        ...

    def answer(self) -> Answer | None:
        """What the recorded episodes show."""
        ...


@dataclass
class SearchResult:
    """The state of a search so far."""

    saved: SavedExperiment
    answer: Answer | None
    """None before its first episodes."""
    is_whole: bool
    """Whether it has ended; else it can be resumed."""
    no_steady_state: str = ""
    """Why the control shows that the agent fails without faults; empty if it does not."""
    code: int = UNKNOWN
    timing: Mapping[str, float] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return str(self.saved.plan.search["kind"])

    def as_json(self) -> dict[str, Any]:
        """One JSON object, as saved as the verdict."""
        return {
            "experiment": self.saved.experiment_id,
            "title": self.saved.plan.experiment.title,
            "verdict": "completed" if self.is_whole else None,
            "seed": self.saved.plan.seed,
            "search": self.kind,
            "terms": dict(self.saved.plan.search["terms"]),
            "because": self.no_steady_state,
            "answer": None if self.answer is None else _answer_json(self.answer),
            "timing": dict(self.timing) or None,
        }


def _answer_json(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Chain):
        return answer.as_json()
    if isinstance(answer, Pairs):
        return {
            **asdict(answer),
            "planned": len(answer.pairs),
            "delivered": answer.delivered,
            "share": answer.share,
        }
    if isinstance(answer, Limit):
        rise = answer.rise
        return {
            "state": answer.state,
            "rate": answer.rate,
            "median": answer.median,
            "low": answer.low,
            "high": answer.high,
            "confidence": answer.confidence,
            "below": answer.below,
            "above": answer.above,
            "trials": answer.trials,
            "doses": {f"{dose:g}": list(tally) for dose, tally in answer.tallies.items()},
            "rises": None
            if rise is None
            else {
                "from": list(rise.low),
                "to": list(rise.high),
                "before": list(rise.before),
                "after": list(rise.after),
                "p": rise.p,
            },
        }
    return {
        "state": answer.state,
        "faults": list(answer.faults),
        **({"why": answer.why} if isinstance(answer, Cause) else {}),
        "decided": [{"faults": sorted(names), "fails": fails} for names, fails in answer.decided.items()],
    }


def run_search(
    saved: SavedExperiment,
    how: RunControl,
    engine: SearchEngine,
    steps_of: Callable[[SavedExperiment], Steps] | None = None,
) -> SearchResult:
    """Run the rest of a saved search and save its result.

    ``steps_of``: instead of the steps of its kind. Raises ``UserError`` if its episodes show nothing,
    ``OSError`` if files cannot be written.
    """
    if not saved.plan.search:
        raise InputError(f"{saved.experiment_id} is not a search; wirefault run --resume resumes it")
    saved.forget_end()
    search = (steps_of or _SEARCHES[saved.plan.search["kind"]])(saved)
    result = SearchResult(saved, None, is_whole=False)

    def run_steps(run: RunGrownArm) -> int:
        search.trials.begin(how, run)
        try:
            result.no_steady_state = search.trials.run_control()
            while not result.no_steady_state and search.step():
                pass
        except Stopped as stop:
            return stop.code
        result.is_whole = True
        return 0

    code = engine.search(saved, how, run_steps)
    result.saved, result.timing = search.trials.saved, {**search.trials.taken, "workers": how.workers}
    result.answer = None if result.no_steady_state else search.answer()
    result.code = code or _code(result)
    result.saved.write_verdict(result.as_json(), result.saved.worst_finding())
    return result


_ANSWERED = frozenset(
    (
        *("bounded", "above", "below", "minimal", "passes", "one", "together", "either", "none"),
        *("budget", "nothing left", "all delivered", "some delivered"),
    )
)


def _code(result: SearchResult) -> int:
    rollback = result.saved.end.rollback or result.saved.rollback_by_histories()
    if result.answer is None or rollback != VERIFIED:
        return UNKNOWN
    return 0 if result.answer.state in _ANSWERED else UNKNOWN


def answer_of(saved: SavedExperiment) -> SearchResult:
    """Return what a saved search shows, by its histories, without running anything."""
    search = _SEARCHES[saved.plan.search["kind"]](saved)
    why = search.trials.control_problem()
    answer = None if why is None or why else search.answer()
    is_whole = bool(why) or (answer is not None and search.is_done())
    result = SearchResult(saved, answer, is_whole, why or "")
    result.code = _code(result) if is_whole else UNKNOWN
    return result


class _LimitSteps:
    """Trials at doses of one field."""

    def __init__(self, saved: SavedExperiment) -> None:
        terms = saved.plan.search["terms"]
        self.trials = Trials(saved, terms["failures"])
        self._base = base_arm(saved)
        self._of = terms["of"]
        numbers = ("rate", "confidence", "cap", "within")
        self._search = LimitSearch(list(terms["doses"]), **{name: terms[name] for name in numbers})

    def _arm(self, dose: float) -> PlannedArm:
        return dosed_arm(self._base, self._of, dose)

    def _tallies(self) -> dict[float, Tally]:
        tallies = {}
        for dose in self._search.doses:
            if outcomes := self.trials.failed(self._arm(dose).name):
                tallies[dose] = Tally(outcomes.count(False), len(outcomes))
        return tallies

    def is_done(self) -> bool:
        return self._search.next_dose(self._tallies()) is None

    def step(self) -> bool:
        """Run the next trials; whether there were any."""
        tallies = self._tallies()
        if (dose := self._search.next_dose(tallies)) is None:
            return False
        trials = sum(tally.trials for tally in tallies.values())
        arm = self._arm(dose)
        count = min(self.trials.at_a_time, self._search.cap - trials)
        # a prompt is used once, whatever the dose, so that the trials are independent
        self.trials.run(arm, self.trials.fresh_keys(arm.name, count))
        last = self.trials.failed(arm.name)[-count:]
        words = ", ".join("failed" if each else "succeeded" for each in last) or "no outcome"
        self.trials.say(f"trial {trials + len(last)}: {self._of} {dose:g}: {words}")
        return True

    def answer(self) -> Limit:
        return self._search.result(self._tallies())


def dosed_arm(base: PlannedArm, of: str, dose: float) -> PlannedArm:
    """The arm at that dose of ``level`` or of a number of one fault. Raises ``ValueError``."""
    if of == LEVEL:
        return structs.replace(at_dose(base, dose), name=f"{base.name}-x{dose:g}", level=dose, capped=())
    settings = with_number(base.settings, number_field(base.settings, of), dose)
    return structs.replace(base, name=f"{base.name}-{dose:g}", settings=settings)


class _MinimiseSteps:
    """Episodes with sets of faults; no faults at all are the control."""

    def __init__(self, saved: SavedExperiment) -> None:
        terms = dict(saved.plan.search["terms"])
        self.trials = Trials(saved, terms.pop("failures"))
        self._base = base_arm(saved)
        self._faults = fault_names(self._base.settings)
        self._terms = Terms(**terms)

    def _names(self) -> dict[FaultNames, str]:
        """The arm of each set that was tried."""
        arms = self.trials.arms
        return {
            frozenset() if name == CONTROL else frozenset(fault_names(arm.settings)): name
            for name, arm in arms.items()
        }

    def _next(self) -> Ask | Smallest:
        outcomes = {names: self.trials.failed(arm) for names, arm in self._names().items()}
        return next_step(self._faults, self._terms, outcomes)

    def is_done(self) -> bool:
        return isinstance(self._next(), Smallest)

    def step(self) -> bool:
        """Run the next episodes; whether there were any."""
        ask = self._next()
        if isinstance(ask, Smallest):
            return False
        names = self._names()
        name = names.get(ask.faults, f"set-{len(names)}")
        arm = self.trials.arms.get(name) or structs.replace(
            self._base, name=name, settings=with_faults(self._base.settings, ask.faults)
        )
        self.trials.run(arm, self.trials.next_keys(name, ask.episodes))
        outcomes = self.trials.failed(name)
        text = ", ".join(each for each in self._faults if each in ask.faults) or "no faults"
        self.trials.say(f"{name}: {sum(outcomes)} of {len(outcomes)} failed with {text}")
        return True

    def answer(self) -> Smallest | None:
        step = self._next()
        return step if isinstance(step, Smallest) else None


class _ExplainSteps:
    """Repetitions of one episode; each is an arm, since an arm has an episode once."""

    def __init__(self, saved: SavedExperiment) -> None:
        terms = dict(saved.plan.search["terms"])
        self.trials = Trials(saved, [terms.pop("outcome")])
        self._base = base_arm(saved)
        self._faults = terms.pop("faults")
        self._key = saved.plan.prompts[0].key
        self._terms = Terms(**terms)

    def _arms(self) -> dict[FaultNames, list[str]]:
        """The arms of each set, in their order."""
        arms: dict[FaultNames, list[str]] = {}
        for name, arm in self.trials.arms.items():
            if name != CONTROL:
                arms.setdefault(frozenset(fault_names(arm.settings)), []).append(name)
        return arms

    def _next(self) -> Ask | Cause:
        outcomes = {
            names: [failed for name in arms for failed in self.trials.failed(name)]
            for names, arms in self._arms().items()
        }
        return next_cause_step(self._faults, self._terms, outcomes)

    def is_done(self) -> bool:
        return isinstance(self._next(), Cause)

    def step(self) -> bool:
        """Run the next repetitions; whether there were any."""
        ask = self._next()
        if isinstance(ask, Cause):
            return False
        sets = self._arms()
        number = list(sets).index(ask.faults) + 1 if ask.faults in sets else len(sets) + 1
        before = sets.get(ask.faults, [])
        settings = with_faults(self._base.settings, ask.faults)
        left = [name for name in before if not self.trials.episodes(name)]  # of an interrupted step
        new = [f"set-{number}-{len(before) + place + 1}" for place in range(ask.episodes - len(left))]
        for name in (*left, *new):
            self.trials.run(structs.replace(self._base, name=name, settings=settings), [self._key])
        came = [failed for name in (*before, *new) for failed in self.trials.failed(name)]
        text = ", ".join(each for each in self._faults if each in ask.faults) or "no faults"
        self.trials.say(f"with {text}: {sum(came)} of {len(came)} times the same outcome")
        if not came and len(before) + len(new) >= self._terms.cap:
            raise ShowsNothing(f"{text}: no repetition has an outcome")
        return True

    def answer(self) -> Cause | None:
        step = self._next()
        return step if isinstance(step, Cause) else None


class _PairSteps:
    """The rows of a covering array, each an arm with the same prompts."""

    def __init__(self, saved: SavedExperiment) -> None:
        terms = saved.plan.search["terms"]
        self._failures = terms["failures"]
        self.trials = Trials(saved, self._failures)
        self._base = base_arm(saved)
        self._factors = [Factor(each["id"], each["field"], tuple(each["doses"])) for each in terms["factors"]]
        self._rows = {f"row-{number}": row for number, row in enumerate(terms["rows"], 1)}
        self._each = int(terms["each"])

    def _next(self) -> str | None:
        names = (name for name in self._rows if len(self.trials.episodes(name)) < self._each)
        return next(names, None)

    def is_done(self) -> bool:
        return self._next() is None

    def step(self) -> bool:
        """Run the next row; whether there was one."""
        if (name := self._next()) is None:
            return False
        row = self._rows[name]
        settings = with_row(self._base.settings, self._factors, row)
        keys = [prompt.key for prompt in self.trials.saved.plan.prompts[: self._each]]
        self.trials.run(structs.replace(self._base, name=name, settings=settings), keys)
        failed = self.trials.failed(name)
        text = ", ".join(each.text(row[each.id]) for each in self._factors if each.id in row)
        self.trials.say(f"{name}: {sum(failed)} of {len(failed)} failed with {text}")
        return True

    def answer(self) -> Pairs:
        episodes = {name: self.trials.episodes(name) for name in self._rows}
        return pairs_result(self._factors, self._rows, episodes, self._failures, self._each)


class _RecordedSteps:
    """The recorded steps of a search for the next experiments, whose planner is in another room."""

    def __init__(self, saved: SavedExperiment) -> None:
        self.trials = Trials(saved, ())

    def step(self) -> bool:
        raise InputError("wirefault search next --run runs such a search")

    def is_done(self) -> bool:
        return self.answer().state != "open"

    def answer(self) -> Chain:
        count = sum(len(self.trials.episodes(name)) for name in self.trials.arms)
        return chain_of(self.trials.saved.plan.search, count)


_SEARCHES: Mapping[str, Callable[[SavedExperiment], Steps]] = {
    "next": _RecordedSteps,
    "limit": _LimitSteps,
    "minimise": _MinimiseSteps,
    "explain": _ExplainSteps,
    "pairs": _PairSteps,
}
