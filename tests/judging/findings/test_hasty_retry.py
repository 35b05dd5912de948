"""Retry-After not respected."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import asked, asked_model, observed
from wirefault.judging.findings.retries import HASTY_RETRY

BUSY = asked(status=429, retry_after=2.0)


def test_who_comes_back_too_early_is_told_with_both_times():
    assert observed(HASTY_RETRY, BUSY, asked(0.5)) == [
        "POST /orders was sent again 0.5 s after a 429 whose Retry-After asked for 2 s"
    ]


def test_it_holds_for_a_model_too():
    events = [asked_model(status=503, retry_after=1.0), asked_model(0.2)]
    assert len(observed(HASTY_RETRY, *events)) == 1


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([BUSY, asked(2.5)], id="waited"),
        pytest.param([BUSY, asked(1.85)], id="waited, within a tenth"),
        pytest.param([BUSY, asked(0.5, fingerprint="f2")], id="another request"),
        pytest.param([BUSY, asked(0.5, credential="b")], id="another credential"),
        pytest.param([asked(status=429), asked(0.5)], id="no Retry-After"),
        pytest.param([asked(status=429, retry_after=0.0), asked(0.5)], id="none asked for"),
        pytest.param([asked(status=429, retry_after=2.0, seconds=1), asked(0.5)], id="under way already"),
        pytest.param([asked(status=429, retry_after=2.0, complete=(True, False)), asked(0.5)], id="lost"),
        pytest.param([BUSY, asked(0.5, attempt=2)], id="another attempt"),
    ],
)
def test_near_misses_are_passed_over(events):
    assert observed(HASTY_RETRY, *events) == []
