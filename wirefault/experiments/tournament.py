"""A tournament: several agents under identical schedules, compared in pairs. Pure.

Each arm is an experiment with its own control, under the same seed: draws are keyed by the call, so an arm
that calls more often meets the same faults on the calls that it shares with the others. Differences are
paired by prompt and repetition, and those that are claimed share the error (S. Holm, see ``stats.holm``).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.estimates import Outcomes, PairedLoss, RateOfParts, Terms, prompt_of
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.figures import against_control, measures_of, outcomes_in
from wirefault.experiments.means import Mean, MeanDifference
from wirefault.experiments.measure import Measure, finite, numbers
from wirefault.judging.oracle.outcome import is_success
from wirefault.stats.holm import holm
from wirefault.stats.rates import percent
from wirefault.stats.sequential import Pairs, difference_interval

COSTS = ("cost", "tokens", "seconds")
"""The measures of an arm's cost; the first that all arms have is the one that is compared."""
_OF_TABLE = (
    "success_rate",
    "honest",
    "requests_per_call",
    "retry_after_kept",
    "mttr",
    "added_seconds",
    "added_tokens",
    "added_cost",
    *COSTS,
)


@dataclass(frozen=True)
class Contestant:
    """The facts of an arm's agent with the faults and without them."""

    name: str
    faulted: ArmFacts
    calm: ArmFacts


@dataclass(frozen=True)
class Standing:
    """The figures of one arm."""

    arm: str
    figures: Mapping[str, Measure]
    """Some of the table of figures, and the orders by their effects, which only all arms together show."""
    repeated_by: Mapping[str, float]
    """Further requests for each logical call, by the layer that sent them."""
    outcomes: Mapping[str, int]


@dataclass(frozen=True)
class Pairing:
    """Two arms by their success on the same episodes."""

    first: str
    second: str
    success: float | None
    """The rate of the first minus the rate of the second; None while episodes are open."""
    interval: tuple[float, float]
    n: int
    differs: bool
    """Whether the interval, at its share of the error, excludes 0."""
    needed: int | None = None
    """The pairs that would decide if the figures stay; None if none would, or if it differs."""
    is_alike: bool = False
    """Whether the interval excludes every difference beyond the margin."""

    @property
    def is_decided(self) -> bool:
        """Whether the two differ, or are alike within the margin."""
        return self.differs or self.is_alike


@dataclass(frozen=True)
class Schedules:
    """The calls that two or more arms made alike, and those of them with other faults."""

    shared: int
    different: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """All arms under one set of faults, the best first."""

    under: str
    standings: Sequence[Standing]
    pairings: Sequence[Pairing]
    groups: Sequence[Sequence[str]]
    """Arms that cannot be told apart; an arm may be in several."""
    cost: str
    """The measure that ``advice`` and the chart call cost; empty if no two arms have one."""
    advice: str
    confidence: float
    schedules: Schedules = field(default=Schedules(0))

    @property
    def is_decided(self) -> bool:
        """Whether each two arms differ, or are alike within the margin."""
        return all(pairing.is_decided for pairing in self.pairings)

    def as_json(self) -> dict[str, Any]:
        return {
            "under": self.under,
            "confidence": self.confidence,
            "advice": self.advice,
            "cost": self.cost or None,
            "groups": [list(group) for group in self.groups],
            "arms": [
                {
                    "arm": each.arm,
                    "outcomes": dict(each.outcomes),
                    **{name: measure.as_json() for name, measure in each.figures.items()},
                    "repeated_by": dict(each.repeated_by),
                }
                for each in self.standings
            ],
            "pairs": [
                {
                    "first": each.first,
                    "second": each.second,
                    "success": numbers(each.success, each.interval, each.n),
                    "differs": each.differs,
                    "alike": each.is_alike,
                    "pairs_needed": each.needed,
                }
                for each in self.pairings
            ],
            "schedules": {
                "shared_calls": self.schedules.shared,
                "different": list(self.schedules.different),
            },
        }


MARGIN = 0.1
"""Two arms are alike if their success rates differ by at most this."""


def table_of(
    under: str,
    contestants: Sequence[Contestant],
    terms: Terms,
    *,
    until_decided: bool = False,
    schedules: Schedules = Schedules(0),
) -> Table:
    """Compare the arms under one set of faults.

    ``until_decided``: their number of episodes depends on what they showed, so the intervals of pairs are
    ones that hold at every look.
    """
    wanted = _wanted_writes(contestants)
    standings = [_standing(each, wanted, terms) for each in contestants]
    standings.sort(key=lambda each: -(finite(each.figures["success_rate"].value) or 0.0))
    order = [each.arm for each in standings]
    by_name = {each.name: each for each in contestants}
    pairings = list(pairings_of([by_name[name] for name in order], terms, until_decided=until_decided))
    groups = _groups(order, [(each.first, each.second) for each in pairings if each.differs])
    costs = _costs(contestants, terms)
    return Table(
        under,
        standings,
        pairings,
        groups,
        costs[0],
        _advice(standings, pairings, costs, terms),
        terms.confidence,
        schedules,
    )


