"""Damaged replies of a model that became the answer, or a call."""

from __future__ import annotations

import json

import pytest

from tests.judging.findings.traced import model_request, observed, request
from tests.judging.oracle.histories import ended, fault_met
from tests.support import replace
from wirefault.dialects.base import ModelReply, ToolCall
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.dialects.openai_responses import OPENAI_RESPONSES
from wirefault.history.events import EXIT_CODE
from wirefault.judging.findings.damaged import DAMAGED_CALL, DAMAGED_REPLY, EMPTY_REPLY, ERROR_AS_ANSWER
from wirefault.judging.findings.streams import OPEN_STREAM

TEXT = "The tower is 330 metres tall and was built in 1889."
NEW = OPENAI_CHAT.new_reply("id", "model", 1)
EVENTS = [event.decode() for event in OPENAI_CHAT.spread(OPENAI_CHAT.write_reply(NEW, ModelReply(TEXT)))]
WHOLE = "".join(EVENTS)
ERROR = 'data: {"error": {"message": "Provider returned error", "code": 502}}\n\n'
ERROR_EVENT = "".join(EVENTS[:3]) + ERROR
HOLE = "".join([*EVENTS[:2], "data: upstream connect error\n\n", *EVENTS[3:]])
TWICE = "".join([*EVENTS[:2], EVENTS[1], *EVENTS[2:]])
DOUBLED = {
    "fault": fault_met("duplicate_event", id="f", shows=None),
    "forwarded": True,
    "reply_body": TWICE,
}
PAGE = "<!doctype html><html><head><title>502 Bad Gateway</title></head><body>nginx at work</body></html>"


def joined(body: str) -> str:
    """Output of a client that only joins the deltas."""
    words = []
    for line in body.splitlines():
        try:
            value = json.loads(line.removeprefix("data: "))
        except ValueError:
            continue
        words += [choice["delta"].get("content") or "" for choice in value.get("choices", ())]
    return "".join(words)


def ended_with(finish: str, text: str = TEXT) -> str:
    return json.dumps(OPENAI_CHAT.write_reply(NEW, ModelReply(text, finish=finish)))


def answer(text: str):
    return ended(ended_by="text" if text else "empty", response=text)


@pytest.mark.parametrize(
    ("more", "text", "damage"),
    [
        pytest.param(
            {"reply_body": ERROR_EVENT}, joined(ERROR_EVENT), "has an error event", id="error event"
        ),
        pytest.param({"reply_body": HOLE}, joined(HOLE), "an event in its stream that cannot", id="hole"),
        pytest.param(DOUBLED, joined(TWICE), "has an event twice", id="doubled"),
        pytest.param({"reply_body": ended_with("length")}, TEXT, "by the token limit", id="token limit"),
        pytest.param({"reply_body": ended_with("content_filter")}, TEXT, "by a content filter", id="filter"),
        pytest.param(
            {"reply_body": PAGE}, "Answer: 502 Bad Gateway nginx at work", "was an HTML page", id="page"
        ),
        pytest.param({"reply_body": f"{PAGE}\n"}, PAGE, "was an HTML page", id="page with its tags"),
    ],
)
def test_damaged_reply_is_reported_as_answer(more, text, damage):
    [sentence] = observed(DAMAGED_REPLY, model_request(**more), answer(text))
    assert damage in sentence
    assert sentence.endswith("and its text was taken for the whole answer")


@pytest.mark.parametrize(
    ("text", "end", "is_damage"),
    [
        ("Größe: 12 °C in Zürich", "It says: Gr\ufffd\ufffd\ufffde: 12 \ufffd\ufffdC in Z\ufffdrich", True),
        ("Größe: 12 °C in Zürich", "Größe: 12 °C in Zürich", False),
        ("Gr\ufffd\ufffde: 12 C in Berlin", "Gr\ufffd\ufffde: 12 C in Berlin", False),
        ("Größe: 12 °C in Zürich", "I could not read it: \ufffd\ufffd", False),
    ],
)
def test_answer_decoded_piece_by_piece_is_damaged(text, end, is_damage):
    sentences = observed(DAMAGED_REPLY, model_request(reply_body=ended_with("stop", text)), answer(end))
    assert ["replacement characters (U+FFFD)" in each for each in sentences] == [True] * is_damage


