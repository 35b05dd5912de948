"""Exposure: a delivered fault touched a value or call that the oracle checks."""

import pytest

from tests.judging.oracle.histories import (
    ASK_BOB,
    called,
    ended,
    episode,
    exchange,
    fault_met,
    judge_episode,
    timeout,
    tried,
)
from tests.judging.oracle.histories import armed as armed_with
from wirefault.history.events import FaultedReply

PARIS = {"values": [{"number": 8.4, "unit": "celsius"}]}
SAYS_8 = {"answer": {"number": 8.4, "unit": "celsius"}}
ORDER = {"requests": [{"link": "shop", "method": "POST", "path": "/orders"}]}
WEATHER = '{"temp": 8.4, "humidity": 71}'


def changed(field, original, new):
    evidence = {"field": field, "original": original, "changed": new}
    return fault_met("wrong_value", 200, "w", content=True, evidence=evidence)


def struck(link="weather", fault=None, **more):
    return exchange(link, fault=fault or fault_met(), **{"method": "GET", "target": "/x"} | more)


@pytest.mark.parametrize(
    ("events", "expect", "touched"),
    [
        # a call that is asked for
        ([struck("shop", method="POST", target="/orders?x=1")], ORDER, True),
        ([struck("shop", target="/orders")], ORDER, False),
        ([struck("shop", method="POST", target="/carts")], ORDER, False),
        ([struck("message", method="POST", target="/messages")], ASK_BOB, True),
        ([struck("search")], ASK_BOB, False),
        ([struck("shop", method="POST")], {"added": [{"item": "tea"}]}, True),
        ([struck("shop")], {"added": [{"item": "tea"}]}, False),
        # a value that is asked for
        ([struck(fault=changed("temp", 8.4, 18.4)), called(WEATHER)], PARIS, True),
        ([struck(fault=changed("humidity", 71, 12), fingerprint="f1"), called(WEATHER)], PARIS, False),
        ([struck(reply_body=WEATHER)], SAYS_8, True),
        (
            [struck("movie", fingerprint="f2"), struck(fault=changed("x", 1, 2), reply_body=WEATHER)],
            SAYS_8,
            True,
        ),
        ([struck("movie", reply_body="{}"), exchange("weather", reply_body=WEATHER)], SAYS_8, False),
        # the value is made from what the tools say, or the reply is unknown
        ([struck(reply_body='{"temp": 4.2}')], SAYS_8, True),
        ([struck()], SAYS_8, True),
        ([struck(fault=changed("humidity", 71, 12))], {"answer": {"matches": "8"}}, True),
        ([struck(faulted_reply=FaultedReply(WEATHER, None))], SAYS_8, True),
        # every answer comes through the model
        ([struck("model")], ORDER, True),
        ([struck("message", method="POST")], None, False),
        ([exchange("message", method="POST")], ASK_BOB, False),
    ],
)
def test_fault_touches_oracle_link(events, expect, touched):
    judged = judge_episode(episode(*events, ended(), expect=expect))
    assert judged.touched is touched


@pytest.mark.parametrize(("link", "touched"), [("message", True), ("search", False)])
def test_toxic_touches_its_link(link, touched):
    crossed = exchange(link, method="POST" if link == "message" else "GET")
    lost = tried(link, error="connection_closed", ms=402)
    judged = judge_episode(episode(armed_with(timeout(link)), lost, crossed, ended(), expect=ASK_BOB))
    assert any(fault.delivered for fault in judged.faults)
    assert judged.touched is touched


@pytest.mark.parametrize(
    ("link", "expect", "touched"),
    [("message", ASK_BOB, True), ("search", ASK_BOB, False), ("search", SAYS_8, True)],
)
def test_toxic_may_stop_expected_request_before_gateway(link, expect, touched):
    reply = {"method": "GET", "reply_body": "{}"}
    crossed, weather = exchange(link, fingerprint="r", **reply), exchange("weather", reply_body=WEATHER)
    lost = tried(link, error="connection_closed", ms=402)
    toxic = armed_with(timeout(link, "upstream"))
    events = [toxic, lost, tried(link, fingerprint="r"), crossed, weather, ended()]
    judged = judge_episode(episode(*events, expect=expect))
    assert any(fault.delivered for fault in judged.faults)
    assert judged.touched is touched