def _standing(arm: Contestant, wanted: Mapping[str, int], terms: Terms) -> Standing:
    facts = arm.faulted
    measures = against_control(measures_of(facts, terms), measures_of(arm.calm, terms), terms)
    return Standing(
        arm.name,
        {name: measures[name] for name in _OF_TABLE} | dict(_effects(arm, wanted, terms)),
        _repeated_by(facts),
        dict(Counter(episode.judged.outcome for episode in facts.episodes)),
    )


def _repeated_by(arm: ArmFacts) -> Mapping[str, float]:
    calls = sum(len(episode.calls) for episode in arm.valid.episodes)
    by: Counter[str] = Counter()
    for episode in arm.valid.episodes:
        by.update(episode.failed_calls.repeated_by)
    return {layer: count / calls for layer, count in by.items() if calls}


# the effects of each order


def _wanted_writes(contestants: Iterable[Contestant]) -> Mapping[str, int]:
    """How many writes each prompt asks for: as many as the episodes without faults made that succeeded.

    Of a prompt whose episodes no oracle judges all count. It is left out if they differ: some agents write
    too often without any fault, and the number alone does not show which.
    """
    succeeded: defaultdict[str, set[int]] = defaultdict(set)
    unjudged: defaultdict[str, set[int]] = defaultdict(set)
    judged = set()
    for each in contestants:
        for episode in each.calm.valid.episodes:
            prompt, count = prompt_of(episode.episode), sum(write.executed for write in episode.writes)
            success = is_success(episode.judged.outcome)
            if success is None:
                unjudged[prompt].add(count)
                continue
            judged.add(prompt)
            if success:
                succeeded[prompt].add(count)
    counts = {**{each: unjudged[each] for each in unjudged if each not in judged}, **succeeded}
    return {prompt: max(seen) for prompt, seen in counts.items() if len(seen) == 1}


def _effects(arm: Contestant, wanted: Mapping[str, int], terms: Terms) -> Iterator[tuple[str, Measure]]:
    """Yield the shares of the orders with no effect, with one, and with more.

    Two orders that are wanted may be equal: a write that was executed as often as without faults is as many
    orders with one effect each.
    """
    usual: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for episode in arm.calm.valid.episodes:
        counts = usual[prompt_of(episode.episode)]
        for write in episode.writes:
            counts[write.same] = max(counts[write.same], write.executed)
    names = ("no_effect", "one_effect", "more_effects")
    parts: dict[str, dict[str, tuple[int, int, int]]] = {name: {} for name in names}
    for episode in arm.faulted.valid.episodes:
        prompt = prompt_of(episode.episode)
        if not wanted.get(prompt):
            continue
        none, one, more, unknown = _orders(episode, usual[prompt], wanted[prompt])
        for name, count in zip(names, (none, one, more), strict=True):
            parts[name][episode.episode] = (count, unknown, wanted[prompt])
    for name, of_name in parts.items():
        estimate = RateOfParts(of_name, terms.population)
        bounds = Bounds(0, 1) if estimate.value is None else exactly(estimate.value)
        reason = "open" if estimate.value is None else ""
        measure = Measure(bounds, reason=reason, estimate=estimate, unit="share", error=terms.error)
        yield name, measure if estimate.n else Measure(None)


def _orders(episode: EpisodeFacts, usual: Mapping[str, int], wanted: int) -> tuple[int, int, int, int]:
    """Count the orders with no effect, one and more, and those of which it is unknown."""
    executed = {write.same: write.executed for write in episode.writes}
    maybe = {write.same: write.maybe for write in episode.writes}
    one = more = unknown = 0
    for same, times in sorted(executed.items(), key=lambda each: each[0] not in usual):
        room = wanted - one - more - unknown
        orders = min(max(usual.get(same, 1), 1), room)
        if times > orders > 0:
            one, more = one + orders - 1, more + 1
        elif maybe[same]:
            certain = min(times, orders)
            one, unknown = one + certain, unknown + min(maybe[same], room - certain)
        else:
            one += min(times, orders)
    return wanted - one - more - unknown, one, more, unknown


# the pairs


def pairings_of(contestants: Sequence[Contestant], terms: Terms, *, until_decided: bool) -> Iterator[Pairing]:
    """Compare each two of them, in their order, by the success of the same episodes."""
    successes = {each.name: outcomes_in(each.faulted.episodes) for each in contestants}
    return compared_pairs(list(successes), successes, terms, until_decided=until_decided)


