"""The measures of failures: what they cost, whether and when the agent got over them, and how well. Pure.

An episode is *reached* if a fault was delivered to it. The parts of recovery quality describe those episodes;
they have no sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.estimates import Estimate, Rate, RateOfParts, Terms
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.logical_calls import FailedCalls, FailedTries
from wirefault.experiments.means import Mean, TimePercentile
from wirefault.experiments.measure import (
    RECOVERY_PERCENTILES,
    Measure,
    OfArm,
    in_units,
    number_measure,
    per_episode,
    share_text,
)
from wirefault.experiments.outages import Interruption, mean_time_to_recovery, share_recovered
from wirefault.judging.layers import BY_LAYER
from wirefault.stats.bootstrap import MIN_SEEN
from wirefault.stats.rates import percent
from wirefault.stats.survival import Duration

NOT_REACHED = "no data: no fault reached an episode"


def _cost_of_faults(
    arm: ArmFacts, terms: Terms, name: str, of_tries: Callable[[FailedTries], float | None], why: str
) -> Measure:
    """Per episode, of its failed tries. ``why``: the reason if an episode has no figure."""
    episodes = arm.valid.episodes
    if not episodes:
        return Measure(None, "no data")
    if not all(episode.tries.whole for episode in episodes):
        return Measure(None, "no data: not every episode shows which tries failed")
    costs = {episode.episode: of_tries(episode.tries) for episode in episodes}
    known = {key: cost for key, cost in costs.items() if cost is not None}
    if len(known) < len(costs):
        return Measure(None, f"no data: {why}")
    measure = per_episode(arm, terms, known, rare=True)
    failed, tries = (sum(getattr(e.tries, which) for e in episodes) for which in ("failed", "tries"))
    each = in_units(name, math.fsum(known.values()) / len(known))
    more = " or more" if arm.valid.missing > 0 else ""
    text = f"{each}{more} ({failed} of {tries} tries failed{_rarely(known, episodes)})"
    return replace(measure, text=text, episodes=tuple(key for key, cost in known.items() if cost))


def _rarely(costs: Mapping[str, float], tried: Iterable[EpisodeFacts] = ()) -> str:
    """Say in how many episodes, if they are few. ``tried``: with the failed tries that the costs are of."""
    costly = sum(map(bool, costs.values()))
    if costly >= MIN_SEEN:
        return ""
    failed = sum(bool(episode.tries.failed) for episode in tried)
    cost = f", with a cost in {costly}" if failed > costly else ""
    return f", in {failed or costly} of {len(costs)} episodes{cost}"


def _budget_overshoot(arm: ArmFacts, terms: Terms) -> Measure:
    over = {e.episode: e.overshoot for e in arm.valid.episodes}
    known = {key: share for key, share in over.items() if share is not None}
    if not known or len(known) < len(over):
        return Measure(None, "no data: no budget of an episode, or one that could not be counted")
    share = math.fsum(known.values()) / len(known)
    more = " or more" if arm.valid.missing > 0 else ""
    text = f"{percent(share)}{more} beyond the budget{_rarely(known)}"
    beyond = tuple(key for key, value in known.items() if value)
    return replace(per_episode(arm, terms, known, rare=True), text=text, episodes=beyond)


def _availability(arm: ArmFacts, terms: Terms) -> Measure:
    """Of all logical calls; a call whose end is unknown could be either."""
    parts = {
        e.episode: (sum(c.ok is True for c in e.calls), sum(c.ok is None for c in e.calls), len(e.calls))
        for e in arm.valid.episodes
    }
    lost = tuple(e.episode for e in arm.valid.episodes if any(call.ok is False for call in e.calls))
    return _share_of_parts(arm, terms, parts, "calls worked", lost, "nothing was called")


def _share_of_parts(
    arm: ArmFacts,
    terms: Terms,
    parts: Mapping[str, tuple[int, int, int]],
    unit: str,
    episodes: tuple[str, ...],
    why: str,
) -> Measure:
    """A share of parts of episodes, open if an episode is missing or hides some."""
    known, could, n = (sum(each[i] for each in parts.values()) for i in range(3))
    if not n:
        return Measure(None, f"no data: {why}")
    if arm.valid.missing > 0 or not all(e.tries.whole for e in arm.valid.episodes if e.episode in parts):
        seen = f"{known} of {n} {unit} in the others"
        return Measure(Bounds(0, 1), f"open: not every episode shows all requests ({seen})", episodes)
    bounds = Bounds(Fraction(known, n), Fraction(known + could, n))
    counts = f"{number_measure(Bounds(known, known + could)).text} of {n} {unit}"
    return Measure(
        bounds, f"{share_text(bounds)} ({counts})", episodes, estimate=RateOfParts(parts, terms.population)
    )


def _reached(arm: ArmFacts) -> list[EpisodeFacts]:
    return [episode for episode in arm.valid.episodes if episode.delivered]


def _efficiency(arm: ArmFacts, terms: Terms) -> Measure:
    reached = _reached(arm)
    parts = {e.episode: (e.tries.tries - e.tries.failed, 0, e.tries.tries) for e in reached}
    costly = tuple(e.episode for e in reached if e.tries.failed)
    measure = _share_of_parts(arm, terms, parts, "tries worked", costly, NOT_REACHED.partition(": ")[2])
    return replace(measure, reached=tuple(e.episode for e in reached))


def _of_reached(
    arm: ArmFacts,
    terms: Terms,
    holds: Callable[[EpisodeFacts], bool | None],
    is_asked: Callable[[EpisodeFacts], bool],
) -> Measure:
    """The share of the episodes that a fault reached, and that ask for it; None is open."""
    reached = _reached(arm)
    outcomes = {episode.episode: holds(episode) for episode in reached if is_asked(episode)}
    if not outcomes:
        why = "no oracle asks for it in an episode that a fault reached" if reached else ""
        return Measure(None, f"no data: {why}" if why else NOT_REACHED)
    estimate = Rate(outcomes, terms.population, max(arm.valid.missing, 0))
    bounds = Bounds(
        Fraction(estimate.successes, estimate.n), Fraction(estimate.successes + estimate.open, estimate.n)
    )
    counts = number_measure(Bounds(estimate.successes, estimate.successes + estimate.open)).text
    failed = tuple(key for key, outcome in outcomes.items() if outcome is False)
    return Measure(
        bounds, f"{share_text(bounds)} ({counts} of {estimate.n} episodes)", failed, estimate=estimate
    )


def _correctness(arm: ArmFacts, terms: Terms) -> Measure:
    def is_right(episode: EpisodeFacts) -> bool | None:
        return None if episode.value == "unreadable" else episode.value == "right"

    return _of_reached(arm, terms, is_right, lambda episode: episode.value != "not_applicable")


def _completeness(arm: ArmFacts, terms: Terms) -> Measure:
    def is_complete(episode: EpisodeFacts) -> bool | None:
        if episode.world == "lost" or episode.value == "none":
            return False
        return None if episode.world == "unknown" else True

    return _of_reached(arm, terms, is_complete, _has_oracle)


def _consistency(arm: ArmFacts, terms: Terms) -> Measure:
    def is_consistent(episode: EpisodeFacts) -> bool | None:
        if episode.outcome == "duplicate" or episode.world in ("duplicated", "wrong", "extra"):
            return False
        return None if episode.world == "unknown" or episode.perhaps_repeated else True

    return _of_reached(arm, terms, is_consistent, lambda episode: episode.world != "not_applicable")


def _has_oracle(episode: EpisodeFacts) -> bool:
    return episode.world != "not_applicable" or episode.value != "not_applicable"


def _recovery_time(arm: ArmFacts, terms: Terms, percent: int) -> Measure:
    times = {
        key: [Duration(outage.seconds, outage.end == "recovered") for outage in each.outages]
        for key, each in arm.outages.items()
    }
    estimate = TimePercentile(times, percent, terms.population)
    if not estimate.n:
        return Measure(None, "no data: nothing failed")
    if not arm.shows_all_outages:
        return Measure(Bounds(0, math.inf), "open: not every episode shows what failed in it")
    bounds = estimate.bounds
    more = "more than " if bounds.high == math.inf else ""
    lost = tuple(key for key, each in arm.outages.items() if any(o.end != "recovered" for o in each.outages))
    return Measure(
        bounds, f"{more}{float(bounds.low):.3g} s ({estimate.n} failures)", lost, estimate=estimate
    )


def _recovery_percentile(percent: int) -> tuple[str, OfArm]:
    meaning = (
        f"seconds within which {percent} % of the failures recovered; others are censored (Kaplan-Meier)"
    )
    return meaning, lambda arm, terms: _recovery_time(arm, terms, percent)


def _mttr(arm: ArmFacts, terms: Terms) -> Measure:
    sums = {
        key: (math.fsum(outage.seconds for outage in each.outages), float(len(each.outages)))
        for key, each in arm.outages.items()
    }
    censored = any(outage.end != "recovered" for each in arm.outages.values() for outage in each.outages)
    estimate = Mean(sums, terms.population, censored=censored)
    return _of_outages(
        arm, mean_time_to_recovery, Bounds(0, math.inf), lambda seconds: f"{seconds:.3g} s", estimate
    )


def _recovery_rate(arm: ArmFacts, terms: Terms) -> Measure:
    parts = {
        key: (_ends(each.outages, "recovered"), _ends(each.outages, "unknown"), len(each.outages))
        for key, each in arm.outages.items()
    }
    return _of_outages(arm, share_recovered, Bounds(0, 1), percent, RateOfParts(parts, terms.population))


def _ends(outages: Sequence[Interruption], end: str) -> int:
    return sum(outage.end == end for outage in outages)


def _amplification(arm: ArmFacts, terms: Terms) -> Measure:
    """No data without failures; open if an episode may hide a failure or a repetition."""
    failed = sum((episode.failed_calls for episode in arm.valid.episodes), FailedCalls())
    if not failed.calls:
        return Measure(None, "no data: nothing failed")
    showing = tuple(e.episode for e in arm.valid.episodes if e.failed_calls.requests > e.failed_calls.calls)
    by = ", ".join(f"{count} {BY_LAYER[layer]}" for layer, count in failed.repeated_by.items())
    calls = f"{failed.calls} failed call{'s' if failed.calls != 1 else ''}"
    why = f"{failed.requests} requests for {calls}{f'; sent again: {by}' if by else ', none sent again'}"
    if not failed.whole or arm.valid.missing > 0:
        return Measure(Bounds(1, math.inf), f"open: not every episode shows all requests ({why})", showing)
    factor = failed.requests / failed.calls
    sums = {
        e.episode: (float(e.failed_calls.requests), float(e.failed_calls.calls)) for e in arm.valid.episodes
    }
    estimate = Mean(sums, terms.population, lowest=1.0)
    return Measure(exactly(factor), f"{factor:.3g} ({why})", showing, estimate=estimate)


def _of_outages(
    arm: ArmFacts,
    figure: Callable[[Sequence[Interruption]], Bounds],
    anything: Bounds,
    text: Callable[[float], str],
    estimate: Estimate,
) -> Measure:
    """No data without failures; ``anything`` if an episode may hide more of them."""
    outages = [outage for of_episode in arm.outages.values() for outage in of_episode.outages]
    if not outages:
        return Measure(None, "no data: nothing failed")
    bounds = figure(outages)
    ends = f"{sum(outage.end == 'recovered' for outage in outages)} of {len(outages)} recovered"
    if not arm.shows_all_outages:
        return Measure(anything, f"open: not every episode shows what failed in it ({ends} in the others)")
    low, high = text(float(bounds.low)), "unknown" if bounds.high == math.inf else text(float(bounds.high))
    lost = [
        key
        for key, of_episode in arm.outages.items()
        if any(outage.end != "recovered" for outage in of_episode.outages)
    ]
    span = low if low == high else f"{low} to {high}"
    return Measure(bounds, f"{span} ({ends})", tuple(lost), estimate=estimate)


FAILURE_MEASURES: Mapping[str, tuple[str, OfArm]] = {
    "cost_of_faults_tokens": (
        "tokens of failed tries, per episode",
        lambda arm, terms: _cost_of_faults(
            arm,
            terms,
            "cost_of_faults_tokens",
            lambda tries: tries.tokens,
            "the tokens of a failed try are not known",
        ),
    ),
    "cost_of_faults_usd": (
        "USD of failed tries, per episode, where `prices` has all models",
        lambda arm, terms: _cost_of_faults(
            arm,
            terms,
            "cost_of_faults_usd",
            lambda tries: tries.cost,
            "`prices` or the tokens of a failed try are not known",
        ),
    ),
    "cost_of_faults_seconds": (
        "seconds of failed tries, per episode, without the pauses between them",
        lambda arm, terms: _cost_of_faults(
            arm, terms, "cost_of_faults_seconds", lambda tries: tries.seconds, ""
        ),
    ),
    "budget_overshoot": (
        "share by which an episode exceeded its [budget](experiments.md#budgets), the one exceeded most",
        _budget_overshoot,
    ),
    "availability": ("share of the logical calls that worked in the end, retries included", _availability),
    "mttr": ("mean seconds from a failure until the same request succeeded, as the caller saw it", _mttr),
    **{f"mttr_p{percent}": _recovery_percentile(percent) for percent in RECOVERY_PERCENTILES},
    "recovery_rate": ("share of the failures after which the same request succeeded", _recovery_rate),
    "recovery_correctness": ("share of the reached episodes whose value is right", _correctness),
    "recovery_completeness": (
        "share of the reached episodes that lack nothing: no effect, no value",
        _completeness,
    ),
    "recovery_efficiency": ("share of the tries in reached episodes that worked", _efficiency),
    "recovery_consistency": (
        "share of the reached episodes whose world has nothing twice, wrong or extra",
        _consistency,
    ),
    "amplification": (
        "requests for each logical call of which the first one failed, by SDK, code, repeated steps and model"
        " together; 1: no retries",
        _amplification,
    ),
}
"""Each with its meaning."""
