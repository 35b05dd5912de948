"""Compare two recordings: success rates, measures, changed outcomes and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wirefault.core.errors import InputError
from wirefault.experiments.figures import measures_of
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.history.events import RunStarted
from wirefault.history.judged_events import Outcome
from wirefault.judging.checker import CheckResult
from wirefault.judging.ending import shows_nothing
from wirefault.judging.oracle.outcome import OUTCOMES, is_success
from wirefault.stats.holm import holm
from wirefault.stats.rates import Difference, paired_difference, unpaired_difference

Change = Literal["worse", "not worse", "unknown"]
_Successes = Mapping[str, bool | None]  # None if unknown
_ERROR = 0.05  # on each side of the interval
_PASSED: Mapping[bool | None, str] = {True: "held", False: "deviated", None: "unknown"}


@dataclass(frozen=True)
class ChangedOutcome:
    """An episode of both recordings with another outcome in the second."""

    episode: str
    prompt: str
    first: str
    second: str


@dataclass(frozen=True)
class ComparedArm:
    """The compared figures of an arm, on one side."""

    run_ids: Sequence[str]
    completed: bool
    outcomes: Mapping[str, Outcome | None]
    """The outcome of each planned episode by its key; None if it was not run."""
    measures: Mapping[str, str]
    """As shown to people, by name."""
    conditions: Mapping[str, str]
    """Subject, settings, versions and upstreams."""
    assertions: Mapping[str, str] = field(default_factory=dict)
    """The verdict and the figures of each assertion."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """By episode, where they are known."""
    shows_nothing: str = ""
    """Why it shows nothing about behaviour under faults, see ``judging.ending``."""
    unknown: str = ""
    """The part of it that is unknown, such as answers of an audit."""
    has_oracle: bool = True
    """Whether a prompt has an oracle; without one no episode is a success."""


@dataclass(frozen=True)
class Side:
    """One of two recordings that are compared."""

    id: str
    arms: Mapping[str, ComparedArm]
    is_experiment: bool
    """Whether its arms have names, as in an experiment with a hypothesis."""
    default_arm: str | None = None
    """The arm that is compared with a lone run; None if several could be."""


def side_of(recording: Recording, arms: Sequence[str] = ()) -> Side:
    """The arms of a recording, or only ``arms``. Raises ``InputError`` for unknown and unreadable ones.

    A recording without named arms, such as an audit, is compared with any arm.
    """
    saved = recording.experiment
    has_arms = saved is not None and not saved.plan.is_plain_run
    chosen = {name: recording.arm(name) for name in arms if has_arms} or dict(recording.arms)
    default = recording.default_arm
    return Side(
        recording.id,
        {name: _compared_arm(arm) for name, arm in chosen.items()},
        has_arms,
        next((name for name, arm in recording.arms.items() if arm is default), None),
    )


def _compared_arm(arm: RecordedArm) -> ComparedArm:
    judged = {episode.episode: episode for episode in arm.summary.episodes}
    return ComparedArm(
        run_ids=arm.run_ids,
        completed=arm.summary.completed,
        outcomes={
            key: judged[key].outcome if key in judged else None
            for key in dict.fromkeys([*arm.planned, *judged])
        },
        measures={name: measure.text for name, measure in measures_of(arm.facts).items()},
        conditions=_conditions(arm),
        assertions={each.statement: _with_figure(each.result) for each in arm.asserted},
        prompts={key: episode.prompt for key, episode in judged.items()},
        shows_nothing=shows_nothing(arm.summary),
        has_oracle=bool(arm.summary.oracles),
    )


@dataclass(frozen=True)
class ArmComparison:
    """``success`` is the rise of the success rate, over episodes whose outcome is known.

    ``paired`` if the comparison is by episode key. ``open`` counts episodes without an outcome on one side,
    ``unmatched`` those that only one side has. ``measures`` has the success rate and every measure that
    differs, as shown on each side. ``differs`` has settings, versions and other conditions that differ.
    ``change`` is worse if the interval says so whatever the open episodes were, and unknown if they decide,
    or if only the error that the arms share does. ``confidence`` is of the interval. ``assertions`` has the
    verdict and the figures of each assertion on each side.
    """

    arm: str
    run_ids: tuple[Sequence[str], Sequence[str]]
    change: Change
    success: Difference | None
    best: Difference | None
    """The difference if each open episode favoured the second side."""
    worst: Difference | None
    has_success: bool
    """Whether an episode of the first was judged, or of the second if the first has an oracle, too; a crash
    needs none."""
    can_fall: bool
    """Whether an episode of the first succeeded, or may have: that takes an oracle."""
    paired: bool
    open: int
    unmatched: int
    measures: Mapping[str, tuple[str, str]]
    changed: Sequence[ChangedOutcome]
    differs: Mapping[str, tuple[str, str]]
    confidence: float = 0.9
    assertions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a side shows nothing, or not everything if it is the second; by ``first`` and ``second``."""


