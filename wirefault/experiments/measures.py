"""The measures of an arm, each with the bounds that its data leave, and estimates with an interval. Pure.

Counts describe the episodes that ran. Rates, means, percentiles and differences also have an ``estimate``,
whose interval decides claims about them.

An episode that is invalid or was not run could have had any outcome: a count is bounded by none and by all of
them. An unjudged one could have had any outcome that needs an oracle, but it did not crash, was no runaway,
and is no duplicate if its writes show that. The count of false successes also leaves ``failure`` open, whose
claim is unknown. Sums (seconds, tokens) have no upper bound if an episode is invalid or was not run. Without
data a measure has no bounds at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from wirefault.experiments.amplification import FailedCalls
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.estimates import (
    Estimate,
    Mean,
    Outcomes,
    PairedLoss,
    Percentile,
    Rate,
    RateOfParts,
    Terms,
)
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.outages import Interruption, mean_time_to_recovery, share_recovered
from wirefault.experiments.tries import CONSISTENCY, OverTries, tries_needed
from wirefault.judging.oracle.outcome import OUTCOMES, Claim, Outcome
from wirefault.stats.exact import clopper_pearson
from wirefault.stats.rates import percent, percentile

_OPEN: frozenset[Outcome] = frozenset({"invalid", "unjudged"})
_WITHOUT_ORACLE: frozenset[Outcome] = frozenset({"crash", "runaway"})
# what an episode without an oracle can still be, by its claim; success is left open for all of them
_BY_CLAIM: Mapping[Claim, frozenset[Outcome]] = {
    "done": frozenset({"misled", "false_success"}),
    "failed": frozenset({"false_failure", "honest_failure"}),
    "unsure": frozenset({"unconfirmed", "honest_failure"}),
}
_SETTLED_BY_CLAIM = frozenset[Outcome]().union(*_BY_CLAIM.values())
# they differ in the claim, which `failure` lacks
_OF_CLAIMS: frozenset[Outcome] = frozenset({"false_success", "misled", "honest_failure"})


@dataclass(frozen=True)
class Measure:
    """``bounds`` is None without data. ``text`` is for people; ``episodes`` are the keys that show it.

    ``why``: what shows it, where the figure alone does not.
    """

    bounds: Bounds | None
    text: str
    episodes: tuple[str, ...] = ()
    why: str = ""
    estimate: Estimate | None = None
    """Only of a rate, a mean, a percentile or a difference."""
    figure: str = ""
    """The text without its interval, where that has one."""


_TERMS = Terms()


def measures_of(arm: ArmFacts, terms: Terms = _TERMS, passes: Iterable[str] = ()) -> dict[str, Measure]:
    """All measures of an arm, by name; of pass^k and pass@k these."""
    measures = {name: measure(arm, terms) for name, (_, measure) in _MEASURES.items()}
    return measures | {name: _over_tries(arm, terms, name) for name in passes}


def against_control(
    measured: Mapping[str, Measure], control: Mapping[str, Measure], terms: Terms = _TERMS
) -> dict[str, Measure]:
    """The measures of an arm, those of its control as ``control_NAME``, and the degradation."""
    measures = {**measured, **{f"control_{name}": measure for name, measure in control.items()}}
    loss = loss_between(control, measured, terms)
    if loss is None or loss.bounds is None:
        return measures | {DEGRADATION: Measure(None, "no data")}
    share, episodes = _share(loss.bounds), measured["success_rate"].episodes
    text = f"{share} {_interval_text(loss, terms)}"
    return measures | {DEGRADATION: Measure(loss.bounds, text, episodes, "", loss, share)}


def loss_between(
    before: Mapping[str, Measure], after: Mapping[str, Measure], terms: Terms = _TERMS
) -> PairedLoss | None:
    """The loss of success rate, paired by episode; None without success rates."""
    rates = [side["success_rate"].estimate for side in (before, after) if "success_rate" in side]
    if len(rates) < 2 or not all(isinstance(rate, Rate) for rate in rates):
        return None
    first, second = (rate.outcomes for rate in rates if isinstance(rate, Rate))
    return PairedLoss(first, second, terms.population)


def outcomes_in(arm: ArmFacts) -> Outcomes:
    """Whether each episode succeeded; None without an outcome."""
    return {e.episode: None if e.outcome in _OPEN else e.outcome == "success" for e in arm.episodes}


def _interval_text(estimate: Estimate, terms: Terms) -> str:
    interval = estimate.interval(terms.error)
    return f"[{percent(float(interval.low))}, {percent(float(interval.high))}]"


def in_units(name: str, value: float) -> str:
    """A value of the measure for people; an infinite one is ``unknown``."""
    name = name.removeprefix("control_")
    if not math.isfinite(value):
        return "unknown"
    if name in _SECONDS:
        return f"{value:.3g} s"
    return percent(value) if name in _SHARES or tries_needed(name) else f"{value:.4g}"


_SHARES = frozenset(("success_rate", "recovery_rate", "degradation"))
_SECONDS = frozenset(("p50", "p95", "p99", "mttr"))


def _count(arm: ArmFacts, terms: Terms, outcome: Outcome) -> Measure:
    shows = arm.keys(outcome)
    undecided = _OPEN | ({"failure"} if outcome in _OF_CLAIMS else set())
    completed, planned = len(arm.episodes), arm.success.planned
    could = sum(e.outcome in undecided - {outcome} and not _excludes(e, outcome) for e in arm.episodes)
    could += max(planned - completed, 0)
    bounds = Bounds(len(shows), len(shows) + could)
    known = clopper_pearson(len(shows), completed, terms.confidence) if not could else None
    interval = f" [{percent(known[0])}, {percent(known[1])}]" if known else ""
    figure = f"{_number(bounds).text} of {max(completed, planned)}"
    return Measure(bounds, f"{figure}{interval}", shows, figure=figure)


def _excludes(episode: EpisodeFacts, outcome: Outcome) -> bool:
    """Whether an unjudged episode is known not to have that outcome, which comes before ``unjudged``."""
    if episode.outcome != "unjudged":
        return False
    if outcome in _WITHOUT_ORACLE:
        return True
    if outcome in _SETTLED_BY_CLAIM and episode.claim is not None and episode.claim in _BY_CLAIM:
        return outcome not in _BY_CLAIM[episode.claim]
    repeated = any(w.executed + w.maybe > 1 and w.same not in episode.usual for w in episode.writes)
    proven = episode.world != "unknown" and not (
        episode.perhaps_repeated or episode.unseen_writes or repeated
    )
    return outcome == "duplicate" and proven


def _successes(arm: ArmFacts, terms: Terms) -> Measure:
    """The episodes that failed show why the count is too low."""
    return replace(_count(arm, terms, "success"), episodes=_failed(arm))


def _failures(arm: ArmFacts, _: Terms) -> Measure:
    """All that is not a success; open episodes could be either."""
    failed, planned = _failed(arm), _planned(arm)
    could = planned - len(arm.episodes) + sum(e.outcome in _OPEN for e in arm.episodes)
    bounds = Bounds(len(failed), len(failed) + could)
    return Measure(bounds, f"{_number(bounds).text} of {planned}", failed)


def _failed(arm: ArmFacts) -> tuple[str, ...]:
    return tuple(e.episode for e in arm.episodes if e.outcome not in _OPEN | {"success"})


def _planned(arm: ArmFacts) -> int:
    return max(len(arm.episodes), arm.success.planned)


def _duplicates(arm: ArmFacts, terms: Terms) -> Measure:
    """Episodes whose writes may have been repeated leave it open."""
    measure = _count(arm, terms, "duplicate")
    assert measure.bounds is not None
    perhaps = [e for e in arm.episodes if e.perhaps_repeated and e.outcome not in _OPEN | {"duplicate"}]
    texts = dict.fromkeys(e.repeated or e.perhaps_repeated for e in arm.episodes)
    why = "; ".join(filter(None, texts))
    if not perhaps:
        return replace(measure, why=why)
    bounds = measure.bounds + Bounds(0, len(perhaps))
    text = f"{_number(bounds).text} of {max(len(arm.episodes), arm.success.planned)}"
    return Measure(bounds, text, measure.episodes, why)


def _success_rate(arm: ArmFacts, terms: Terms) -> Measure:
    estimate = Rate(outcomes_in(arm), terms.population, max(arm.missing, 0))
    if not estimate.n:
        return Measure(None, "no data")
    known, could = estimate.successes, estimate.successes + estimate.open
    bounds = Bounds(Fraction(known, estimate.n), Fraction(could, estimate.n))
    failed = tuple(e.episode for e in arm.episodes if e.outcome != "success")
    share, counts = _share(bounds), f"{_number(Bounds(known, could)).text} of {estimate.n}"
    text = f"{share} {_interval_text(estimate, terms)}"
    return Measure(bounds, text, failed, "", estimate, f"{share} ({counts})")


def _success_share(arm: ArmFacts, _: Terms) -> Measure:
    """Of the judged episodes alone, and without an interval: it describes these."""
    judged = [outcome for outcome in outcomes_in(arm).values() if outcome is not None]
    if not judged:
        return Measure(None, "no data: no episode could be judged")
    text = f"{percent(sum(judged) / len(judged))} ({sum(judged)} of {len(judged)} judged)"
    return Measure(exactly(Fraction(sum(judged), len(judged))), text, _failed(arm))


def _over_tries(arm: ArmFacts, terms: Terms, name: str) -> Measure:
    """Of the repeats of each prompt."""
    estimate = OverTries(name, outcomes_in(arm), terms.population, max(arm.missing, 0))
    if estimate.ends is None:
        return Measure(None, f"no data: no prompt was tried {tries_needed(name)} times")
    share, prompts = _share(estimate.ends), f"{estimate.prompts} prompt{'s' if estimate.prompts != 1 else ''}"
    text = f"{share} {_interval_text(estimate, terms)}"
    figure = f"{share} ({prompts}, {estimate.n} tries)"
    failed = tuple(e.episode for e in arm.episodes if e.outcome != "success")
    return Measure(estimate.ends, text, failed, "", estimate, figure)


def _seconds(arm: ArmFacts, terms: Terms, percent: int) -> Measure:
    """An episode that shows nothing counts as one attempt."""
    by_episode = {episode.episode: episode.seconds for episode in arm.valid.episodes}
    seconds = [took for of_episode in by_episode.values() for took in of_episode]
    if not seconds:
        return Measure(None, "no data")
    unknown = max(arm.valid.missing, 0)
    low, high = (percentile([*seconds, *([limit] * unknown)], percent) or 0.0 for limit in (0.0, math.inf))
    top = "" if low == high else " or more" if high == math.inf else f" to {high:.3g} s"
    estimate = Percentile(by_episode, percent, unknown, terms.population)
    return Measure(Bounds(low, high), f"{low:.3g} s{top}", estimate=estimate)


def _per_episode(arm: ArmFacts, terms: Terms, totals: Mapping[str, float] | None) -> Measure:
    """``totals`` are of the valid episodes."""
    episodes = len(arm.valid.episodes) + max(arm.valid.missing, 0)
    if totals is None or not arm.valid.episodes:
        return Measure(None, "no data")
    sums = {key: (total, 1.0) for key, total in totals.items()}
    estimate = Mean(sums, terms.population, max(arm.valid.missing, 0))
    return replace(_number(_open_above(arm, math.fsum(totals.values()) / episodes)), estimate=estimate)


def _open_above(arm: ArmFacts, known: float) -> Bounds:
    """Bounds of a sum over the valid episodes: any other episode may add to it."""
    return Bounds(known, math.inf if arm.valid.missing > 0 else known)


def _model_requests(arm: ArmFacts, terms: Terms) -> Measure:
    return _per_episode(arm, terms, {e.episode: e.model_requests for e in arm.valid.episodes})


def _tokens(arm: ArmFacts, terms: Terms) -> Measure:
    usage = arm.valid.usage
    known = usage.with_usage and usage.with_usage == usage.replies
    tokens = {episode.episode: float(episode.usage.tokens) for episode in arm.valid.episodes}
    return _per_episode(arm, terms, tokens if known else None)


def _cost(arm: ArmFacts, terms: Terms) -> Measure:
    usage = arm.valid.usage
    known = usage.with_usage == usage.replies and not usage.unpriced and usage.cost is not None
    costs = {episode.episode: episode.usage.cost or 0.0 for episode in arm.valid.episodes}
    return _per_episode(arm, terms, costs if known else None)


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
    by = ", ".join(f"the {layer} {count}" for layer, count in failed.repeated_by.items())
    calls = f"{failed.calls} failed call{'s' if failed.calls != 1 else ''}"
    why = f"{failed.requests} requests for {calls}{f'; repeated by {by}' if by else ', none sent again'}"
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


def _delivered(arm: ArmFacts, _: Terms) -> Measure:
    """Over valid episodes only: an invalid one shows nothing about the subject."""
    sure = sum(episode.delivered for episode in arm.valid.episodes)
    unknown = any(episode.delivery_unknown for episode in arm.valid.episodes)
    return _number(Bounds(sure, math.inf if unknown else sure))


def _budgets_spent(arm: ArmFacts, _: Terms) -> Measure:
    """More may have been spent than was refused if something could not be counted."""
    spent = sum(episode.budgets_spent for episode in arm.valid.episodes)
    unknown = any(episode.budgets_unknown for episode in arm.valid.episodes)
    showing = tuple(episode.episode for episode in arm.valid.episodes if episode.budgets_spent)
    return _number(Bounds(spent, math.inf) if unknown else _open_above(arm, spent), showing)


def _budget_strikes(arm: ArmFacts, _: Terms) -> Measure:
    return _number(_open_above(arm, sum(episode.budget_strikes for episode in arm.valid.episodes)))


def _findings(arm: ArmFacts, _: Terms) -> Measure:
    measures = sum(episode.findings for episode in arm.valid.episodes)
    showing = tuple(episode.episode for episode in arm.valid.episodes if episode.findings)
    return _number(_open_above(arm, measures), showing)


def _number(bounds: Bounds, episodes: tuple[str, ...] = ()) -> Measure:
    if bounds.low == bounds.high:
        return Measure(bounds, f"{float(bounds.low):.4g}", episodes)
    top = "or more" if bounds.high == math.inf else f"to {float(bounds.high):.4g}"
    return Measure(bounds, f"{float(bounds.low):.4g} {top}", episodes)


def _share(bounds: Bounds | None) -> str:
    if bounds is None:
        return "no data"
    low, high = percent(float(bounds.low)), percent(float(bounds.high))
    return low if low == high else f"{low} to {high}"


_OfArm = Callable[[ArmFacts, Terms], Measure]


def _of_outcome(name: Outcome) -> _OfArm:
    return lambda arm, terms: _count(arm, terms, name)


DEGRADATION = "degradation"
BUDGET_STRIKES = "budget_strikes"
SUCCESS_SHARE = "success_share"
_MEASURES: Mapping[str, tuple[str, _OfArm]] = {
    "success_rate": ("share of the planned episodes that are a success", _success_rate),
    SUCCESS_SHARE: (
        "share of the judged episodes that are a success; for `steady_state`",
        _success_share,
    ),
    CONSISTENCY: (
        "chance that two tries at a prompt both succeed or both do not",
        lambda arm, terms: _over_tries(arm, terms, CONSISTENCY),
    ),
    "p50": ("seconds that half of the attempts take at most", lambda arm, terms: _seconds(arm, terms, 50)),
    "p95": ("seconds that 95 % of the attempts take at most", lambda arm, terms: _seconds(arm, terms, 95)),
    "p99": ("seconds that 99 % of the attempts take at most", lambda arm, terms: _seconds(arm, terms, 99)),
    "model_requests": ("requests to the model, per episode", _model_requests),
    "tokens": ("tokens in and out, per episode", _tokens),
    "cost": ("USD per episode, where `prices` has all models", _cost),
    "mttr": ("mean seconds from a failure until the same request succeeded, as the caller saw it", _mttr),
    "recovery_rate": ("share of the failures after which the same request succeeded", _recovery_rate),
    "amplification": (
        "requests for a call that failed, by SDK, code, framework and model together; 1: no retries",
        _amplification,
    ),
    "faults_delivered": ("faults that reached their target", _delivered),
    "budgets_spent": ("budgets that a request exceeded, once per episode", _budgets_spent),
    BUDGET_STRIKES: ("requests that a budget refused or slowed, and episodes that it ended", _budget_strikes),
    "findings": ("findings of the rules", _findings),
    **{name: (f"episodes: {row.meaning}", _of_outcome(name)) for name, row in OUTCOMES.items()},
    "success": (f"episodes: {OUTCOMES['success'].meaning}", _successes),
    "duplicate": (f"episodes: {OUTCOMES['duplicate'].meaning}", _duplicates),
    "failures": ("episodes: all that are not a success", _failures),
    "all": (
        "episodes: all planned ones, as in `success == all`",
        lambda arm, _: _number(exactly(_planned(arm))),
    ),
}


def measure_rows() -> list[tuple[str, str]]:
    """Each measure with its meaning; those that need a control come last."""
    own = [(name, meaning) for name, (meaning, _) in _MEASURES.items()]
    own[2:2] = [
        ("pass^k", "chance that k tries at a prompt all succeed, such as `pass^3`; needs k repeats"),
        ("pass@k", "chance that at least one of k tries at a prompt succeeds, such as `pass@2`"),
    ]
    lost = "loss of the success rate against the control arm"
    return [*own, (DEGRADATION, lost), ("control_NAME", "the measure NAME of the control arm")]


# each measure of a claim, with its range
_RANGES: Mapping[str, tuple[float, float]] = {
    "success_rate": (0, 1),
    CONSISTENCY: (0, 1),
    "recovery_rate": (0, 1),
    DEGRADATION: (-1, 1),
    "amplification": (1, math.inf),
    **dict.fromkeys(("p50", "p95", "p99", "model_requests", "tokens", "cost", "mttr"), (0, math.inf)),
}


def is_estimated(name: str) -> bool:
    """Whether a statement about the measure is a claim, decided by an interval."""
    name = name.removeprefix("control_")
    return name in _RANGES or is_pass(name)


def is_pass(name: str) -> bool:
    """Whether the measure is a pass^k or pass@k."""
    return name != CONSISTENCY and tries_needed(name) > 0


def range_of(name: str) -> tuple[float, float]:
    """The values that a measure can have."""
    name = name.removeprefix("control_")
    return (0, 1) if is_pass(name) else _RANGES.get(name, (-math.inf, math.inf))


def known_names(*, with_control: bool) -> tuple[str, ...]:
    """The names that an expression may use, with or without those that need a control."""
    if not with_control:
        return tuple(_MEASURES)
    return (*_MEASURES, DEGRADATION, *(f"control_{name}" for name in _MEASURES))
