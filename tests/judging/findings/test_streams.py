"""Open streams taken for whole, and hangs without a time limit."""

from __future__ import annotations

import json

import pytest

from tests.judging.findings.traced import model_request, observed, request, rule_findings
from tests.judging.oracle.histories import (
    EPISODE,
    armed,
    called,
    ended,
    fault_met,
    model_call,
    run_started,
    started,
    tried,
)
from tests.support import replace
from wirefault.dialects.base import ModelReply
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.history.events import SocketMessage
from wirefault.judging.findings.streams import NO_TIME_LIMIT, OPEN_STREAM
from wirefault.judging.trace import traces
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link, Links

TEXT = "The tower is 330 metres tall."
WHOLE = OPENAI_CHAT.write_reply(OPENAI_CHAT.new_reply("id", "model", 1), ModelReply(TEXT))
EVENTS = [event.decode() for event in OPENAI_CHAT.spread(WHOLE)]
BODY = "".join(EVENTS)
CUT = "".join(EVENTS[:-2])
EARLY = {
    "fault": fault_met("early_end", id="early", shows=None, evidence={"at": "finish"}),
    "forwarded": True,
}
ANSWER = ended(ended_by="text", response=TEXT)
KNOWN = {"identity": "baggage", "start": 102.99}


def test_open_stream_is_reported_as_answer():
    assert observed(OPEN_STREAM, model_request(reply_body=CUT), ANSWER) == [
        "the stream of POST /v1/chat/completions ended without its finish reason,"
        " and was taken for the whole answer"
    ]


@pytest.mark.parametrize(
    ("limit", "answer", "expected"),
    [
        (500, "The tower is 330", True),
        (500, TEXT, False),
        (500, "It is tall", False),
        (5000, "The tower", False),
    ],
    ids=["a part", "all of it", "another answer", "nothing was cut"],
)
def test_part_of_a_stream_that_limit_data_cut(limit, answer, expected):
    toxic = PlannedToxic("model", "limit_data", "downstream", {"bytes": limit})
    streamed = model_request(reply_body=BODY, reply_bytes=2000)
    seen = observed(OPEN_STREAM, armed(toxic), streamed, ended(ended_by="text", response=answer))
    first = (
        "limit_data cut the stream of POST /v1/chat/completions, and its first part was taken for the whole"
    )
    assert seen == [f"{first} answer"] * expected


def socket(number, kind, delta=None, sender="server", **more):
    text = json.dumps({"type": kind, "delta": delta})
    return SocketMessage(103.0, EPISODE, 1, "model", 1, sender, number, "text", 9, kind, text=text, **more)


def over_socket(*deltas, end="", **more):
    first = socket(1, "response.create", sender="client")
    pieces = [socket(n, "response.output_text.delta", each) for n, each in enumerate(deltas, 1)]
    last = [socket(len(deltas) + 1, end)] if end else []
    counts = {"client_messages": 1, "server_messages": len(deltas) + len(last)}
    path = {
        "target": "/v1/responses",
        "method": "GET",
        "status": 101,
        "dialect": "http",
        "at": 2.9,
        "seconds": 0.2,
    }
    return [first, *pieces, *last, request(link="model", **path | counts | more)]


@pytest.mark.parametrize(
    ("deltas", "answer", "how"),
    [
        (("The total", " is"), "The total is", "was taken for the whole answer"),
        ((), "", "the subject ended with an empty answer"),
    ],
)
def test_response_over_websocket_without_its_end(deltas, answer, how):
    end = replace(ANSWER, response=answer, ended_by="text" if answer else "empty")
    assert observed(OPEN_STREAM, *over_socket(*deltas), end) == [
        f"the response over the WebSocket of GET /v1/responses ended without its last event, and {how}"
    ]
    assert observed(OPEN_STREAM, *over_socket(*deltas, end="response.done"), end) == []
    assert observed(OPEN_STREAM, *over_socket(*deltas, client_left=True), end) == []
    assert observed(OPEN_STREAM, *over_socket(*deltas, server_messages=9), end) == []
    assert observed(OPEN_STREAM, *over_socket(*deltas), replace(end, response="The answer broke off.")) == []


def test_stream_cut_after_a_few_words():
    body = "".join(EVENTS[:2]) + EVENTS[2][:20]
    fault = fault_met("stream_cut", id="cut", shows={"lost": True})
    cut = {
        "reply_body": body,
        "complete": (True, False),
        "fault": fault,
        "forwarded": True,
        "reply_cut": True,
    }
    assert len(observed(OPEN_STREAM, model_request(**cut), replace(ANSWER, response=TEXT[:16]))) == 1
    admission = TEXT[:16] + " [the stream broke off]"
    assert observed(OPEN_STREAM, model_request(**cut), replace(ANSWER, response=admission)) == []


def test_open_stream_was_reported():
    assert len(observed(OPEN_STREAM, model_request(**EARLY, **KNOWN), model_call(), ended())) == 1