@dataclass(frozen=True)
class Comparison:
    """``unmatched`` has the arms of one side only, which are not compared."""

    first: str
    second: str
    arms: Sequence[ArmComparison]
    unmatched: Sequence[str] = ()

    @property
    def change(self) -> Change:
        """Worse if any arm is; unknown if any arm is or has no match."""
        changes = [arm.change for arm in self.arms]
        if "worse" in changes:
            return "worse"
        return "unknown" if "unknown" in changes or self.unmatched or not changes else "not worse"


def compare(first: Side, second: Side, arms: Sequence[str] = ()) -> Comparison:
    """Compare the arms with the same name, or only ``arms``; a lone run with the arm that has faults.

    Arms that are worse share the error, 5 % (Holm). Raises ``InputError`` for an arm missing on one side.
    """
    if first.is_experiment and second.is_experiment:
        common = [name for name in first.arms if name in second.arms]
        unmatched = [name for name in (*first.arms, *second.arms) if name not in common]
        if arms and (missing := [name for name in arms if name not in common]):
            raise InputError(f"the arm {missing[0]} is in one of them only")
        compared = _compared_together([(name, first.arms[name], second.arms[name]) for name in common])
        return Comparison(first.id, second.id, compared, unmatched)
    one, other = _lone_arm(first, arms), _lone_arm(second, arms)
    name = (other if second.is_experiment else one) or "run"
    pair = (name, first.arms[one], second.arms[other])
    return Comparison(first.id, second.id, _compared_together([pair]))


def _lone_arm(side: Side, arms: Sequence[str]) -> str:
    if not side.arms:
        raise InputError(
            f"{side.id} has no recorded run, it was stopped early; wirefault show {side.id} names the command"
            " that runs it"
        )
    if side.is_experiment and len(arms) == 1 and arms[0] in side.arms:
        return arms[0]
    if side.default_arm is None:
        raise InputError(f"{side.id} has several arms, name one by --arm: {', '.join(side.arms)}")
    return side.default_arm


def _compared_together(pairs: Sequence[tuple[str, ComparedArm, ComparedArm]]) -> list[ArmComparison]:
    """The arms, of which each is worse only at its part of the error."""

    def is_worse(place: int, error: float) -> bool:
        return _compared(*pairs[place], error).change == "worse"

    rejected, left = holm(len(pairs), is_worse, _ERROR)
    compared = [_compared(*pair, rejected.get(place, _ERROR)) for place, pair in enumerate(pairs)]
    return [
        arm
        if arm.change != "worse" or place in rejected
        else replace(_compared(*pairs[place], left), change="unknown")
        for place, arm in enumerate(compared)
    ]


