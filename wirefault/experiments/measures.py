"""The measures of an arm, each with the bounds that its data leave. Pure.

An episode that is invalid or was not run could have had any outcome: a count is bounded by none and by all of
them. An unjudged one could have had any outcome that needs an oracle, but it did not crash, was no runaway,
and is no duplicate if its writes show that. The count of false successes also leaves ``failure`` open, whose
claim is unknown. Sums (seconds, tokens) have no upper bound if an episode is invalid or was not run. Without
data a measure has no bounds at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from wirefault.experiments.amplification import FailedCalls
from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.outages import Interruption, mean_time_to_recovery, share_recovered
from wirefault.judging.oracle.outcome import OUTCOMES, Outcome
from wirefault.stats.rates import percent, percentile, wilson

_OPEN: frozenset[Outcome] = frozenset({"invalid", "unjudged"})
_WITHOUT_ORACLE: frozenset[Outcome] = frozenset({"crash", "runaway"})
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


def measures_of(arm: ArmFacts) -> dict[str, Measure]:
    """All measures of an arm, by name."""
    return {name: measure(arm) for name, (_, measure) in _MEASURES.items()}


def against_control(measured: Mapping[str, Measure], control: Mapping[str, Measure]) -> dict[str, Measure]:
    """The measures of an arm, those of its control as ``control_NAME``, and the degradation."""
    measures = {**measured, **{f"control_{name}": measure for name, measure in control.items()}}
    ours, theirs = measured["success_rate"].bounds, control["success_rate"].bounds
    lost = theirs - ours if ours and theirs else None
    return measures | {DEGRADATION: Measure(lost, _share(lost), measured["success_rate"].episodes)}


def _count(arm: ArmFacts, outcome: Outcome) -> Measure:
    shows = arm.keys(outcome)
    undecided = _OPEN | ({"failure"} if outcome in _OF_CLAIMS else set())
    completed, planned = len(arm.episodes), arm.success.planned
    could = sum(e.outcome in undecided - {outcome} and not _excludes(e, outcome) for e in arm.episodes)
    could += max(planned - completed, 0)
    bounds = Bounds(len(shows), len(shows) + could)
    known = wilson(len(shows), completed) if not could else None
    interval = f" [{percent(known[0])}, {percent(known[1])}]" if known else ""
    return Measure(bounds, f"{_number(bounds).text} of {max(completed, planned)}{interval}", shows)


def _excludes(episode: EpisodeFacts, outcome: Outcome) -> bool:
    """Whether an unjudged episode is known not to have that outcome, which comes before ``unjudged``."""
    if episode.outcome != "unjudged":
        return False
    if outcome in _WITHOUT_ORACLE:
        return True
    repeated = any(w.executed + w.maybe > 1 and w.same not in episode.usual for w in episode.writes)
    proven = episode.world != "unknown" and not (
        episode.perhaps_repeated or episode.unseen_writes or repeated
    )
    return outcome == "duplicate" and proven


def _successes(arm: ArmFacts) -> Measure:
    """The episodes that failed show why the count is too low."""
    return replace(_count(arm, "success"), episodes=_failed(arm))


def _failures(arm: ArmFacts) -> Measure:
    """All that is not a success; open episodes could be either."""
    failed, planned = _failed(arm), _planned(arm)
    could = planned - len(arm.episodes) + sum(e.outcome in _OPEN for e in arm.episodes)
    bounds = Bounds(len(failed), len(failed) + could)
    return Measure(bounds, f"{_number(bounds).text} of {planned}", failed)


def _failed(arm: ArmFacts) -> tuple[str, ...]:
    return tuple(e.episode for e in arm.episodes if e.outcome not in _OPEN | {"success"})


def _planned(arm: ArmFacts) -> int:
    return max(len(arm.episodes), arm.success.planned)


def _duplicates(arm: ArmFacts) -> Measure:
    """Episodes whose writes may have been repeated leave it open."""
    measure = _count(arm, "duplicate")
    assert measure.bounds is not None
    perhaps = [e for e in arm.episodes if e.perhaps_repeated and e.outcome not in _OPEN | {"duplicate"}]
    texts = dict.fromkeys(e.repeated or e.perhaps_repeated for e in arm.episodes)
    why = "; ".join(filter(None, texts))
    if not perhaps:
        return replace(measure, why=why)
    bounds = measure.bounds + Bounds(0, len(perhaps))
    text = f"{_number(bounds).text} of {max(len(arm.episodes), arm.success.planned)}"
    return Measure(bounds, text, measure.episodes, why)


def _success_rate(arm: ArmFacts) -> Measure:
    success = arm.success
    if success.worst is None or success.best is None:
        return Measure(None, "no data")
    bounds = Bounds(success.worst, success.best)
    failed = tuple(e.episode for e in arm.episodes if e.outcome != "success")
    interval = "" if success.low is None else f" [{percent(success.low)}, {percent(success.high or 0)}]"
    return Measure(bounds, f"{_share(bounds)}{interval}", failed)


def _interval_limit(arm: ArmFacts, limit: float | None) -> Measure:
    bounds = None if limit is None else exactly(limit)
    return Measure(bounds, _share(bounds))


def _seconds(arm: ArmFacts, percent: int) -> Measure:
    """An episode that shows nothing counts as one attempt."""
    seconds = [took for episode in arm.valid.episodes for took in episode.seconds]
    if not seconds:
        return Measure(None, "no data")
    unknown = arm.valid.missing
    low, high = (percentile([*seconds, *([limit] * unknown)], percent) or 0.0 for limit in (0.0, math.inf))
    top = "" if low == high else " or more" if high == math.inf else f" to {high:.3g} s"
    return Measure(Bounds(low, high), f"{low:.3g} s{top}")


def _per_episode(arm: ArmFacts, total: float | None) -> Measure:
    """``total`` is over the valid episodes."""
    episodes = len(arm.valid.episodes) + max(arm.valid.missing, 0)
    if total is None or not arm.valid.episodes:
        return Measure(None, "no data")
    return _number(_open_above(arm, total / episodes))


def _open_above(arm: ArmFacts, known: float) -> Bounds:
    """Bounds of a sum over the valid episodes: any other episode may add to it."""
    return Bounds(known, math.inf if arm.valid.missing > 0 else known)


def _model_requests(arm: ArmFacts) -> Measure:
    return _per_episode(arm, sum(episode.model_requests for episode in arm.valid.episodes))


def _tokens(arm: ArmFacts) -> Measure:
    usage = arm.valid.usage
    known = usage.with_usage and usage.with_usage == usage.replies
    return _per_episode(arm, usage.tokens if known else None)


def _cost(arm: ArmFacts) -> Measure:
    usage = arm.valid.usage
    known = usage.with_usage == usage.replies and not usage.unpriced
    return _per_episode(arm, usage.cost if known else None)


def _mttr(arm: ArmFacts) -> Measure:
    return _of_outages(arm, mean_time_to_recovery, Bounds(0, math.inf), lambda seconds: f"{seconds:.3g} s")


def _recovery_rate(arm: ArmFacts) -> Measure:
    return _of_outages(arm, share_recovered, Bounds(0, 1), percent)


def _amplification(arm: ArmFacts) -> Measure:
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
    return Measure(exactly(factor), f"{factor:.3g} ({why})", showing)


def _of_outages(
    arm: ArmFacts,
    figure: Callable[[Sequence[Interruption]], Bounds],
    anything: Bounds,
    text: Callable[[float], str],
) -> Measure:
    """No data without failures; ``anything`` if an episode may hide more of them."""
    outages = [outage for of_episode in arm.outages.values() for outage in of_episode.outages]
    if not outages:
        return Measure(None, "no data: nothing failed")
    bounds = figure(outages)
    ends = f"{sum(outage.end == 'recovered' for outage in outages)} of {len(outages)} recovered"
    if not arm.shows_all_outages:
        return Measure(anything, f"open: not every episode shows what failed in it ({ends} in the others)")
    low, high = text(bounds.low), "unknown" if bounds.high == math.inf else text(bounds.high)
    lost = [
        key
        for key, of_episode in arm.outages.items()
        if any(outage.end != "recovered" for outage in of_episode.outages)
    ]
    return Measure(bounds, f"{low if low == high else f'{low} to {high}'} ({ends})", tuple(lost))


def _delivered(arm: ArmFacts) -> Measure:
    """Over valid episodes only: an invalid one shows nothing about the subject."""
    sure = sum(episode.delivered for episode in arm.valid.episodes)
    unknown = any(episode.delivery_unknown for episode in arm.valid.episodes)
    return _number(Bounds(sure, math.inf if unknown else sure))


def _budgets_spent(arm: ArmFacts) -> Measure:
    """More may have been spent than was refused if something could not be counted."""
    spent = sum(episode.budgets_spent for episode in arm.valid.episodes)
    unknown = any(episode.budgets_unknown for episode in arm.valid.episodes)
    showing = tuple(episode.episode for episode in arm.valid.episodes if episode.budgets_spent)
    return _number(Bounds(spent, math.inf) if unknown else _open_above(arm, spent), showing)


def _budget_strikes(arm: ArmFacts) -> Measure:
    return _number(_open_above(arm, sum(episode.budget_strikes for episode in arm.valid.episodes)))


def _findings(arm: ArmFacts) -> Measure:
    measures = sum(episode.findings for episode in arm.valid.episodes)
    showing = tuple(episode.episode for episode in arm.valid.episodes if episode.findings)
    return _number(_open_above(arm, measures), showing)


def _number(bounds: Bounds, episodes: tuple[str, ...] = ()) -> Measure:
    if bounds.low == bounds.high:
        return Measure(bounds, f"{bounds.low:.4g}", episodes)
    top = "or more" if bounds.high == math.inf else f"to {bounds.high:.4g}"
    return Measure(bounds, f"{bounds.low:.4g} {top}", episodes)


def _share(bounds: Bounds | None) -> str:
    if bounds is None:
        return "no data"
    low, high = percent(bounds.low), percent(bounds.high)
    return low if low == high else f"{low} to {high}"


def _of_outcome(name: Outcome) -> Callable[[ArmFacts], Measure]:
    return lambda arm: _count(arm, name)


DEGRADATION = "degradation"
BUDGET_STRIKES = "budget_strikes"
_MEASURES: Mapping[str, tuple[str, Callable[[ArmFacts], Measure]]] = {
    "success_rate": ("share of the planned episodes that are a success", _success_rate),
    "success_rate_low": (
        "lower end of its 95 % interval, for other episodes like these",
        lambda arm: _interval_limit(arm, arm.success.low),
    ),
    "success_rate_high": (
        "upper end of that interval",
        lambda arm: _interval_limit(arm, arm.success.high),
    ),
    "p50": ("seconds that half of the attempts take at most", lambda arm: _seconds(arm, 50)),
    "p95": ("seconds that 95 % of the attempts take at most", lambda arm: _seconds(arm, 95)),
    "p99": ("seconds that 99 % of the attempts take at most", lambda arm: _seconds(arm, 99)),
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
        lambda arm: _number(exactly(_planned(arm))),
    ),
}


def measure_rows() -> list[tuple[str, str]]:
    """Each measure with its meaning; those that need a control come last."""
    own = [(name, meaning) for name, (meaning, _) in _MEASURES.items()]
    lost = "loss of the success rate against the control arm"
    return [*own, (DEGRADATION, lost), ("control_NAME", "the measure NAME of the control arm")]


def known_names(*, with_control: bool) -> tuple[str, ...]:
    """The names that an expression may use, with or without those that need a control."""
    if not with_control:
        return tuple(_MEASURES)
    return (*_MEASURES, DEGRADATION, *(f"control_{name}" for name in _MEASURES))
