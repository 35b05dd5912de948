"""Failed writes reported as done, and unasked ones."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import lost, model_request, observed, request, rule_findings
from tests.judging.oracle.histories import ended, exchange, fault_met, started, tried
from tests.support import replace
from wirefault.judging.findings.claimed import ERROR_AS_RESULT, WRITE_ON_GREETING

REFUSED = request(status=422)
ERROR = '{"error": {"code": "sold_out", "message": "nothing left"}}'
DONE = ended()


def error_as_result(*events):
    return observed(ERROR_AS_RESULT, *events)


def test_done_after_refused_write():
    assert error_as_result(REFUSED, request(1, status=503, forwarded=False), DONE) == [
        "the answer says done, but POST /orders was sent twice and never executed: 422, 503"
    ]


def test_done_after_lost_refusal():
    assert "422, its reply was lost" in error_as_result(REFUSED, lost(1, status=422), DONE)[0]


def test_done_after_error_in_200():
    assert "a 200 with an error in it" in error_as_result(request(reply_body=ERROR), DONE)[0]


def test_done_after_injected_refusal_in_200():
    refusal = '{"error": "insufficient stock"}'
    struck = {"fault": fault_met("status", 200), "reply_body": refusal}
    assert "a 200 with an error in it" in error_as_result(request(**struck), DONE)[0]
    executed = request(**struck, forwarded=True, upstream_status=201)
    assert error_as_result(executed, DONE) == []


def test_other_server_may_execute_refused_write():
    other = request(1, "/notes", link="crm")
    assert error_as_result(REFUSED, other, DONE) == []
    assert len(error_as_result(replace(other, start=99.0), REFUSED, DONE)) == 1
    assert len(error_as_result(REFUSED, request(1, "/notes", link="crm", status=422), DONE)) == 2


def test_done_after_tool_500_is_risky():
    [finding] = rule_findings(ERROR_AS_RESULT, request(status=500), DONE)
    assert finding.severity == "risky" and "may not have been executed: 500" in finding.text
    assert error_as_result(request(status=500), request(1, status=201), DONE) == []


def test_done_after_unreachable_write():
    refused = tried("shop", error="connection_refused", write=True)
    assert "connection_refused" in error_as_result(refused, DONE)[0]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([REFUSED, ended("failed")], id="says failed"),
        pytest.param([REFUSED, ended("unsure")], id="says unsure"),
        pytest.param([REFUSED, ended(ended_by="text")], id="prose"),
        pytest.param([REFUSED, request(1, status=201, fingerprint="f2"), DONE], id="corrected"),
        pytest.param([lost(), DONE], id="carried out, reply lost"),
        pytest.param([lost(status=409), DONE], id="there already, reply lost"),
        pytest.param([lost(status=None), DONE], id="maybe carried out"),
        pytest.param(
            [lost(status=200, write=True, tool="order", message="tools/call", tool_answer="error"), DONE],
            id="a tool's error, which may say that it is there already",
        ),
        pytest.param([request(status=409), DONE], id="there already"),
        pytest.param([request(status=404, method="DELETE", target="/orders/1"), DONE], id="gone already"),
        pytest.param([request(status=422, target="/quotes"), DONE], id="no write"),
        pytest.param([REFUSED, request(1, method="DELETE", target="/orders/1"), DONE], id="done otherwise"),
        pytest.param([request(), request(1, status=422, attempt=2), ended(attempt=2)], id="done before"),
        pytest.param([request(reply_body='{"error": null, "id": 4}'), DONE], id="a result"),
        pytest.param([request(reply_body='{"error": "x", "id": 4}'), DONE], id="a result with a warning"),
        pytest.param(
            [request(reply_body=ERROR, fault=fault_met(id="lie"), forwarded=True), DONE],
            id="the fault's error",
        ),
        pytest.param(
            [tried("shop", error="read_timeout", write=True), exchange("shop", method="POST"), DONE],
            id="carried out, not seen",
        ),
    ],
)
def test_error_as_result_near_misses(events):
    assert error_as_result(*events) == []


@pytest.mark.parametrize("prompt", ["Hello", "hi there!", "Good morning, how are you today?"])
def test_write_on_greeting(prompt):
    assert observed(WRITE_ON_GREETING, started(prompt=prompt), request(status=201)) == [
        "POST /orders was executed, although the prompt is only a greeting"
    ]


def test_refused_write_on_greeting_is_risky():
    [finding] = rule_findings(WRITE_ON_GREETING, started(prompt="Hello"), request(status=422))
    assert finding.severity == "risky"


@pytest.mark.parametrize(
    ("prompt", "call"),
    [
        ("Hello, order a green tea", request(status=201)),
        ("Say hello to Bob", request(status=201)),
        ("Hello", request(method="GET")),
        ("Hello", request(link="crm", target="/sessions")),
        ("Hello", model_request()),
        ("", request(status=201)),
    ],
)
def test_greeting_near_misses(prompt, call):
    assert observed(WRITE_ON_GREETING, started(prompt=prompt), call) == []
