"""Carry out searches: run the episodes that a search asks for until it has its answer.

The terms of a search are in its saved plan, so that ``run_search`` begins or resumes one, and ``answer_of``
gives its answer again from the recorded episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from msgspec import structs

from wirefault.core.errors import UNKNOWN, InputError
from wirefault.experiments.engine import Engine, RunControl
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
from wirefault.experiments.search.trials import ShowsNothing, Trials, base_arm
from wirefault.experiments.strategy import Batch, Ran, Strategy, carry_out
from wirefault.toxiproxy.planned import VERIFIED

Answer = Limit | Smallest | Cause | Chain | Pairs


class Steps(Protocol):
    """The steps of a search after its control; pure."""

    @property
    def failures(self) -> Sequence[str]:
        """The outcomes that count as a failure; empty: all but ``success``."""
        ...

    def next(self, trials: Trials) -> Batch | None:
        """Return the next episodes, None at the end. Raises ``ShowsNothing``."""
        ...

    def line(self, trials: Trials, ran: Ran) -> str:
        """Return the result of the episodes that were run, for people."""
        ...

    def answer(self, trials: Trials) -> Answer | None:
        """Return the answer of the recorded episodes."""
        ...


@dataclass(frozen=True)
class Search(Strategy):
    """The strategy of a search: its control, then its steps if that has its steady state."""

    steps: Steps
    at_a_time: int = 1

    def trials(self, saved: SavedExperiment) -> Trials:
        """The recorded episodes."""
        return Trials(saved, self.steps.failures, self.at_a_time)

    def next(self, saved: SavedExperiment) -> Batch | None:
        """See ``Strategy``."""
        trials = self.trials(saved)
        if len(saved.plan.arms) == 1:  # a step adds the next one
            problem = trials.control_problem
            if problem is None:
                return Batch((trials.further(saved.plan.arms[0], trials.control_keys),))
            if problem:
                return None
        return self.steps.next(trials)

    def review(self, saved: SavedExperiment, ran: Ran) -> Iterator[str]:
        """See ``Strategy``."""
        trials = self.trials(saved)
        for name in ran:
            trials.require_outcomes(name)
        if len(saved.plan.arms) > 1:
            yield self.steps.line(trials, ran)

    def answer(self, saved: SavedExperiment) -> SearchResult:
        """Return the answer of the recorded episodes."""
        trials = self.trials(saved)
        why = trials.control_problem
        answer = None if why is None or why else self.steps.answer(trials)
        try:
            is_whole = bool(why) or (answer is not None and self.next(saved) is None)
        except ShowsNothing:
            is_whole = False
        result = SearchResult(saved, answer, is_whole, why or "")
        result.code = _code(result) if is_whole else UNKNOWN
        return result


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
    engine: Engine,
    steps_of: Callable[[SavedExperiment], Steps] | None = None,
) -> SearchResult:
    """Run the rest of a saved search and save its result.

    ``steps_of``: instead of the steps of its kind. Raises ``UserError`` if its episodes show nothing,
    ``OSError`` if files cannot be written.
    """
    if not saved.plan.search:
        raise InputError(f"{saved.experiment_id} is not a search; wirefault run --resume resumes it")
    search = Search((steps_of or _SEARCHES[saved.plan.search["kind"]])(saved), how.workers)
    progress = carry_out(saved, search, how, engine)
    result = search.answer(progress.saved)
    result.code, result.timing = progress.code or result.code, progress.timing
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
    return Search(_SEARCHES[saved.plan.search["kind"]](saved)).answer(saved)


class _LimitSteps:
    """Trials at doses of one field."""

    def __init__(self, saved: SavedExperiment) -> None:
        terms = saved.plan.search["terms"]
        self.failures = terms["failures"]
        self._base = base_arm(saved)
        self._of = terms["of"]
        numbers = ("rate", "confidence", "cap", "within")
        self._search = LimitSearch(list(terms["doses"]), **{name: terms[name] for name in numbers})

    def _arm(self, dose: float) -> PlannedArm:
        return dosed_arm(self._base, self._of, dose)

    def _tallies(self, trials: Trials) -> dict[float, Tally]:
        tallies = {}
        for dose in self._search.doses:
            if outcomes := trials.failed(self._arm(dose).name):
                tallies[dose] = Tally(outcomes.count(False), len(outcomes))
        return tallies

    def next(self, trials: Trials) -> Batch | None:
        if left := trials.unfinished:
            return Batch(left)
        tallies = self._tallies(trials)
        if (dose := self._search.next_dose(tallies)) is None:
            return None
        arm = self._arm(dose)
        count = min(trials.at_a_time, self._search.cap - sum(tally.trials for tally in tallies.values()))
        # a prompt is used once, whatever the dose, so that the trials are independent
        return Batch((trials.further(arm, trials.fresh_keys(arm.name, count)),))

    def line(self, trials: Trials, ran: Ran) -> str:
        [(name, keys)] = ran.items()
        dose = next(dose for dose in self._search.doses if self._arm(dose).name == name)
        number = sum(tally.trials for tally in self._tallies(trials).values())
        last = trials.failed(name, keys)
        words = ", ".join("failed" if each else "succeeded" for each in last) or "no outcome"
        return f"trial {number}: {self._of} {dose:g}: {words}"

    def answer(self, trials: Trials) -> Limit:
        return self._search.result(self._tallies(trials))


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
        self.failures = terms.pop("failures")
        self._base = base_arm(saved)
        self._faults = fault_names(self._base.settings)
        self._terms = Terms(**terms)

    def _names(self, trials: Trials) -> dict[FaultNames, str]:
        """The arm of each set that was tried."""
        return {
            frozenset() if name == CONTROL else frozenset(fault_names(arm.settings)): name
            for name, arm in trials.arms.items()
        }

    def _ask(self, trials: Trials) -> Ask | Smallest:
        outcomes = {names: trials.failed(arm) for names, arm in self._names(trials).items()}
        return next_step(self._faults, self._terms, outcomes)

    def next(self, trials: Trials) -> Batch | None:
        ask = self._ask(trials)
        if isinstance(ask, Smallest):
            return None
        names = self._names(trials)
        name = names.get(ask.faults, f"set-{len(names)}")
        arm = trials.arms.get(name) or structs.replace(
            self._base, name=name, settings=with_faults(self._base.settings, ask.faults)
        )
        return Batch((trials.further(arm, trials.next_keys(name, ask.episodes)),))

    def line(self, trials: Trials, ran: Ran) -> str:
        [name] = ran
        failed, faults = trials.failed(name), _faults_text(self._faults, trials, name)
        return f"{name}: {sum(failed)} of {len(failed)} failed with {faults}"

    def answer(self, trials: Trials) -> Smallest | None:
        step = self._ask(trials)
        return step if isinstance(step, Smallest) else None


def _faults_text(faults: Sequence[str], trials: Trials, name: str) -> str:
    """The faults of the arm in the order of the experiment."""
    own = fault_names(trials.arms[name].settings)
    return ", ".join(each for each in faults if each in own) or "no faults"


class _ExplainSteps:
    """Repetitions of one episode; each is an arm, since an arm has an episode once."""

    def __init__(self, saved: SavedExperiment) -> None:
        terms = dict(saved.plan.search["terms"])
        self.failures = [terms.pop("outcome")]
        self._base = base_arm(saved)
        self._faults = terms.pop("faults")
        self._key = saved.plan.prompts[0].key
        self._terms = Terms(**terms)

    def _arms(self, trials: Trials) -> dict[FaultNames, list[str]]:
        """The arms of each set, in their order."""
        arms: dict[FaultNames, list[str]] = {}
        for name, arm in trials.arms.items():
            if name != CONTROL:
                arms.setdefault(frozenset(fault_names(arm.settings)), []).append(name)
        return arms

    def _outcomes(self, trials: Trials) -> dict[FaultNames, list[bool]]:
        return {
            names: [failed for name in arms for failed in trials.failed(name)]
            for names, arms in self._arms(trials).items()
        }

    def next(self, trials: Trials) -> Batch | None:
        if left := trials.unfinished:
            return Batch(left)
        outcomes = self._outcomes(trials)
        ask = next_cause_step(self._faults, self._terms, outcomes)
        if isinstance(ask, Cause):
            return None
        sets = self._arms(trials)
        number = list(sets).index(ask.faults) + 1 if ask.faults in sets else len(sets) + 1
        before = len(sets.get(ask.faults, ()))
        settings = with_faults(self._base.settings, ask.faults)
        if before >= self._terms.cap and not outcomes[ask.faults]:
            text = ", ".join(each for each in self._faults if each in ask.faults) or "no faults"
            raise ShowsNothing(f"{text}: no repetition has an outcome")
        names = (f"set-{number}-{before + place + 1}" for place in range(ask.episodes))
        arms = (structs.replace(self._base, name=name, settings=settings) for name in names)
        return Batch([trials.further(arm, [self._key]) for arm in arms])

    def line(self, trials: Trials, ran: Ran) -> str:
        name = next(iter(ran))
        came = self._outcomes(trials)[frozenset(fault_names(trials.arms[name].settings))]
        text = _faults_text(self._faults, trials, name)
        return f"with {text}: {sum(came)} of {len(came)} times the same outcome"

    def answer(self, trials: Trials) -> Cause | None:
        step = next_cause_step(self._faults, self._terms, self._outcomes(trials))
        return step if isinstance(step, Cause) else None


class _PairSteps:
    """The rows of a covering array, each an arm with the same prompts."""

    def __init__(self, saved: SavedExperiment) -> None:
        terms = saved.plan.search["terms"]
        self.failures = terms["failures"]
        self._base = base_arm(saved)
        self._factors = [Factor(each["id"], each["field"], tuple(each["doses"])) for each in terms["factors"]]
        self._rows = {f"row-{number}": row for number, row in enumerate(terms["rows"], 1)}
        self._each = int(terms["each"])

    def next(self, trials: Trials) -> Batch | None:
        left = (name for name in self._rows if len(trials.episodes(name)) < self._each)
        if (name := next(left, None)) is None:
            return None
        settings = with_row(self._base.settings, self._factors, self._rows[name])
        keys = [prompt.key for prompt in trials.saved.plan.prompts[: self._each]]
        return Batch((trials.further(structs.replace(self._base, name=name, settings=settings), keys),))

    def line(self, trials: Trials, ran: Ran) -> str:
        [name] = ran
        row, failed = self._rows[name], trials.failed(name)
        text = ", ".join(each.text(row[each.id]) for each in self._factors if each.id in row)
        return f"{name}: {sum(failed)} of {len(failed)} failed with {text}"

    def answer(self, trials: Trials) -> Pairs:
        episodes = {name: trials.episodes(name) for name in self._rows}
        return pairs_result(self._factors, self._rows, episodes, self.failures, self._each)


class _RecordedSteps:
    """The recorded steps of a search for the next experiments, whose planner is in another room."""

    failures = ()

    def __init__(self, saved: SavedExperiment) -> None:
        """Its steps are in the saved plan."""

    def next(self, trials: Trials) -> None:
        """See ``Steps``. Raises ``ShowsNothing`` before the end."""
        if not trials.saved.plan.search.get("ended"):
            raise ShowsNothing("wirefault search next --run runs such a search")

    def line(self, trials: Trials, ran: Ran) -> str:
        return ""

    def answer(self, trials: Trials) -> Chain:
        count = sum(len(trials.episodes(name)) for name in trials.arms)
        return chain_of(trials.saved.plan.search, count)


_SEARCHES: Mapping[str, Callable[[SavedExperiment], Steps]] = {
    "next": _RecordedSteps,
    "limit": _LimitSteps,
    "minimise": _MinimiseSteps,
    "explain": _ExplainSteps,
    "pairs": _PairSteps,
}