def test_open_stream_called_tool():
    events = [model_request(**EARLY, **KNOWN), model_call(), called(), model_call(2)]
    assert "its call of get was executed" in observed(OPEN_STREAM, *events, ended())[0]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([model_request(reply_body=BODY), ANSWER], id="whole"),
        pytest.param([model_request(reply_body="".join(EVENTS[:-1])), ANSWER], id="finish without [DONE]"),
        pytest.param([model_request(reply_body=CUT, client_left=True), ANSWER], id="left by itself"),
        pytest.param([model_request(reply_body=CUT, reply_cut=True), ANSWER], id="rest not kept"),
        pytest.param(
            [model_request(reply_body=CUT), model_request(1, reply_body=BODY), ANSWER], id="asked again"
        ),
        pytest.param(
            [model_request(reply_body=CUT), replace(ANSWER, response="It broke off.")], id="said so"
        ),
        pytest.param([model_request(reply_body='{"choices": []}'), ANSWER], id="no stream"),
        pytest.param(
            [model_request(**EARLY, **KNOWN), model_call(error="RemoteProtocolError"), ended()],
            id="error seen",
        ),
        pytest.param(
            [model_request(**EARLY, **KNOWN), model_call(), ended(ended_by="exception")], id="not accepted"
        ),
        pytest.param([model_request(**EARLY), ANSWER], id="no body to compare"),
    ],
)
def test_open_stream_near_misses(events):
    assert observed(OPEN_STREAM, *events) == []


LIMIT = replace(ended(ended_by="limit", ms=30_000), start=100.0, end=130.0)


def hung(at=1.0, until=130.0, **more):
    known = {"complete": (True, False), "status": None, "reply_bytes": 0, "client_left": True}
    return request(at, method="GET", seconds=until - 100 - at, **known | more)


def test_wait_until_end():
    assert observed(NO_TIME_LIMIT, hung(), LIMIT) == [
        "GET /orders did not get its answer: its client was still connected after 29 s,"
        " when the attempt's 30 s were over"
    ]


def stalled(acted_ms=2000.0, kind="stream_hang", **more):
    fault = fault_met(kind, id="stall", shows={"lost": True}, acted_ms=acted_ms)
    return hung(fault=fault, forwarded=True, reply_bytes=80, **more)


def ended_by_lab(seconds, kind="stream_hang"):
    """A request whose client still waited when the gateway closed the connection."""
    fault = fault_met(
        kind, id="stall", shows={"lost": True}, acted_ms=2000.0, evidence={"closed_after_s": seconds}
    )
    fields = {"method": "GET", "seconds": 2.0 + seconds, "fault": fault, "forwarded": True}
    return request(1.0, complete=(True, False), **fields)


def test_client_waits_until_lab_ends_hang():
    assert observed(NO_TIME_LIMIT, ended_by_lab(65.0), ended()) == [
        "GET /orders did not get the rest of its answer: its client was still connected after 65 s,"
        " when the lab closed the connection"
    ]
    assert observed(NO_TIME_LIMIT, ended_by_lab(1.0), ended()) == []


def test_client_timeout_is_note():
    left = stalled(until=107.98, client_left=True)
    [finding] = rule_findings(NO_TIME_LIMIT, left, ended())
    assert (finding.severity, finding.text) == (
        "note",
        "GET /orders did not get the rest of its answer, and its client left: its limit is 5 s",
    )
    result = NO_TIME_LIMIT.check(traces([run_started(), started(), left, ended()])[0])
    assert result.passed
    # over stdio nothing shows when the client gave up, but that its process has ended
    lines = Links([Link("shop", "stdio", "mcp")])
    [finding] = rule_findings(NO_TIME_LIMIT, left, ended(), links=lines)
    assert finding.text.endswith("and its client left: its limit is at most 5 s")


def test_stalled_stream_is_timed_from_fault():
    assert observed(NO_TIME_LIMIT, stalled(), LIMIT) == [
        "GET /orders did not get the rest of its answer: its client was still connected after 27 s,"
        " when the attempt's 30 s were over"
    ]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([hung(until=110.0), LIMIT], id="client left before"),
        pytest.param([hung(at=26.0), LIMIT], id="began late"),
        pytest.param([hung(), ended(ms=30_000)], id="ended by itself"),
        pytest.param([hung(), replace(LIMIT, ms=12_000.0)], id="limit of calls"),
        pytest.param([hung(reply_bytes=80), LIMIT], id="a part had come"),
        pytest.param([stalled(until=106.0), LIMIT], id="client left the stalled stream"),
        pytest.param([stalled(acted_ms=25_000.0), LIMIT], id="stalled late"),
        pytest.param([stalled(kind="slow_tokens"), LIMIT], id="slow, not stalled"),
        pytest.param(
            [hung(), tried("shop", error="read_timeout", ms=29_000, start=101.0), LIMIT],
            id="the caller's own limit",
        ),
    ],
)
def test_no_time_limit_near_misses(events):
    assert observed(NO_TIME_LIMIT, *events) == []
