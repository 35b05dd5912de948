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
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.estimates import Estimate, Outcomes, PairedLoss, Rate, Terms
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.failure_measures import FAILURE_MEASURES, NOT_REACHED
from wirefault.experiments.means import Mean, MeanDifference, Percentile
from wirefault.experiments.measure import (
    ADDED,
    PER_EPISODE,
    RECOVERY_PERCENTILES,
    SHARES_OF_RECOVERY,
    Measure,
    OfArm,
    in_units,
    number_measure,
    open_above,
    per_episode,
    share_text,
)
from wirefault.experiments.tries import CONSISTENCY, OverTries, tries_needed
from wirefault.history.judged_events import Claim, Outcome
from wirefault.judging.oracle.outcome import OUTCOMES
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


_TERMS = Terms()


def measures_of(arm: ArmFacts, terms: Terms = _TERMS, passes: Iterable[str] = ()) -> dict[str, Measure]:
    """All measures of an arm, by name; of pass^k and pass@k these."""
    measures = {name: measure(arm, terms) for name, (_, measure) in _MEASURES.items()}
    return measures | {name: _over_tries(arm, terms, name) for name in passes}


def against_control(
    measured: Mapping[str, Measure], control: Mapping[str, Measure], terms: Terms = _TERMS
) -> dict[str, Measure]:
    """The measures of an arm, those of its control as ``control_NAME``, and the paired differences.

    The differences are the degradation, and ``added_NAME`` of each measure per episode.
    """
    measures = {**measured, **{f"control_{name}": measure for name, measure in control.items()}}
    measures |= {f"{ADDED}{name}": _added(name, measured, control) for name in PER_EPISODE}
    measures[SLOWDOWN] = _slowdown(measured, control, terms)
    loss = loss_between(control, measured, terms)
    if loss is None or loss.bounds is None:
        return measures | {DEGRADATION: Measure(None, "no data")}
    share, episodes = share_text(loss.bounds), measured["success_rate"].episodes
    text = f"{share} {_interval_text(loss, terms)}"
    return measures | {DEGRADATION: Measure(loss.bounds, text, episodes, "", loss, share)}


def _added(name: str, measured: Mapping[str, Measure], control: Mapping[str, Measure]) -> Measure:
    before, after = (_mean(side, name) for side in (control, measured))
    if before is None or after is None:
        return Measure(None, "no data")
    estimate = MeanDifference(before, after)
    bounds = estimate.bounds
    if bounds is None:
        return Measure(None, "no data: no episode is in both arms")
    rise = math.fsum(estimate.differences.values()) / estimate.n if estimate.n else 0.0
    more = "" if estimate.value is not None else " (open: not every episode has a figure in both arms)"
    text = f"{'+' if rise > 0 else ''}{in_units(name, rise)}{more}"
    costly = tuple(key for key, difference in estimate.differences.items() if difference > 0)
    return Measure(bounds, text, costly, estimate=estimate)


def _mean(measures: Mapping[str, Measure], name: str) -> Mean | None:
    estimate = measures[name].estimate if name in measures else None
    return estimate if isinstance(estimate, Mean) else None


def _slowdown(measured: Mapping[str, Measure], control: Mapping[str, Measure], terms: Terms) -> Measure:
    """Over the episodes that a fault reached: their time by the time of the control's same episodes."""
    reached = measured["recovery_efficiency"].reached if "recovery_efficiency" in measured else ()
    before, after = (_mean(side, "seconds") for side in (control, measured))
    if before is None or after is None:
        return Measure(None, "no data")
    if not reached:
        return Measure(None, NOT_REACHED)
    pairs = {key: (after.sums[key][0], before.sums[key][0]) for key in reached if key in before.sums}
    pairs = {key: pair for key, pair in pairs.items() if pair[1] > 0}
    if not pairs:
        return Measure(None, "no data: no episode is in both arms")
    if before.missing or after.missing:
        return Measure(Bounds(0, math.inf), "open: not every episode has a time in both arms")
    estimate = Mean(pairs, terms.population)
    factor = math.fsum(after for after, _ in pairs.values()) / math.fsum(
        before for _, before in pairs.values()
    )
    slower = tuple(key for key, (after_s, before_s) in pairs.items() if after_s > before_s)
    return Measure(exactly(factor), f"{factor:.3g}", slower, estimate=estimate)


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
    return {e.episode: _succeeded(e.outcome) for e in arm.episodes}


