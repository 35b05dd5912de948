"""Requests for each call that failed, and the layers that repeated it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.experiments.test_outages import BACK, FINE, HIDDEN, INVALID, LOST, measured
from tests.judging.findings.traced import model_request, request
from tests.judging.oracle.histories import ended, run_finished, run_started, started
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.logical_calls import FailedCalls, calls_in
from wirefault.judging.trace import traces


def counted(*events: Any, whole: bool = True) -> FailedCalls:
    """The failed calls of an opaque subject with these requests."""
    begin = run_started()
    [trace] = traces([begin, started(), *events, ended(), run_finished()])
    return calls_in(trace, {}, whole=whole)[1]


def get(at: float, status: int = 200, **more: Any) -> Any:
    return request(at, method="GET", status=status, **more)


@pytest.mark.parametrize(
    ("events", "calls", "requests", "repeated_by"),
    [
        ([get(0), get(1)], 0, 0, {}),  # two calls that worked
        ([get(0, 503)], 1, 1, {}),
        ([get(0, 503), get(1, 503), get(2)], 1, 3, {"code": 2}),
        ([get(0), get(1, 503), get(2), get(3)], 1, 2, {"code": 1}),
        ([get(0, 503), get(1), get(2, 503), get(3)], 2, 4, {"code": 2}),
        ([get(0, 503), get(1, sdk_retry=1), get(2, fingerprint="other")], 1, 2, {"SDK": 1}),
        ([get(0, 503), model_request(1), get(2)], 1, 2, {"model": 1}),
        ([get(0, 503, seconds=5.0), get(1, 503, seconds=5.0)], 2, 2, {}),  # two calls at once
        (
            [model_request(at, status=429, sdk_retry=retry) for at, retry in enumerate([0, 1, 0, 1])],
            1,
            4,
            {"step": 1, "SDK": 2},
        ),
        ([get(0, 200, complete=(True, False)), get(1)], 1, 2, {"code": 1}),
    ],
)
def test_requests_for_a_failed_call(
    events: list[Any], calls: int, requests: int, repeated_by: dict[str, int]
) -> None:
    assert counted(*events) == FailedCalls(calls, requests, repeated_by)


def test_repetitions_without_bodies_are_unknown() -> None:
    failed = model_request(0, None, status=500)
    assert not counted(failed, model_request(1, None)).whole
    assert counted(failed).whole


@pytest.mark.parametrize(
    ("episodes", "bounds"),
    [
        ([BACK], exactly(3)),
        ([BACK, LOST], exactly(2)),
        ([LOST, FINE], exactly(1)),
        ([FINE], None),
        ([BACK, INVALID], Bounds(1, math.inf)),
        ([BACK, HIDDEN], Bounds(1, math.inf)),
    ],
)
def test_measure_of_an_arm(episodes: list[Any], bounds: Bounds | None) -> None:
    assert measured(*episodes)["amplification"].bounds == bounds


def test_measure_names_repeating_layer() -> None:
    text = measured(BACK, LOST)["amplification"].text
    assert text == "2 (4 requests for 2 failed calls; sent again: 2 by the client)"