def test_missing_and_duplicate_events_are_numbered():
    new = OPENAI_RESPONSES.new_reply("id", "model", 1)
    events = [
        e.decode() for e in OPENAI_RESPONSES.spread(OPENAI_RESPONSES.write_reply(new, ModelReply(TEXT)))
    ]
    at = next(i for i, event in enumerate(events) if "output_text.delta" in event)
    model = {"dialect": "openai_responses", "target": "/v1/responses"}
    piece = json.loads(events[at].partition("data: ")[2])["delta"]
    lacks = model_request(**model, reply_body="".join(events[:at] + events[at + 1 :]))
    assert "lacks an event" in observed(DAMAGED_REPLY, lacks, answer(TEXT.replace(piece, "", 1)))[0]
    twice = model_request(**model, reply_body="".join(events[: at + 1] + events[at:]))
    assert "has an event twice" in observed(DAMAGED_REPLY, twice, answer(piece + TEXT))[0]
    for one in (lacks, twice):  # the last event has the whole text
        assert observed(DAMAGED_REPLY, one, answer(TEXT)) == []
    assert observed(DAMAGED_REPLY, model_request(**model, reply_body="".join(events)), answer(TEXT)) == []


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([model_request(reply_body=WHOLE), answer(TEXT)], id="whole"),
        pytest.param(
            [model_request(reply_body=ERROR_EVENT), model_request(1, reply_body=WHOLE), answer(TEXT)],
            id="asked again",
        ),
        pytest.param(
            [model_request(reply_body=ERROR_EVENT), answer(joined(ERROR_EVENT) + " [incomplete]")],
            id="says so",
        ),
        pytest.param(
            [
                model_request(reply_body=ERROR_EVENT),
                replace(answer(joined(ERROR_EVENT)), error_type=EXIT_CODE, error="it ended with exit code 1"),
            ],
            id="exit code",
        ),
        pytest.param([model_request(reply_body=ERROR_EVENT), answer("It broke off.")], id="not used"),
        pytest.param([model_request(reply_body=ERROR_EVENT, client_left=True), answer(TEXT)], id="left"),
        pytest.param(
            [model_request(reply_body=HOLE, reply_cut=True), answer(joined(HOLE))], id="rest not kept"
        ),
        pytest.param([model_request(reply_body=TWICE), answer(joined(TWICE))], id="a word that comes twice"),
        pytest.param([model_request(reply_body=ended_with("stop")), answer(TEXT)], id="ended itself"),
        pytest.param(
            [model_request(reply_body=ended_with("length")), answer(TEXT + " (cut off)")], id="limit, says so"
        ),
        pytest.param([model_request(reply_body=PAGE), answer("The model failed.")], id="page not used"),
        pytest.param([model_request(reply_body=": ping\n\n" + WHOLE), answer(TEXT)], id="comment"),
        pytest.param(
            [model_request(status=502, reply_body=PAGE), answer("502 Bad Gateway nginx at work")], id="502"
        ),
    ],
)
def test_damaged_reply_near_misses(events):
    assert observed(DAMAGED_REPLY, *events) == []


def asked_for(arguments: str, **more):
    reply = ModelReply("", (ToolCall("order", arguments, "c1"),), finish="length")
    return model_request(reply_body=json.dumps(OPENAI_CHAT.write_reply(NEW, reply)), **more)


CUT = '{"item": "green tea", "count": 1'
ORDER = request(1, request_body='{"item": "green tea", "count": 1}')


def test_call_from_cut_arguments():
    assert observed(DAMAGED_CALL, asked_for(CUT), ORDER, answer("done")) == [
        "POST /orders was sent for a call of order whose arguments are not JSON:"
        ' \'{"item": "green tea", "count": 1\''
    ]


def test_call_from_stream_that_a_fault_cut():
    fault = fault_met("stream_cut", id="f", shows={"lost": True})
    cut = asked_for(CUT, reply_cut=True, fault=fault, forwarded=True, complete=(True, False))
    assert len(observed(DAMAGED_CALL, cut, ORDER, answer("done"))) == 1