def _succeeded(outcome: str) -> bool | None:
    return None if outcome in _OPEN else outcome == "success"


def success_text(outcomes: Mapping[str, str], terms: Terms) -> str:
    """The success rate of these episodes, as the result of an arm has it."""
    estimate = Rate({key: _succeeded(outcome) for key, outcome in outcomes.items()}, terms.population)
    return _rate_text(estimate, terms)


def _rate_text(estimate: Rate, terms: Terms) -> str:
    return (
        f"{share_text(_rate_bounds(estimate))} {_interval_text(estimate, terms)}" if estimate.n else "no data"
    )


def _rate_bounds(estimate: Rate) -> Bounds:
    known = estimate.successes
    return Bounds(Fraction(known, estimate.n), Fraction(known + estimate.open, estimate.n))


def _interval_text(estimate: Estimate, terms: Terms) -> str:
    interval = estimate.interval(terms.error)
    return f"[{percent(float(interval.low))}, {percent(float(interval.high))}]"


def _count(arm: ArmFacts, terms: Terms, outcome: Outcome) -> Measure:
    shows = arm.keys(outcome)
    undecided = _OPEN | ({"failure"} if outcome in _OF_CLAIMS else set())
    completed, planned = len(arm.episodes), arm.success.planned
    could = sum(e.outcome in undecided - {outcome} and not _excludes(e, outcome) for e in arm.episodes)
    could += max(planned - completed, 0)
    bounds = Bounds(len(shows), len(shows) + could)
    known = clopper_pearson(len(shows), completed, terms.confidence) if not could else None
    interval = f" [{percent(known[0])}, {percent(known[1])}]" if known else ""
    figure = f"{number_measure(bounds).text} of {max(completed, planned)}"
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
    return Measure(bounds, f"{number_measure(bounds).text} of {planned}", failed)


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
    text = f"{number_measure(bounds).text} of {max(len(arm.episodes), arm.success.planned)}"
    return Measure(bounds, text, measure.episodes, why)


def _success_rate(arm: ArmFacts, terms: Terms) -> Measure:
    estimate = Rate(outcomes_in(arm), terms.population, max(arm.missing, 0))
    if not estimate.n:
        return Measure(None, "no data")
    bounds = _rate_bounds(estimate)
    failed = tuple(e.episode for e in arm.episodes if e.outcome != "success")
    known = Bounds(estimate.successes, estimate.successes + estimate.open)
    figure = f"{share_text(bounds)} ({number_measure(known).text} of {estimate.n})"
    return Measure(bounds, _rate_text(estimate, terms), failed, "", estimate, figure)


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
    share, prompts = (
        share_text(estimate.ends),
        f"{estimate.prompts} prompt{'s' if estimate.prompts != 1 else ''}",
    )
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


def _model_requests(arm: ArmFacts, terms: Terms) -> Measure:
    return per_episode(arm, terms, {e.episode: e.model_requests for e in arm.valid.episodes})


def _tokens(arm: ArmFacts, terms: Terms) -> Measure:
    usage = arm.valid.usage
    known = usage.with_usage and usage.with_usage == usage.replies
    tokens = {episode.episode: float(episode.usage.tokens) for episode in arm.valid.episodes}
    return per_episode(arm, terms, tokens if known else None)


def _cost(arm: ArmFacts, terms: Terms) -> Measure:
    usage = arm.valid.usage
    known = usage.with_usage == usage.replies and not usage.unpriced and usage.cost is not None
    costs = {episode.episode: episode.usage.cost or 0.0 for episode in arm.valid.episodes}
    return per_episode(arm, terms, costs if known else None)


