"""Retries multiplied by layers."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import asked, asked_model, observed
from tests.judging.oracle.histories import exchange, tried
from wirefault.judging.findings.retries import LAYERED_RETRIES


def recorded(*tries_of_calls, last=None):
    """Failed tries of the lab's agent, so many for each call of the model; the last ends with ``last``."""
    events, start = [], 103.0
    for call, count in enumerate(tries_of_calls, start=1):
        for number in range(1, count + 1):
            end = call == len(tries_of_calls) and number == count
            error = last if end else "http_500"
            status = 500 if error else 200
            known = {"call": call, "try_": number, "start": start}
            events += [
                tried("shop", error=error, status=status, **known),
                exchange("shop", status=500, **known),
            ]
            start += 0.1
    return events


def resent(*sdk_retries, status=500):
    return [asked_model(place, status=status, sdk_retry=retry) for place, retry in enumerate(sdk_retries)]


def test_the_product_is_told_from_the_subjects_own_count():
    assert observed(LAYERED_RETRIES, *recorded(3, 3, last="http_500")) == [
        "GET / was sent 6 times and failed each time: 2 by the model x 3 by the framework"
    ]


def test_what_is_uneven_is_said_to_be_at_most():
    assert observed(LAYERED_RETRIES, *recorded(3, 2)) == [
        "GET / was sent 5 times and failed until the last: up to 2 by the model x up to 3 by the framework"
    ]


def test_an_sdk_that_counts_its_retries_is_a_layer():
    assert observed(LAYERED_RETRIES, *resent(0, 1, 2, 0, 1, 2)) == [
        "POST /v1/chat/completions was sent 6 times and failed each time: 2 by the framework x 3 by the SDK"
    ]


def test_a_model_asked_in_between_is_a_layer():
    bad = {"status": 500, "method": "GET"}
    events = [asked(0, **bad), asked(1, **bad), asked_model(2), asked(3, **bad), asked(4, **bad)]
    assert "2 by the model x 2 by the framework" in observed(LAYERED_RETRIES, *events)[0]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(recorded(3), id="the framework alone"),
        pytest.param(recorded(1, 1, 1), id="the model alone"),
        pytest.param(recorded(3, 1), id="passed at the second asking"),
        pytest.param(resent(0, 1, 2), id="the SDK alone"),
        pytest.param(resent(0, 1, 0, 1, status=200), id="answered"),
        pytest.param([asked(place, status=500) for place in range(4)], id="layers unknown"),
    ],
)
def test_near_misses_are_passed_over(events):
    assert observed(LAYERED_RETRIES, *events) == []
