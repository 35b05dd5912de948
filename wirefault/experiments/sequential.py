"""Experiments that run until their claims are decided: blocks of passes, looks, decisions. Pure.

A pass runs every prompt once. The arms run in blocks of whole passes, the control first, and the evidence is
looked at after each pass, in the order of the plan. So the decisions do not depend on which episode ends
first, on the number of workers, or on where a run was interrupted. An arm whose claims are decided runs no
further block; the control, and an arm without claims, run as long as any other does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.expression import Bounds
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.hypothesis import SEQUENTIAL, Statement, parse_statements
from wirefault.experiments.measure import Measure, Number
from wirefault.judging.oracle.outcome import is_success
from wirefault.stats.holm import holm
from wirefault.stats.rates import percent
from wirefault.stats.sequential import (
    ALPHA,
    Evidence,
    Pairs,
    difference_evidence,
    difference_interval,
    fixed_n,
    rate_evidence,
    rate_interval,
)

DEFAULT_CAP = 1000
POWER = 0.9
_PERCENTILE = re.compile(r"p(\d\d)")
# a block has at least this many episodes, and this share of those before it
_MIN_BLOCK, _BLOCK_GROWTH = 8, 0.1


@dataclass(frozen=True)
class SequentialClaim:
    """A claim about the mean of one figure of the episodes, or of its difference to the control."""

    text: str
    measure: str
    threshold: float
    """Of the mean; for percentiles the share of episodes within ``limit``."""
    above: bool
    """Whether the claim is that the mean is above the threshold."""
    limit: float = math.inf
    """Seconds, for a percentile."""
    strict: bool = False
    """Whether an episode must stay below ``limit``."""

    @property
    def is_difference(self) -> bool:
        return self.measure == "degradation"

    def observe(self, episode: EpisodeFacts, control: EpisodeFacts | None) -> tuple[int, int]:
        """Return the lowest and the highest value that the episode may have."""
        if self.measure == "success_rate":
            return _success(episode)
        if self.is_difference:
            low, high = (0, 1) if control is None else _success(control)
            own_low, own_high = _success(episode)
            return low - own_high, high - own_low
        if episode.judged.outcome == "invalid" or len(episode.seconds) != 1:
            return 0, 1
        seconds = episode.seconds[0]
        within = int(seconds < self.limit if self.strict else seconds <= self.limit)
        return within, within


def _success(episode: EpisodeFacts) -> tuple[int, int]:
    success = is_success(episode.judged.outcome)
    return (0, 1) if success is None else (int(success), int(success))


def sequential_claims(text: str) -> list[SequentialClaim]:
    """Return the claims of a text that sequential tests can decide."""
    claims = [_claim(statement) for statement in parse_statements(text)]
    return [claim for claim in claims if claim is not None]


def _claim(statement: Statement) -> SequentialClaim | None:
    comparison = statement.expression.comparison
    if statement.kind != "claim" or statement.faulted or comparison is None:
        return None
    name, number = comparison.measure, float(comparison.threshold)
    above, strict = comparison.sign[0] == ">", len(comparison.sign) == 1
    if percentile := _PERCENTILE.fullmatch(name):
        share = int(percentile[1]) / 100
        return SequentialClaim(statement.text, name, share, not above, number, strict != above)
    if (name == "success_rate" and 0 < number < 1) or (name == "degradation" and abs(number) < 1):
        return SequentialClaim(statement.text, name, number, above)
    return None


_SEQUENTIAL = f"{', '.join(SEQUENTIAL[:-1])} and {SEQUENTIAL[-1]}"


def why_not_sequential(text: str, prompt_limit: int) -> str:
    """Return why an experiment until decided cannot have this statement; empty if it can."""
    for statement in parse_statements(text):
        claim = _claim(statement)
        if claim is not None and prompt_limit > 1 and _PERCENTILE.fullmatch(claim.measure):
            return "a percentile is decided sequentially only with one attempt per prompt (prompt_limit: 1)"
        if claim is None and statement.kind == "claim":
            return f"{_why_not(statement)}, or use fixed `repeats`"
    return ""  # a check: one counterexample refutes it, whatever the number of episodes


def _why_not(statement: Statement) -> str:
    comparison = statement.expression.comparison
    if statement.faulted:
        return "a sequential test is about all episodes: leave `where: faulted` out"
    if comparison is None:
        return (
            f"a sequential test compares one measure with one number: state {_SEQUENTIAL} each alone, joined"
            " by `and`"
        )
    if comparison.measure not in SEQUENTIAL:
        return f"{comparison.measure} cannot be decided sequentially: state one of {_SEQUENTIAL}"
    return f"no number of episodes decides {comparison.measure} at the end of its range: use a margin"


@dataclass(frozen=True)
class Decision:
    """The state of a claim after its last look."""

    verdict: Literal["held", "deviated", "unknown"]
    n: int
    """Episodes, or pairs of episodes, that were looked at."""
    measured: Number
    message: str


@dataclass(frozen=True)
class _Looked:
    """An estimate whose limits hold at every look."""

    n: int
    limits: tuple[float, float]
    value: None = None

    def interval(self, error: float) -> Bounds:
        return Bounds(*self.limits)

    def needed(self, sign: str, threshold: float, error: float) -> None:
        return None


@dataclass
class _Tally:
    """The observations of a claim until now."""

    claim: SequentialClaim
    low: dict[int, int] = field(default_factory=lambda: {-1: 0, 0: 0, 1: 0})
    high: dict[int, int] = field(default_factory=lambda: {-1: 0, 0: 0, 1: 0})
    support: float = -math.inf
    """The highest evidence for the claim at a look."""
    deviated: float = -math.inf
    decision: Decision | None = None

    def add(self, low: int, high: int) -> None:
        self.low[low] += 1
        self.high[high] += 1

    @property
    def n(self) -> int:
        return sum(self.low.values())

    @property
    def pairs(self) -> tuple[Pairs, Pairs]:
        return tuple(Pairs(each[1], each[-1], each[0]) for each in (self.low, self.high))  # type: ignore[return-value]

    def look(self) -> None:
        evidence = self._evidence()
        for_claim, against = evidence.above, evidence.below
        if not self.claim.above:
            for_claim, against = against, for_claim
        self.support, self.deviated = max(self.support, for_claim), max(self.deviated, against)

    def _evidence(self) -> Evidence:
        if self.claim.is_difference:
            return difference_evidence(self.pairs[0], self.claim.threshold, self.pairs[1])
        return rate_evidence(self.low[1], self.n, self.claim.threshold, self.high[1])

    def decide(self, verdict: Literal["held", "deviated", "unknown"], alpha: float) -> Decision:
        """Return the decision at this look; ``alpha`` is the error on each side of the interval."""
        n, low, high = self.n, self.low, self.high
        if self.claim.is_difference:
            limits = difference_interval(*self.pairs, alpha=alpha)
            means = [(each[1] - each[-1]) / n if n else 0.0 for each in (low, high)]
        else:
            limits = rate_interval(low[1], n, high[1], alpha)
            means = [each[1] / n if n else 0.0 for each in (low, high)]
        within = f"within {self.claim.limit:g} s" if _PERCENTILE.fullmatch(self.claim.measure) else ""
        measure = Measure(
            Bounds(*means), within, estimate=_Looked(n, limits), with_interval=True, unit="share", error=alpha
        )
        text = " ".join(filter(None, (f"{measure.text} in {n}", within)))
        measured = Number.of(self.claim.measure, measure, text)
        return Decision(verdict, n, measured, self._message(verdict, means, alpha))

    def _message(self, verdict: str, means: Sequence[float], alpha: float) -> str:
        unit = "pairs" if self.claim.is_difference else "episodes"
        begin = (
            f"undecided after {self.n} {unit}" if verdict == "unknown" else f"decided after {self.n} {unit}"
        )
        if self.claim.is_difference or means[0] != means[1] or not self.n:
            return f"{begin}; the interval is valid at every look"
        fixed = fixed_n(means[0], self.claim.threshold, POWER, alpha)
        n = "no fixed number decides" if fixed is None else f"a fixed number takes {fixed}"
        return (
            f"{begin}; the interval is valid at every look; at a true rate of {percent(means[0])} {n} with"
            f" {percent(POWER)} power"
        )


@dataclass(frozen=True)
class SequentialPlan:
    """The arms that are looked at: the control first, each with its claims."""

    claims: Mapping[str, Sequence[SequentialClaim]]
    prompts: Sequence[str]
    """Keys of all episodes of an arm up to the cap, in their order."""
    every: int
    """Episodes of a pass."""
    control: str
    alpha: float = ALPHA
    """Error on each side."""

    def blocks(self) -> Iterator[int]:
        """Yield the episodes of an arm at the end of each block."""
        end = 0
        while end < len(self.prompts):
            least = max(_MIN_BLOCK, _BLOCK_GROWTH * end)
            end = min(end + math.ceil(least / self.every) * self.every, len(self.prompts))
            yield end


@dataclass(frozen=True)
class SequentialState:
    """How far the experiment is."""

    extents: Mapping[str, int]
    """Episodes of each arm that are planned until now."""
    decisions: Mapping[str, Mapping[str, Decision]]
    """By arm and statement."""
    running: tuple[str, ...] = ()
    """The arms of the current block that have episodes left; empty at the end."""
    has_steady_state: bool = True
    """Whether the claims about the control may still hold."""


# the facts of the first episodes of an arm, up to a number of them
FirstEpisodes = Callable[[str, int], ArmFacts]


def follow(plan: SequentialPlan, first_episodes: FirstEpisodes) -> SequentialState:
    """Repeat all looks from the recorded episodes, up to the first block that is not complete."""
    tallies = {arm: [_Tally(claim) for claim in claims] for arm, claims in plan.claims.items()}
    extents = dict.fromkeys(plan.claims, 0)
    seen = 0
    for end in plan.blocks():
        if not any(map(_is_open, tallies.values())) or not _steady(tallies[plan.control]):
            break
        active = [arm for arm, each in tallies.items() if not each or _is_open(each)]
        running = [plan.control, *(arm for arm in active if arm != plan.control)]
        extents |= dict.fromkeys(running, end)
        episodes = {arm: _by_key(first_episodes(arm, end)) for arm in running}
        left = [arm for arm in running if any(key not in episodes[arm] for key in plan.prompts[:end])]
        if left:
            return _state(plan, tallies, extents, tuple(running))
        for at in range(seen, end, plan.every):
            _look(plan, tallies, episodes, plan.prompts[at : at + plan.every])
        seen = end
    return _state(plan, tallies, extents)


def _by_key(facts: ArmFacts) -> Mapping[str, EpisodeFacts]:
    return {episode.episode: episode for episode in facts.episodes}


def _is_open(tallies: Iterable[_Tally]) -> bool:
    return any(tally.decision is None for tally in tallies)


def _steady(tallies: Iterable[_Tally]) -> bool:
    return not any(tally.decision and tally.decision.verdict == "deviated" for tally in tallies)


def _look(
    plan: SequentialPlan,
    tallies: Mapping[str, Sequence[_Tally]],
    episodes: Mapping[str, Mapping[str, EpisodeFacts]],
    keys: Sequence[str],
) -> None:
    """Add one pass and decide. Deviations of the arms share the error (Holm); held claims need none."""
    for arm in episodes:
        for tally in tallies[arm]:
            if tally.decision is None:
                for key in keys:
                    tally.add(*tally.claim.observe(episodes[arm][key], episodes[plan.control].get(key)))
                tally.look()
    of_control = list(tallies[plan.control])
    of_arms = [tally for arm, each in tallies.items() if arm != plan.control for tally in each]
    for family in (of_control, of_arms):
        rejected, _ = holm(len(family), partial(_rejects, family), plan.alpha)
        for place, tally in enumerate(family):
            if tally.decision is not None:
                continue
            if place in rejected:
                tally.decision = tally.decide("deviated", rejected[place])
            elif tally.support >= math.log(1 / plan.alpha):
                tally.decision = tally.decide("held", plan.alpha)


def _rejects(family: Sequence[_Tally], place: int, error: float) -> bool:
    """Whether the evidence against the claim was ever so high; 1 / e is an anytime-valid p-value."""
    return family[place].deviated >= math.log(1 / error)


def _state(
    plan: SequentialPlan,
    tallies: Mapping[str, Sequence[_Tally]],
    extents: Mapping[str, int],
    running: tuple[str, ...] = (),
) -> SequentialState:
    decisions = {
        arm: {tally.claim.text: tally.decision or tally.decide("unknown", plan.alpha) for tally in each}
        for arm, each in tallies.items()
    }
    return SequentialState(extents, decisions, running, _steady(tallies[plan.control]))


def progress_lines(state: SequentialState) -> Iterator[str]:
    """Yield a line for each claim: what its evidence shows until now."""
    for arm, decisions in state.decisions.items():
        for text, decision in decisions.items():
            yield f"{arm}: {text}: {decision.verdict}, {decision.measured}"