def _total_seconds(arm: ArmFacts, terms: Terms) -> Measure:
    measure = per_episode(arm, terms, {e.episode: math.fsum(e.seconds) for e in arm.valid.episodes})
    if measure.bounds is None:
        return measure
    more = " or more" if measure.bounds.high == math.inf else ""
    return replace(measure, text=f"{in_units('seconds', float(measure.bounds.low))}{more}")


def _delivered(arm: ArmFacts, _: Terms) -> Measure:
    """Over valid episodes only: an invalid one shows nothing about the subject. The text counts both."""
    sure = sum(episode.delivered for episode in arm.valid.episodes)
    unknown = any(episode.delivery_unknown for episode in arm.valid.episodes)
    measure = number_measure(Bounds(sure, math.inf if unknown else sure))
    left_out = sum(episode.delivered for episode in arm.episodes if episode.outcome == "invalid")
    return (
        replace(measure, text=f"{measure.text} and {left_out} in invalid episodes") if left_out else measure
    )


def _budgets_spent(arm: ArmFacts, _: Terms) -> Measure:
    """More may have been spent than was refused if something could not be counted."""
    spent = sum(episode.budgets_spent for episode in arm.valid.episodes)
    unknown = any(episode.budgets_unknown for episode in arm.valid.episodes)
    showing = tuple(episode.episode for episode in arm.valid.episodes if episode.budgets_spent)
    return number_measure(Bounds(spent, math.inf) if unknown else open_above(arm, spent), showing)


def _budget_strikes(arm: ArmFacts, _: Terms) -> Measure:
    return number_measure(open_above(arm, sum(episode.budget_strikes for episode in arm.valid.episodes)))


def _findings(arm: ArmFacts, _: Terms) -> Measure:
    measures = sum(episode.all_findings for episode in arm.valid.episodes)
    showing = tuple(episode.episode for episode in arm.valid.episodes if episode.all_findings)
    return number_measure(open_above(arm, measures), showing)


def _of_outcome(name: Outcome) -> OfArm:
    return lambda arm, terms: _count(arm, terms, name)


DEGRADATION = "degradation"
SLOWDOWN = "recovery_slowdown"
BUDGET_STRIKES = "budget_strikes"
SUCCESS_SHARE = "success_share"
_MEASURES: Mapping[str, tuple[str, OfArm]] = {
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
    "seconds": ("seconds of all attempts, per episode", _total_seconds),
    **FAILURE_MEASURES,
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
        lambda arm, _: number_measure(exactly(_planned(arm))),
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
    slower = "seconds of the reached episodes, by those of the same episodes in the control"
    names = ", ".join(f"`{name}`" for name in PER_EPISODE)
    added = f"mean rise against the same episode of the control; NAME is one of {names}"
    return [
        *own,
        (DEGRADATION, lost),
        (SLOWDOWN, slower),
        (f"{ADDED}NAME", added),
        ("control_NAME", "the measure NAME of the control arm"),
    ]


# each measure of a claim, with its range
_RANGES: Mapping[str, tuple[float, float]] = {
    "success_rate": (0, 1),
    CONSISTENCY: (0, 1),
    "recovery_rate": (0, 1),
    DEGRADATION: (-1, 1),
    "amplification": (1, math.inf),
    "availability": (0, 1),
    **dict.fromkeys(SHARES_OF_RECOVERY, (0, 1)),
    SLOWDOWN: (0, math.inf),
    **dict.fromkeys(("p50", "p95", "p99", "mttr", *PER_EPISODE), (0, math.inf)),
    **{f"mttr_p{percent}": (0, math.inf) for percent in RECOVERY_PERCENTILES},
    **{f"{ADDED}{name}": (-math.inf, math.inf) for name in PER_EPISODE},
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
    added = (f"{ADDED}{name}" for name in PER_EPISODE)
    return (*_MEASURES, DEGRADATION, SLOWDOWN, *added, *(f"control_{name}" for name in _MEASURES))