def compared_pairs(
    order: Sequence[str], successes: Mapping[str, Outcomes], terms: Terms, *, until_decided: bool
) -> Iterator[Pairing]:
    """Compare each two arms by the success of the same episodes; all pairs share the error."""
    pairs = list(combinations(order, 2))
    losses = [PairedLoss(successes[first], successes[second], terms.population) for first, second in pairs]

    def interval(place: int, error: float) -> tuple[float, float]:
        if until_decided:
            return _at_every_look(losses[place], error)
        bounds = losses[place].interval(error)
        return float(bounds.low), float(bounds.high)

    def excludes_zero(place: int, error: float) -> bool:
        low, high = interval(place, error)
        return low > 0 or high < 0

    # two-sided: each side has half of the error
    rejected, left = holm(len(pairs), excludes_zero, terms.error / 2)
    for place, (first, second) in enumerate(pairs):
        loss = losses[place]
        low, high = interval(place, rejected.get(place, left))
        differs = place in rejected
        needed = None if differs or not loss.value else loss.needed("!=", 0.0, left)
        is_alike = low >= -MARGIN and high <= MARGIN
        yield Pairing(first, second, loss.value, (low, high), loss.n, differs, needed, is_alike)


def _at_every_look(loss: PairedLoss, error: float) -> tuple[float, float]:
    """The interval of the loss that holds however often it is looked at; open pairs widen it."""
    bounds, n = loss.bounds, loss.n
    if bounds is None:
        return -1.0, 1.0
    open_ = round(float(bounds.high - bounds.low) * n)
    ties = n - loss.lost - loss.won
    lowest = Pairs(loss.lost, loss.won + min(open_, ties), max(ties - open_, 0))
    highest = Pairs(loss.lost + min(open_, ties), loss.won, max(ties - open_, 0))
    return difference_interval(lowest, highest, error)


def _groups(order: Sequence[str], differing: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the largest sets in which no two arms differ, in the given order.

    By insertion and absorption: H.-P. Piepho, "An Algorithm for a Letter-Based Representation of All-Pairwise
    Comparisons", Journal of Computational and Graphical Statistics 13 (2004), 456-466.
    """
    groups = [frozenset(order)]
    for first, second in differing:
        split = [
            part
            for group in groups
            for part in ((group - {first}, group - {second}) if {first, second} <= group else (group,))
        ]
        unique = list(dict.fromkeys(split))
        groups = [group for group in unique if not any(group < other for other in unique)]
    listed = [[name for name in order if name in group] for group in groups]
    return sorted(listed, key=lambda group: order.index(group[0]))


# the advice

_Costs = tuple[str, Mapping[str, Mean]]


def _costs(contestants: Sequence[Contestant], terms: Terms) -> _Costs:
    """The first measure of cost that all arms have, with their means."""
    for name in COSTS:
        means = {each.name: measures_of(each.faulted, terms)[name].estimate for each in contestants}
        known = {arm: mean for arm, mean in means.items() if isinstance(mean, Mean) and mean.n}
        if len(known) == len(contestants) and any(mean.value for mean in known.values()):
            return name, known
    return "", {}


def _advice(standings: Sequence[Standing], pairings: Sequence[Pairing], costs: _Costs, terms: Terms) -> str:
    """One sentence. An arm is only called better where the interval says so."""
    best = standings[0].arm
    if any(math.isnan(each.figures["success_rate"].value) for each in standings):
        return "No advice: not every episode of the arms was judged."
    of_best = [each for each in pairings if each.first == best]
    beaten = [each.second for each in of_best if each.differs]
    rivals = [each for each in of_best if not each.differs]
    if not rivals:
        least, sure = min(each.interval[0] for each in of_best), percent(terms.confidence)
        return (
            f"Use {best}: it succeeds more often than each other arm, by at least {percent(least)} ({sure})."
        )
    names = [best, *(each.second for each in rivals)]
    worse = f" {_listed(beaten)} {'is' if len(beaten) == 1 else 'are'} worse than {best}." if beaten else ""
    cheapest = _cheapest(names, costs, terms)
    if cheapest and all(each.is_alike for each in rivals):
        return f"Use {cheapest}: {_listed(names)} succeed alike, and it costs least ({costs[0]}).{worse}"
    needed = [each.needed for each in rivals]
    if any(needed):
        more = f"about {max(filter(None, needed))} pairs would decide if the figures stay"
    elif all(each.is_alike for each in rivals):
        more = f"they differ by at most {percent(MARGIN)}"
    else:
        more = "their figures are equal, so that no number of pairs would decide"
    n = min(each.n for each in rivals)
    return f"{_listed(names)} cannot be told apart by success after {n} pairs: {more}.{worse}"


def _cheapest(names: Sequence[str], costs: _Costs, terms: Terms) -> str:
    """The arm that costs less than each of the others, by the interval of their paired difference."""
    means = costs[1]
    for name in names if means else ():
        others = [other for other in names if other != name]
        error = terms.error / max(len(others), 1)
        if all(MeanDifference(means[other], means[name]).interval(error).high < 0 for other in others):
            return name
    return ""


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
