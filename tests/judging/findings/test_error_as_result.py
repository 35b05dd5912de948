"""An error taken for a result."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import asked, lost, observed
from tests.judging.oracle.histories import ended, exchange, met, tried
from wirefault.judging.findings.writes import ERROR_AS_RESULT

REFUSED = asked(status=422)
ERROR = '{"error": {"code": "sold_out", "message": "nothing left"}}'
DONE = ended()


def seen(*events):
    return observed(ERROR_AS_RESULT, *events)


def test_who_says_done_of_a_refused_write_is_told_with_the_errors():
    assert seen(REFUSED, asked(1, status=503, forwarded=False), DONE) == [
        "the answer says done, but POST /orders was sent twice and never executed: 422, 503"
    ]


def test_of_a_refusal_that_was_lost_the_subject_knows_no_success():
    assert "422, its reply was lost" in seen(REFUSED, lost(1, status=422), DONE)[0]


def test_a_200_that_holds_an_error_alone_is_one():
    assert "a 200 with an error in it" in seen(asked(reply_body=ERROR), DONE)[0]


def test_a_write_that_found_nobody_is_one():
    refused = tried("shop", error="connection_refused", write=True)
    assert "connection_refused" in seen(refused, DONE)[0]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([REFUSED, ended("failed")], id="says failed"),
        pytest.param([REFUSED, ended("unsure")], id="says unsure"),
        pytest.param([REFUSED, ended(ended_by="text")], id="prose"),
        pytest.param([REFUSED, asked(1, status=201, fingerprint="f2"), DONE], id="corrected"),
        pytest.param([lost(), DONE], id="carried out, reply lost"),
        pytest.param([lost(status=409), DONE], id="there already, reply lost"),
        pytest.param([lost(status=None), DONE], id="maybe carried out"),
        pytest.param(
            [lost(status=200, write=True, tool="order", message="tools/call", tool_answer="error"), DONE],
            id="a tool's error, which may say that it is there already",
        ),
        pytest.param([asked(status=500), DONE], id="failed, maybe carried out"),
        pytest.param([asked(status=409), DONE], id="there already"),
        pytest.param([asked(status=404, method="DELETE", target="/orders/1"), DONE], id="gone already"),
        pytest.param([asked(status=422, target="/quotes"), DONE], id="no write"),
        pytest.param([REFUSED, asked(1, method="DELETE", target="/orders/1"), DONE], id="done otherwise"),
        pytest.param([asked(), asked(1, status=422, attempt=2), ended(attempt=2)], id="done before"),
        pytest.param([asked(reply_body='{"error": null, "id": 4}'), DONE], id="a result"),
        pytest.param([asked(reply_body='{"error": "x", "id": 4}'), DONE], id="a result with a warning"),
        pytest.param(
            [asked(reply_body=ERROR, fault=met(id="lie"), forwarded=True), DONE], id="the fault's error"
        ),
        pytest.param(
            [tried("shop", error="read_timeout", write=True), exchange("shop", method="POST"), DONE],
            id="carried out, not seen",
        ),
    ],
)
def test_near_misses_are_passed_over(events):
    assert seen(*events) == []