def test_mcp_call_from_cut_arguments():
    body = '{"method": "tools/call", "params": {"name": "order", "arguments": {"item": "green tea"}}}'
    call = request(1, message="tools/call", tool="order", request_body=body)
    assert len(observed(DAMAGED_CALL, asked_for(CUT), call, answer("done"))) == 1


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([asked_for(CUT + "}"), ORDER], id="whole arguments"),
        pytest.param([asked_for(CUT), model_request(0.5), ORDER], id="model asked again"),
        pytest.param([asked_for(CUT), request(1, request_body='{"event": "bad arguments"}')], id="a report"),
        pytest.param([asked_for(CUT), request(1, request_body='{"item": "coffee"}')], id="another order"),
        pytest.param([asked_for(CUT), request(1, method="GET", request_body=None)], id="a read"),
        pytest.param([asked_for(CUT)], id="not carried out"),
        pytest.param([asked_for(CUT), replace(ORDER, attempt=2)], id="another attempt"),
        pytest.param([asked_for(""), ORDER], id="no arguments"),
        pytest.param([asked_for(CUT, reply_cut=True), ORDER], id="rest of the reply not kept"),
    ],
)
def test_damaged_call_near_misses(events):
    assert observed(DAMAGED_CALL, *events, answer("done")) == []


CALL = ModelReply(calls=(ToolCall("order", '{"item": "green tea", "count": 1}'),))
CALL_BODY = OPENAI_CHAT.write_reply(NEW, CALL)
CALL_EVENTS = [event.decode() for event in OPENAI_CHAT.spread(CALL_BODY)]
ORDERED = request(1, request_body='{"item": "green tea", "count": 1}')
LIMITED_CALL = json.dumps(OPENAI_CHAT.write_reply(NEW, replace(CALL, finish="length")))


@pytest.mark.parametrize(
    ("body", "damage"),
    [
        pytest.param("".join(CALL_EVENTS[:-2]) + ERROR, "has an error event in its stream", id="error event"),
        pytest.param(LIMITED_CALL, "was ended by the token limit", id="token limit"),
    ],
)
def test_damaged_call_was_executed(body, damage):
    broken = model_request(reply_body=body)
    assert observed(DAMAGED_REPLY, broken, ORDERED, model_request(2, reply_body=WHOLE), answer(TEXT)) == [
        f"the reply of POST /v1/chat/completions {damage}, and its call of order was executed: POST /orders"
    ]
    assert (
        observed(DAMAGED_REPLY, broken, model_request(0.5, reply_body=WHOLE), ORDERED, answer("Bye.")) == []
    )
    assert observed(DAMAGED_REPLY, broken, answer("Bye.")) == []


def test_call_from_unfinished_stream_was_executed():
    broken = model_request(reply_body="".join(CALL_EVENTS[:-2]))
    later = model_request(2, '{"messages": [1]}', reply_body=WHOLE)
    assert observed(OPEN_STREAM, broken, ORDERED, later, answer(TEXT)) == [
        "the stream of POST /v1/chat/completions ended without its finish reason,"
        " and its call of order was executed: POST /orders"
    ]
    assert observed(OPEN_STREAM, broken, answer("Bye.")) == []
    whole = model_request(reply_body="".join(CALL_EVENTS))
    assert observed(OPEN_STREAM, whole, ORDERED, answer("Bye.")) == []


THOUGHT = "<think>The user wants tea.</think>"


@pytest.mark.parametrize(("text", "kind"), [("", "no text and no call"), (THOUGHT, "only thoughts")])
def test_empty_reply_ended_task(text, kind):
    assert observed(EMPTY_REPLY, model_request(reply_body=ended_with("stop", text)), answer(text)) == [
        f"a reply of POST /v1/chat/completions had {kind}, and the subject ended with an empty answer"
    ]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [
                model_request(reply_body=ended_with("stop", "")),
                model_request(1, reply_body=WHOLE),
                answer(""),
            ],
            id="asked again",
        ),
        pytest.param(
            [model_request(reply_body=ended_with("stop", "")), answer("The model gave no answer.")],
            id="says so",
        ),
        pytest.param(
            [
                model_request(reply_body=ended_with("stop", "")),
                replace(answer(""), ended_by="exception", error_type=EXIT_CODE),
            ],
            id="exit code",
        ),
        pytest.param([model_request(reply_body=ended_with("stop")), answer("")], id="reply with text"),
        pytest.param([asked_for("{}"), answer("")], id="reply with a call"),
        pytest.param(
            [model_request(reply_body=ended_with("stop", THOUGHT + "Tea.")), answer("")],
            id="thought and text",
        ),
        pytest.param([model_request(status=500, reply_body=ended_with("stop", "")), answer("")], id="error"),
    ],
)
def test_empty_reply_near_misses(events):
    assert observed(EMPTY_REPLY, *events) == []


