"""A 4xx retried that no retry can pass."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import asked, asked_model, lost, observed
from tests.judging.oracle.histories import armed, met, timeout
from wirefault.judging.findings.retries import USELESS_RETRY

MADE = {"fault": met("auth_error", status=401, id="no-key"), "status": 401}
LONG = {"status": 400, "reply_body": '{"error": {"code": "context_length_exceeded"}}'}


def seen(*events):
    return observed(USELESS_RETRY, *events)


def test_a_refused_request_sent_again_is_told_with_how_often():
    assert seen(*(asked(at, status=422) for at in (0, 1, 2))) == [
        "POST /orders was sent again twice, unchanged, after a 422; none passed"
    ]


def test_a_refusal_that_the_lab_made_is_still_one_that_no_retry_passes():
    assert "because the lab had made the error" in seen(asked(**MADE), asked(1))[0]


def test_a_models_request_that_is_too_long_stays_so():
    assert seen(asked_model(**LONG), asked_model(1, **LONG)) == [
        "POST /v1/chat/completions was sent again once, unchanged, after a 400; none passed"
    ]


@pytest.mark.parametrize("status", [408, 409, 421, 423, 424, 425, 429, 500, 503])
def test_what_another_time_may_pass_may_be_tried_again(status):
    assert seen(asked(status=status), asked(1, status=status)) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([asked(status=422), asked(1, status=422, fingerprint="f2")], id="another request"),
        pytest.param([asked(status=422), asked(1, status=422, attempt=2)], id="another attempt"),
        pytest.param([asked(status=422), asked(1)], id="passed by itself"),
        pytest.param([asked(status=404, method="GET"), asked(1, status=404, method="GET")], id="polling"),
        pytest.param(
            [asked(status=401, credential="a"), asked(1, status=401, credential="b")], id="another key"
        ),
        pytest.param([asked(status=401, dialect=""), asked(1, status=401, dialect="")], id="keys unknown"),
        pytest.param(
            [asked(status=422), asked(1, fingerprint="f2", status=201), asked(2, status=422)],
            id="state changed in between",
        ),
        pytest.param([lost(status=422), asked(1, status=422)], id="refusal not seen"),
        pytest.param([armed(timeout("shop")), asked(status=422), asked(1, status=422)], id="refusal cut"),
        pytest.param([asked(status=422, seconds=2), asked(1, status=422)], id="under way already"),
        pytest.param([asked_model(status=400), asked_model(1, status=400)], id="the model's words"),
        pytest.param(
            [asked_model(**LONG), asked_model(1, '{"messages": [1]}', **LONG)], id="shorter conversation"
        ),
    ],
)
def test_near_misses_are_passed_over(events):
    assert seen(*events) == []
