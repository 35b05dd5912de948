"""A write repeated after a lost reply."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import CRM, asked, found, lost, observed
from tests.judging.oracle.histories import armed, exchange, latency, met, timeout, tried
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.wiring.links import Link, Links

GAVE = {"upstream_status": 201}
AGAIN = asked(0.4, status=201)


def seen(*events, **more):
    return observed(WRITE_REPEATED, *events, **more)


def test_a_write_sent_again_without_a_key_is_told_with_its_figures():
    assert seen(lost(), AGAIN) == [
        "POST /orders was sent again 0.4 s after its reply was lost; both were executed,"
        " with no Idempotency-Key"
    ]


def test_of_a_subject_that_keeps_a_record_its_own_loss_counts():
    tries = [tried(error="read_timeout", ms=400, idempotency_key="a"), exchange(method="POST", status=201)]
    again = [
        tried(start=103.9, call=2, idempotency_key="b"),
        exchange(method="POST", status=201, start=103.9, call=2),
    ]
    assert seen(*tries, *again, links=Links(())) == [
        "POST / was sent again 0.5 s after its reply was lost; both were executed,"
        " with another Idempotency-Key"
    ]


def test_evidence_names_the_events_of_both():
    assert found(WRITE_REPEATED, lost(), AGAIN)[0].evidence == ("gateway-0:1", "gateway-0:2")


def test_what_the_upstream_may_have_done_is_not_said_to_be_done():
    assert "it may have been executed twice" in seen(lost(status=None), AGAIN)[0]


def test_a_lost_reply_is_known_by_the_fault_that_lost_it():
    fault = met("lose_reply", id="lost", shows={"lost": True}, evidence=GAVE)
    assert "both were executed" in seen(lost(status=None, fault=fault, forwarded=True), AGAIN)[0]


def test_a_toxic_that_keeps_every_reply_lost_it():
    assert len(seen(armed(timeout("shop")), asked(status=201), AGAIN)) == 1


def test_where_the_wiring_names_no_writes_it_may_be_one():
    post = {"link": "crm", "target": "/search"}
    assert (
        "the wiring does not say whether it is a write"
        in seen(lost(**post), asked(0.4, **post), links=Links([CRM]))[0]
    )


def test_deleting_twice_is_noted_only_where_both_were_executed():
    delete = {"method": "DELETE", "target": "/orders/17"}
    assert "the second changes nothing more" in seen(lost(**delete), asked(0.4, **delete))[0]
    assert seen(lost(**delete, status=None), asked(0.4, **delete)) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([lost(key="k"), asked(0.4, key="k")], id="shared key"),
        pytest.param([lost(dialect=""), asked(0.4, dialect="")], id="history without keys"),
        pytest.param([asked(status=201), AGAIN], id="reply arrived"),
        pytest.param([lost(forwarded=False), AGAIN], id="never forwarded"),
        pytest.param([lost(status=422), AGAIN], id="refused"),
        pytest.param([lost(), asked(0.4, status=429, forwarded=False)], id="repetition not forwarded"),
        pytest.param([lost(seconds=0.5), AGAIN], id="asked for at the same time"),
        pytest.param([lost(fingerprint="a"), asked(0.4, fingerprint="b")], id="another order"),
        pytest.param([lost(), asked(0.4, attempt=2)], id="another attempt"),
        pytest.param([armed(latency("shop")), asked(status=201), AGAIN], id="not known whether it was lost"),
        pytest.param(
            [lost(status=None), asked(0.1, method="GET", fingerprint="g"), AGAIN], id="looked before"
        ),
        pytest.param([lost(target="/quotes"), asked(0.4, target="/quotes")], id="declared as no write"),
        pytest.param([lost(key="k"), asked(0.2, key="k"), asked(9.0)], id="known to be done in between"),
    ],
)
def test_near_misses_are_passed_over(events):
    assert seen(*events) == []


CALL = {"target": "/mcp", "dialect": "mcp", "message": "tools/call", "tool": "add_order"}
SERVER = Links([Link("shop", "http://127.0.0.1:9/mcp", "mcp")])


def test_a_call_of_a_tool_of_mcp_is_told_by_the_tools_name():
    told = seen(lost(**CALL), asked(0.4, status=200, **CALL), links=SERVER)
    assert told[0].startswith("add_order was sent again")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (("result", "result"), "both were executed"),
        (("", "result"), "it may have been executed twice"),
        (("error", "result"), None),
        (("result", "error"), None),
    ],
)
def test_what_the_tool_itself_answered_says_whether_it_was_executed(answers, said):
    first, again = ({**CALL, "tool_answer": answer} for answer in answers)
    told = seen(lost(**first), asked(0.4, status=200, **again), links=SERVER)
    assert [text.count(said) for text in told] == ([1] if said else [])


def test_other_messages_of_mcp_write_nothing():
    listed = {**CALL, "message": "tools/list", "tool": ""}
    assert seen(lost(**listed), asked(0.4, status=200, **listed), links=SERVER) == []
