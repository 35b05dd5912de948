"""MTTR and recovery rate: unrecovered outages count; without failures there is no figure."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.judging.oracle.histories import armed, ended, episode, exchange, healed, timeout, tried
from tests.judging.test_summary import run
from wirefault.experiments.arms import facts_of_one
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.facts_store import facts_of
from wirefault.experiments.figures import measures_of
from wirefault.experiments.measure import Measure
from wirefault.experiments.outages import outages_of
from wirefault.experiments.verdict import ArmResult, judge_experiment
from wirefault.history.events import Exchange
from wirefault.judging.trace import traces


def request(at: float, status: int = 200, **more: Any) -> Exchange:
    """A request whose reply takes no time."""
    made: Exchange = exchange(status=status, ms=0.0, start=at, **more)
    return made


BACK = episode(request(103, 503), request(104, 503, try_=2), request(105, try_=3), expect={})
LOST = episode(request(103, 503), ended(), expect={})  # its attempt ends at 108
FINE = episode(request(103), expect={})
HIDDEN = episode(armed(timeout(stream="upstream")), request(103), expect={})  # was that reply lost?
INVALID = episode(request(103), healed(invalid="disturbed"), expect={})


def measured(*episodes: Any, prompts: int | None = None) -> dict[str, Measure]:
    events = run(*episodes, prompts=prompts)
    return measures_of(facts_of_one(facts_of("a", events)))


@pytest.mark.parametrize(
    ("episodes", "mttr", "rate"),
    [
        ([BACK], exactly(2), exactly(1)),
        ([BACK, FINE], exactly(2), exactly(1)),
        ([BACK, LOST], Bounds(3.5, math.inf), exactly(0.5)),
        ([LOST], Bounds(5, math.inf), exactly(0)),
        ([FINE], None, None),
        ([BACK, INVALID], Bounds(0, math.inf), Bounds(0, 1)),
        ([BACK, HIDDEN], Bounds(0, math.inf), Bounds(0, 1)),
    ],
)
def test_unrecovered_outage_is_censored(
    episodes: list[Any], mttr: Bounds | None, rate: Bounds | None
) -> None:
    measures = measured(*episodes)
    assert (measures["mttr"].bounds, measures["recovery_rate"].bounds) == (mttr, rate)


def test_no_failure_is_unknown() -> None:
    assert measured(FINE)["mttr"].text == "no data: nothing failed"
    control, after = (ArmResult(name, ("r",), (), measured(FINE)) for name in ("control", "control-after"))
    for events, verdict in [(BACK, "held"), (LOST, "deviated"), (FINE, "unknown")]:
        measures = measured(*[events] * 20) | {"faults_delivered": Measure(exactly(1))}
        arm = ArmResult("method", ("r",), ("mttr <= 2s",), measures)
        assert judge_experiment([control, arm, after]).verdict == verdict


def outages(*events: Any) -> list[tuple[str, float]]:
    [trace] = traces(run([*events, ended()]))
    return [(outage.end, outage.seconds) for outage in outages_of(trace, 108.0)]


def test_each_failure_after_success_starts_outage() -> None:
    again = [
        request(103, 503),
        request(104, try_=2),
        request(105, 500, try_=3),
        request(107, try_=4),
    ]
    assert outages(*again) == [("recovered", 1.0), ("recovered", 2.0)]


def test_only_same_request_ends_outage_in_any_attempt() -> None:
    other = request(104, fingerprint="f2")
    assert outages(request(103, 503), other) == [("not_recovered", 5.0)]
    assert outages(request(103, 503), other, request(106, attempt=2)) == [("recovered", 3.0)]


def test_model_request_without_body_has_unknown_repeat() -> None:
    model = {"link": "model", "dialect": "openai_chat", "identity": "counted"}
    assert outages(request(103, 503, **model), request(105, **model)) == [("unknown", 2.0)]
    assert outages(request(103, 503, **model)) == [("not_recovered", 5.0)]


def test_try_without_gateway_record_counts_from_caller() -> None:
    refused = tried(error="connection_refused", ms=0, start=103.0)
    well = tried(try_=2, ms=0, start=106.0)
    assert outages(refused, well, request(106, try_=2)) == [("recovered", 3.0)]
