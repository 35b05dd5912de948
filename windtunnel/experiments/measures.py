"""The measures of an arm: what its run has shown, each with the bounds that it leaves open. Pure.

An episode that is invalid, unjudged or was not run might have had any outcome, so that a count has bounds: as
if none of them had counted, and as if all had. That of false successes also leaves ``failure`` open, whose
claim cannot be told. What a run has no data for is not measured, and no bound is made up for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from windtunnel.experiments.bounds import Bounds, exactly
from windtunnel.history.events import AttemptEnded, Event, Exchange
from windtunnel.judging.oracle.outcome import OUTCOMES, Outcome
from windtunnel.judging.summary import Summary
from windtunnel.stats.intervals import percentile, wilson

_OPEN: frozenset[Outcome] = frozenset({"invalid", "unjudged"})
# their claim is what `failure` does not know
_OF_CLAIMS: frozenset[Outcome] = frozenset({"false_success", "misled", "honest_failure"})
_SECOND_MS = 1000


@dataclass(frozen=True)
class Measure:
    """``bounds``: None for no data. ``shown``: in words; ``episodes``: the keys of those that show it."""

    bounds: Bounds | None
    shown: str
    episodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Arm:
    summary: Summary
    events: Sequence[Event]

    def episodes(self, *outcomes: str) -> tuple[str, ...]:
        return tuple(e.episode for e in self.summary.episodes if e.outcome in outcomes)


def measures_of(summary: Summary, events: Sequence[Event]) -> dict[str, Measure]:
    """All measures of a run, by name."""
    arm = _Arm(summary, events)
    return {name: measure(arm) for name, (_, measure) in _MEASURES.items()}


def against_control(measured: Mapping[str, Measure], control: Mapping[str, Measure]) -> dict[str, Measure]:
    """The measures of an arm, those of its control as ``control_NAME``, and what it lost against it."""
    found = {**measured, **{f"control_{name}": measure for name, measure in control.items()}}
    ours, theirs = measured["success_rate"].bounds, control["success_rate"].bounds
    lost = theirs - ours if ours and theirs else None
    return found | {DEGRADATION: Measure(lost, _share(lost), measured["success_rate"].episodes)}


def _count(arm: _Arm, outcome: Outcome) -> Measure:
    shows = arm.episodes(outcome)
    undecided = _OPEN | ({"failure"} if outcome in _OF_CLAIMS else set())
    flown, planned = len(arm.summary.episodes), arm.summary.success.planned
    could = sum(e.outcome in undecided - {outcome} for e in arm.summary.episodes) + max(planned - flown, 0)
    bounds = Bounds(len(shows), len(shows) + could)
    known = wilson(len(shows), flown) if not could else None
    interval = f" [{percent_of(known[0])}, {percent_of(known[1])}]" if known else ""
    return Measure(bounds, f"{_number(bounds).shown} of {max(flown, planned)}{interval}", shows)


def _success_rate(arm: _Arm) -> Measure:
    success = arm.summary.success
    if success.worst is None or success.best is None:
        return Measure(None, "no data")
    bounds = Bounds(success.worst, success.best)
    failed = tuple(e.episode for e in arm.summary.episodes if e.outcome != "success")
    interval = "" if success.low is None else f" [{percent_of(success.low)}, {percent_of(success.high or 0)}]"
    return Measure(bounds, f"{_share(bounds)}{interval}", failed)


def _limit_of_interval(arm: _Arm, limit: float | None) -> Measure:
    bounds = None if limit is None else exactly(limit)
    return Measure(bounds, _share(bounds))


def _seconds(arm: _Arm, percent: int) -> Measure:
    seconds = [event.ms / _SECOND_MS for event in arm.events if isinstance(event, AttemptEnded)]
    value = percentile(seconds, percent)
    return Measure(None, "no data") if value is None else Measure(exactly(value), f"{value:.3g} s")


def _per_episode(arm: _Arm, total: float | None) -> Measure:
    flown = len(arm.summary.episodes)
    return Measure(None, "no data") if total is None or not flown else _number(exactly(total / flown))


def _model_requests(arm: _Arm) -> Measure:
    return _per_episode(arm, sum(isinstance(e, Exchange) and e.of_model for e in arm.events))


def _tokens(arm: _Arm) -> Measure:
    usage = arm.summary.model_usage
    known = usage.told and usage.told == usage.replies
    return _per_episode(arm, (usage.tokens_in or 0) + (usage.tokens_out or 0) if known else None)


def _cost(arm: _Arm) -> Measure:
    usage = arm.summary.model_usage
    known = usage.told == usage.replies and not usage.unpriced
    return _per_episode(arm, usage.cost_usd if known else None)


def _delivered(arm: _Arm) -> Measure:
    rows = arm.summary.faults
    sure = sum(row.delivered or 0 for row in rows)
    unknown = any(row.delivered is None and row.drawn for row in rows)
    return _number(Bounds(sure, math.inf if unknown else sure))


def _findings(arm: _Arm) -> Measure:
    episodes = dict.fromkeys(finding.episode for finding in arm.summary.findings)
    return _number(exactly(len(arm.summary.findings)), tuple(episodes))


def _number(bounds: Bounds, episodes: tuple[str, ...] = ()) -> Measure:
    if bounds.low == bounds.high:
        return Measure(bounds, f"{bounds.low:.4g}", episodes)
    top = "or more" if bounds.high == math.inf else f"to {bounds.high:.4g}"
    return Measure(bounds, f"{bounds.low:.4g} {top}", episodes)


def _share(bounds: Bounds | None) -> str:
    if bounds is None:
        return "no data"
    low, high = percent_of(bounds.low), percent_of(bounds.high)
    return low if low == high else f"{low} to {high}"


def percent_of(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.3g} %"


def _of_outcome(name: Outcome) -> Callable[[_Arm], Measure]:
    return lambda arm: _count(arm, name)


DEGRADATION = "degradation"
_MEASURES: Mapping[str, tuple[str, Callable[[_Arm], Measure]]] = {
    "success_rate": ("share of the planned episodes that are a success", _success_rate),
    "success_rate_low": (
        "lower end of its 95 % interval, which speaks of other episodes like these",
        lambda arm: _limit_of_interval(arm, arm.summary.success.low),
    ),
    "success_rate_high": (
        "upper end of that interval",
        lambda arm: _limit_of_interval(arm, arm.summary.success.high),
    ),
    "p50": ("seconds of an attempt, half take at most that", lambda arm: _seconds(arm, 50)),
    "p95": ("seconds that 95 % of the attempts take at most", lambda arm: _seconds(arm, 95)),
    "p99": ("seconds that 99 % of the attempts take at most", lambda arm: _seconds(arm, 99)),
    "model_requests": ("requests to the model, per episode", _model_requests),
    "tokens": ("tokens in and out, per episode", _tokens),
    "cost": ("USD per episode, where `prices` has all models", _cost),
    "faults_delivered": ("faults that reached what they were aimed at", _delivered),
    "findings": ("findings of the rules", _findings),
    **{name: (f"episodes: {row.meaning}", _of_outcome(name)) for name, row in OUTCOMES.items()},
}


def measure_rows() -> list[tuple[str, str]]:
    """Each measure with its meaning, those last that need a control."""
    own = [(name, meaning) for name, (meaning, _) in _MEASURES.items()]
    lost = "what the success rate has lost against that of the control arm"
    return [*own, (DEGRADATION, lost), ("control_NAME", "the measure NAME of the control arm")]


def known_names(*, with_control: bool) -> tuple[str, ...]:
    """The names that an expression may use, with or without those that need a control."""
    if not with_control:
        return tuple(_MEASURES)
    return (*_MEASURES, DEGRADATION, *(f"control_{name}" for name in _MEASURES))