def _compared(name: str, first: ComparedArm, second: ComparedArm, error: float) -> ArmComparison:
    successes = [_successes(arm) for arm in (first, second)]
    sure = 1 - 2 * error
    success, open_, paired = _difference(*successes, open_as=None, confidence=sure)
    best, worst = (_difference(*successes, open_as=taken, confidence=sure)[0] for taken in (True, False))
    unfinished = "" if second.completed else "it did not run to its end"
    reasons = {"first": first.shows_nothing, "second": second.shows_nothing or second.unknown or unfinished}
    unknown = {side: why for side, why in reasons.items() if why}
    whole = first.completed and second.completed and not unknown
    has_success = any(map(_is_judged, first.outcomes.values())) or (
        first.has_oracle and any(map(_is_judged, second.outcomes.values()))
    )
    can_fall = any(known or (known is None and first.has_oracle) for known in successes[0].values())
    return ArmComparison(
        arm=name,
        run_ids=(first.run_ids, second.run_ids),
        change="not worse"
        if has_success and whole and not can_fall
        else _change(success, best, worst, whole=whole),
        success=success,
        best=best,
        worst=worst,
        has_success=has_success,
        can_fall=can_fall,
        paired=paired,
        open=open_,
        unmatched=len(successes[0].keys() ^ successes[1].keys()) if paired else 0,
        measures={
            key: (before, after)
            for key, before in first.measures.items()
            if (after := second.measures.get(key, "missing")) != before or key == "success_rate"
        },
        changed=list(_changed(first, second)),
        differs=_differs(first.conditions, second.conditions),
        confidence=round(sure, 6),
        assertions=_both(first.assertions, second.assertions, "missing"),
        unknown=unknown,
    )


def _is_judged(outcome: Outcome | None) -> bool:
    return is_success(outcome) is not None and outcome is not None and OUTCOMES[outcome].tone != "ended"


def _with_figure(result: CheckResult) -> str:
    return ": ".join(filter(None, (_PASSED[result.passed], result.measured)))


def _successes(arm: ComparedArm) -> dict[str, bool | None]:
    """Whether each planned episode succeeded, as far as its key is known."""
    return {key: is_success(outcome) for key, outcome in arm.outcomes.items()}


def _difference(
    first: _Successes, second: _Successes, *, open_as: bool | None, confidence: float
) -> tuple[Difference | None, int, bool]:
    """The difference, the number of episodes without an outcome, and whether it is paired.

    ``open_as``: unknown outcomes count for the second side (True), against it, or are left out.
    """
    common = [key for key in first if key in second]
    unknown_first, unknown_second = (None, None) if open_as is None else (not open_as, open_as)
    ones = {key: unknown_first if known is None else known for key, known in first.items()}
    others = {key: unknown_second if known is None else known for key, known in second.items()}
    if not common:
        one, other = ([v for v in side.values() if v is not None] for side in (ones, others))
        unknown = [*first.values(), *second.values()].count(None)
        return unpaired_difference(sum(one), len(one), sum(other), len(other), confidence), unknown, False
    pairs = [(ones[key], others[key]) for key in common]
    counts = [pairs.count(each) for each in ((True, True), (True, False), (False, True), (False, False))]
    unknown = sum(None in (first[key], second[key]) for key in common)
    return paired_difference(counts[0], counts[1], counts[2], counts[3], confidence), unknown, True


def _change(
    success: Difference | None, best: Difference | None, worst: Difference | None, *, whole: bool
) -> Change:
    """``best`` and ``worst`` count unknown outcomes for and against the second side.

    ``whole``: both completed, and show something.
    """
    if success is None or best is None or worst is None:
        return "unknown"
    if best.high < 0:
        return "worse"
    return "not worse" if worst.high >= 0 and whole else "unknown"


def _changed(first: ComparedArm, second: ComparedArm) -> Iterator[ChangedOutcome]:
    for key, before in first.outcomes.items():
        after = second.outcomes.get(key)
        if before is not None and after is not None and after != before:
            prompt = first.prompts.get(key) or second.prompts.get(key, "")
            yield ChangedOutcome(key, prompt, before, after)


def _both(first: Mapping[str, str], second: Mapping[str, str], absent: str) -> dict[str, tuple[str, str]]:
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name, absent), second.get(name, absent)) for name in names}


def _differs(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    both = _both(first, second, "unknown")
    return {name: values for name, values in both.items() if values[0] != values[1]}


def _conditions(arm: RecordedArm) -> dict[str, str]:
    started = next(event for event in arm.events if isinstance(event, RunStarted))
    upstreams = {f"link {link.name}": link.upstream for link in started.wired if not link.is_of_lab}
    versions = {f"version of {name}": value for name, value in started.versions.items()}
    # shadows follow from the other arms and change nothing
    settings = {name: str(value) for name, value in started.settings.items() if name != "shadow"}
    whole = "yes" if arm.summary.completed else "no"
    return {"subject": arm.summary.subject, "completed": whole, **settings, **versions, **upstreams}