MESSAGE = "The server had an error while processing your request."
BODY = json.dumps({"error": {"message": MESSAGE, "type": "server_error", "code": None}})
FAILED = model_request(status=500, reply_body=BODY)


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        MESSAGE,
        f"Error: {MESSAGE}",
        f"Error code: 500 - {{'error': {{'message': '{MESSAGE}', 'code': None}}}}",
    ],
)
def test_error_text_is_reported_as_answer(text):
    assert observed(ERROR_AS_ANSWER, FAILED, answer(text)) == [
        "the answer is only the error of POST /v1/chat/completions (500), and the agent ended normally"
    ]


TOOL_CALL = {"dialect": "mcp", "message": "tools/call", "tool": "count", "target": "/mcp"}
TOOL_TEXT = "Error executing tool: the service is unavailable"
TOOL_ERROR = json.dumps({"id": 1, "result": {"content": [{"text": TOOL_TEXT}], "isError": True}})
RPC_ERROR = json.dumps({"id": 1, "error": {"code": -32603, "message": "the notes are locked"}})
FAULTED = fault_met("tool_error", id="f")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        pytest.param({**TOOL_CALL, "fault": FAULTED, "reply_body": TOOL_ERROR}, TOOL_TEXT, id="tool"),
        pytest.param({**TOOL_CALL, "reply_body": RPC_ERROR}, "the notes are locked", id="JSON-RPC"),
        pytest.param({"reply_body": '{"error": "nothing left of it"}'}, "nothing left of it", id="in a 200"),
    ],
)
def test_error_in_200_is_reported_as_answer(more, text):
    assert len(observed(ERROR_AS_ANSWER, request(status=200, **more), answer(f"Error: {text}"))) == 1


@pytest.mark.parametrize(
    ("more", "text"),
    [
        pytest.param(TOOL_CALL | {"reply_body": TOOL_ERROR}, TOOL_TEXT, id="the tool's own"),
        pytest.param({"reply_body": '{"error": null, "name": "green tea"}'}, "green tea", id="no error"),
        pytest.param({"reply_body": '{"error": "late delivery", "id": 4}'}, "late delivery", id="with data"),
    ],
)
def test_successful_reply_is_not_error(more, text):
    assert observed(ERROR_AS_ANSWER, request(status=200, **more), answer(text)) == []


def test_error_page_is_reported_as_answer():
    assert len(observed(ERROR_AS_ANSWER, request(status=502, reply_body=PAGE), answer(PAGE))) == 1


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([FAILED, answer(f"I could not order: {MESSAGE}")], id="says what failed"),
        pytest.param([FAILED, answer(json.dumps({"status": "failed", "why": MESSAGE}))], id="its own form"),
        pytest.param(
            [FAILED, replace(answer(MESSAGE), error_type=EXIT_CODE, error="it ended with exit code 1")],
            id="exit code",
        ),
        pytest.param([FAILED, ended(status="failed", response=MESSAGE)], id="a report"),
        pytest.param([FAILED, answer(TEXT)], id="another answer"),
        pytest.param([FAILED, answer(f"Typed: {MESSAGE}")], id="a word of its own"),
        pytest.param([FAILED, answer("Error")], id="a word alone"),
        pytest.param([model_request(reply_body=BODY), answer(MESSAGE)], id="no error status"),
        pytest.param([replace(FAILED, reply_cut=True), answer(MESSAGE)], id="rest not kept"),
        pytest.param([replace(FAILED, client_left=True), answer(MESSAGE)], id="reply not received"),
    ],
)
def test_error_as_answer_near_misses(events):
    assert observed(ERROR_AS_ANSWER, *events) == []
