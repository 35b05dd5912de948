"""Writes repeated after a lost reply, and failed writes reported as done."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import CRM, lost, observed, request, rule_findings
from tests.judging.oracle.histories import armed, ended, exchange, fault_met, latency, timeout, tried
from wirefault.judging.findings.writes import ERROR_AS_RESULT, WRITE_REPEATED
from wirefault.wiring.links import Link, Links

GAVE = {"upstream_status": 201}
AGAIN = request(0.4, status=201)


def write_repeated(*events, **more):
    return observed(WRITE_REPEATED, *events, **more)


def test_write_repeated_without_key():
    assert write_repeated(lost(), AGAIN) == [
        "POST /orders was sent again 0.4 s after its reply was lost; both were executed,"
        " with no Idempotency-Key"
    ]


def test_lost_reply_in_subjects_record():
    tries = [tried(error="read_timeout", ms=400, idempotency_key="a"), exchange(method="POST", status=201)]
    again = [
        tried(start=103.9, call=2, idempotency_key="b"),
        exchange(method="POST", status=201, start=103.9, call=2),
    ]
    assert write_repeated(*tries, *again, links=Links(())) == [
        "POST / was sent again 0.5 s after its reply was lost; both were executed,"
        " with another Idempotency-Key"
    ]


def test_evidence_names_both_requests():
    assert rule_findings(WRITE_REPEATED, lost(), AGAIN)[0].evidence == ("gateway-0:1", "gateway-0:2")


def test_write_that_may_be_executed():
    assert "it may have been executed twice" in write_repeated(lost(status=None), AGAIN)[0]


def test_reply_lost_by_fault():
    fault = fault_met("lose_reply", id="lost", shows={"lost": True}, evidence=GAVE)
    assert "both were executed" in write_repeated(lost(status=None, fault=fault, forwarded=True), AGAIN)[0]


def test_reply_lost_by_toxic():
    assert len(write_repeated(armed(timeout("shop")), request(status=201), AGAIN)) == 1


def test_undeclared_write():
    post = {"link": "crm", "target": "/search"}
    assert (
        "the wiring does not say whether it is a write"
        in write_repeated(lost(**post), request(0.4, **post), links=Links([CRM]))[0]
    )


def test_repeated_delete_is_note():
    delete = {"method": "DELETE", "target": "/orders/17"}
    assert "the second changes nothing more" in write_repeated(lost(**delete), request(0.4, **delete))[0]
    assert write_repeated(lost(**delete, status=None), request(0.4, **delete)) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([lost(key="k"), request(0.4, key="k")], id="shared key"),
        pytest.param([lost(dialect=""), request(0.4, dialect="")], id="history without keys"),
        pytest.param([request(status=201), AGAIN], id="reply arrived"),
        pytest.param([lost(forwarded=False), AGAIN], id="never forwarded"),
        pytest.param([lost(status=422), AGAIN], id="refused"),
        pytest.param([lost(), request(0.4, status=429, forwarded=False)], id="repetition not forwarded"),
        pytest.param([lost(seconds=0.5), AGAIN], id="asked for at the same time"),
        pytest.param([lost(fingerprint="a"), request(0.4, fingerprint="b")], id="another order"),
        pytest.param([lost(), request(0.4, attempt=2)], id="another attempt"),
        pytest.param(
            [armed(latency("shop")), request(status=201), AGAIN], id="not known whether it was lost"
        ),
        pytest.param(
            [lost(status=None), request(0.1, method="GET", fingerprint="g"), AGAIN], id="looked before"
        ),
        pytest.param([lost(target="/quotes"), request(0.4, target="/quotes")], id="declared as no write"),
        pytest.param([lost(key="k"), request(0.2, key="k"), request(9.0)], id="known to be done in between"),
    ],
)
def test_write_repeated_near_misses(events):
    assert write_repeated(*events) == []


CALL = {"target": "/mcp", "dialect": "mcp", "message": "tools/call", "tool": "add_order"}
SERVER = Links([Link("shop", "http://127.0.0.1:9/mcp", "mcp")])


def test_repeated_mcp_tool_is_named():
    findings = write_repeated(lost(**CALL), request(0.4, status=200, **CALL), links=SERVER)
    assert findings[0].startswith("add_order was sent again")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("result", "result"), "both were executed"),
        (("", "result"), "it may have been executed twice"),
        (("error", "result"), None),
        (("result", "error"), None),
    ],
)
def test_mcp_tool_answer_decides_execution(answers, expected):
    first, again = ({**CALL, "tool_answer": answer} for answer in answers)
    findings = write_repeated(lost(**first), request(0.4, status=200, **again), links=SERVER)
    assert [text.count(expected) for text in findings] == ([1] if expected else [])


def test_other_mcp_messages_are_not_writes():
    listed = {**CALL, "message": "tools/list", "tool": ""}
    assert write_repeated(lost(**listed), request(0.4, status=200, **listed), links=SERVER) == []


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
        pytest.param([request(status=500), DONE], id="failed, maybe carried out"),
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
