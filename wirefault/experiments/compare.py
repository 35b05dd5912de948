"""Compare two recordings: success rates, measures, changed outcomes and conditions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wirefault.experiments.measures import measures_of
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.history.events import RunStarted
from wirefault.judging.checker import CheckResult
from wirefault.judging.judge import EpisodeJudgement
from wirefault.judging.oracle.outcome import OUTCOMES
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
    paired: bool
    open: int
    unmatched: int
    measures: Mapping[str, tuple[str, str]]
    changed: Sequence[ChangedOutcome]
    differs: Mapping[str, tuple[str, str]]
    confidence: float = 0.9
    assertions: Mapping[str, tuple[str, str]] = field(default_factory=dict)


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


def compare(first: Recording, second: Recording, arms: Sequence[str] = ()) -> Comparison:
    """Compare the arms with the same name, or only ``arms``; a lone run with the arm that has faults.

    Arms that are worse share the error, 5 % (Holm). Raises ``InputError`` for an arm missing on one side and
    for unreadable recordings.
    """
    if arms:
        pairs = [(name, first.arm(name), second.arm(name)) for name in arms]
        return Comparison(first.id, second.id, _compared_together(pairs))
    if first.experiment is None or second.experiment is None:
        one, other = first.arm(None), second.arm(None)
        return Comparison(
            first.id, second.id, _compared_together([(one.name or other.name or "run", one, other)])
        )
    common = [name for name in first.arms if name in second.arms]
    unmatched = [name for name in (*first.arms, *second.arms) if name not in common]
    compared = _compared_together([(name, first.arms[name], second.arms[name]) for name in common])
    return Comparison(first.id, second.id, compared, unmatched)


def _compared_together(pairs: Sequence[tuple[str, RecordedArm, RecordedArm]]) -> list[ArmComparison]:
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


def _compared(name: str, first: RecordedArm, second: RecordedArm, error: float) -> ArmComparison:
    judged = [{e.episode: e for e in arm.summary.episodes} for arm in (first, second)]
    successes = [_successes(arm, judged_arm) for arm, judged_arm in zip((first, second), judged, strict=True)]
    sure = 1 - 2 * error
    success, open_, paired = _difference(*successes, open_as=None, confidence=sure)
    bounds = [_difference(*successes, open_as=taken, confidence=sure)[0] for taken in (True, False)]
    measures = [measures_of(arm.facts) for arm in (first, second)]
    return ArmComparison(
        arm=name,
        run_ids=(first.run_ids, second.run_ids),
        change=_change(success, *bounds, whole=first.summary.completed and second.summary.completed),
        success=success,
        paired=paired,
        open=open_,
        unmatched=len(successes[0].keys() ^ successes[1].keys()) if paired else 0,
        measures={
            key: (before.text, after.text)
            for key, before in measures[0].items()
            if (after := measures[1][key]).bounds != before.bounds or key == "success_rate"
        },
        changed=list(_changed(*judged)),
        differs=_differs(first, second),
        confidence=round(sure, 6),
        assertions=_assertions(first, second),
    )


def _assertions(first: RecordedArm, second: RecordedArm) -> dict[str, tuple[str, str]]:
    sides = [{each.statement: _with_figure(each.result) for each in arm.asserted} for arm in (first, second)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return {name: (sides[0].get(name, "missing"), sides[1].get(name, "missing")) for name in names}


def _with_figure(result: CheckResult) -> str:
    return ": ".join(filter(None, (_PASSED[result.passed], result.measured)))


def _successes(arm: RecordedArm, judged: Mapping[str, EpisodeJudgement]) -> dict[str, bool | None]:
    """Whether each planned episode succeeded, as far as its key is known."""
    successes: dict[str, bool | None] = dict.fromkeys(arm.planned)
    for key, episode in judged.items():
        successes[key] = episode.outcome == "success" if OUTCOMES[episode.outcome].in_rate else None
    return successes


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
    """``best`` and ``worst`` count unknown outcomes for and against the second side. ``whole``: both
    completed.
    """
    if success is None or best is None or worst is None:
        return "unknown"
    if best.high < 0:
        return "worse"
    return "not worse" if worst.high >= 0 and whole else "unknown"


def _changed(
    first: Mapping[str, EpisodeJudgement], second: Mapping[str, EpisodeJudgement]
) -> Iterator[ChangedOutcome]:
    for key, before in first.items():
        after = second.get(key)
        if after is not None and after.outcome != before.outcome:
            yield ChangedOutcome(key, before.prompt, before.outcome, after.outcome)


def _differs(first: RecordedArm, second: RecordedArm) -> dict[str, tuple[str, str]]:
    sides = [_conditions(arm) for arm in (first, second)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    both = {name: (sides[0].get(name, "unknown"), sides[1].get(name, "unknown")) for name in names}
    return {name: values for name, values in both.items() if values[0] != values[1]}


def _conditions(arm: RecordedArm) -> dict[str, str]:
    started = next(event for event in arm.events if isinstance(event, RunStarted))
    upstreams = {f"link {link.name}": link.upstream for link in started.wired if not link.is_of_lab}
    versions = {f"version of {name}": value for name, value in started.versions.items()}
    # shadows follow from the other arms and change nothing
    settings = {name: str(value) for name, value in started.settings.items() if name != "shadow"}
    whole = "yes" if arm.summary.completed else "no"
    return {"subject": arm.summary.subject, "completed": whole, **settings, **versions, **upstreams}
