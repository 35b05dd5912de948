"""A hang that was waited for until the lab ended it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judging.findings.traced import asked, observed
from tests.judging.oracle.histories import ended, tried
from wirefault.judging.findings.streams import NO_TIME_LIMIT

LIMIT = replace(ended(ended_by="limit", ms=30_000), start=100.0, end=130.0)


def hung(at=1.0, until=130.0, **more):
    known = {"complete": (True, False), "status": None, "reply_bytes": 0, "client_left": True}
    return asked(at, method="GET", seconds=until - 100 - at, **known | more)


def test_a_wait_until_the_end_is_told_with_its_length():
    assert observed(NO_TIME_LIMIT, hung(), LIMIT) == [
        "GET /orders had no answer for 29.0 s, until the attempt's 30 s were over:"
        " its client has no shorter time limit"
    ]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([hung(until=110.0), LIMIT], id="client left before"),
        pytest.param([hung(at=26.0), LIMIT], id="began late"),
        pytest.param([hung(), ended(ms=30_000)], id="ended by itself"),
        pytest.param([hung(), replace(LIMIT, ms=12_000.0)], id="limit of calls"),
        pytest.param([hung(reply_bytes=80), LIMIT], id="a part had come"),
        pytest.param(
            [hung(), tried("shop", error="read_timeout", ms=29_000, start=101.0), LIMIT],
            id="the caller's own limit",
        ),
    ],
)
def test_near_misses_are_passed_over(events):
    assert observed(NO_TIME_LIMIT, *events) == []
