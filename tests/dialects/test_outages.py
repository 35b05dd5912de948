"""Outage replies in each form and dialect, and look-alikes that are answers."""

from __future__ import annotations

import json

import pytest

from tests.dialects.forms import CALL, FINAL, FORMS, STREAMS, TEXT, Form, events
from tests.support import replace
from wirefault.dialects.base import ModelReply
from wirefault.dialects.http import JSON_TYPE, Reply, json_reply
from wirefault.dialects.outages import mcp_outage, model_outage, tool_outage
from wirefault.dialects.registry import MODEL_DIALECTS

FORM = pytest.mark.parametrize("form", FORMS, ids=str)
STREAM = pytest.mark.parametrize("form", STREAMS, ids=str)
HTML = (("Content-Type", "text/html"),)
EVENTS = (("Content-Type", "text/event-stream"),)
PAGE = b"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
PROVIDER = {"message": "Provider returned error", "code": 502}
JSON_LINE = b'{"error": "Provider returned error"}\n'


def outage(form: Form, reply: Reply, **more: bool) -> str:
    return model_outage(form.model_dialect, reply, **{"whole": True, **more})


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@FORM
@pytest.mark.parametrize(
    "status", [401, 402, 403, 404, 408, 409, 425, 429, 451, 498, 500, 502, 503, 504, 529]
)
def test_status_is_outage(form, status):
    assert outage(form, json_reply(status, {"error": {"message": "no"}})) == f"it answered {status}"


@FORM
@pytest.mark.parametrize("status", [400, 413, 422])
def test_request_refusal_is_not_outage(form, status):
    body = form.model_dialect.error_body("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")
    assert outage(form, json_reply(status, body)) == ""


@pytest.mark.parametrize(
    "body",
    [
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Your credit balance is too low"},
        },
        {
            "error": {
                "code": 400,
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
            }
        },
        {
            "error": {
                "code": 400,
                "message": "User location is not supported for the API use.",
                "status": "FAILED_PRECONDITION",
            }
        },
        {"error": {"type": "insufficient_quota", "message": "You exceeded your current quota"}},
    ],
)
def test_account_refusal_is_outage_with_any_status(body):
    assert outage(FORMS[0], json_reply(400, body)) == "it answered 400"


def test_proxy_refusal_is_outage():
    assert outage(FORMS[0], Reply(HTML, PAGE, 400)) == "it answered 400"
    assert outage(FORMS[0], Reply(HTML, PAGE, 413)) == ""


@FORM
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": PROVIDER}, ": Provider returned error"),
        ({"error": PROVIDER, "choices": []}, ": Provider returned error"),
        ({"error": "upstream timed out"}, ": upstream timed out"),
        ({"error": {"code": 503}}, ""),
        ({"object": "error", "message": "engine is dead", "code": 500}, ": engine is dead"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, ": Overloaded"),
        ([{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}], ": overloaded"),
        (
            {"choices": [{"error": PROVIDER, "finish_reason": "error", "message": {}}]},
            ": Provider returned error",
        ),
        (
            {
                "id": "r",
                "object": "response",
                "status": "failed",
                "error": {"code": "server_error", "message": "x"},
                "output": [],
            },
            ": x",
        ),
        ({"error": {"message": "Rate limit reached", "code": 429}}, ": Rate limit reached"),
        (
            {"error": {"message": "no key", "type": "invalid_request_error", "code": "invalid_api_key"}},
            ": no key",
        ),
    ],
)
def test_error_in_200_is_outage(form, body, message):
    assert outage(form, json_reply(200, body)) == f"it answered 200 with an error{message}"


@FORM
@pytest.mark.parametrize(
    "error",
    [
        {"message": "context too long", "code": 400},
        {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"},
        {"message": "Invalid value", "status": "INVALID_ARGUMENT", "code": 400},
        {"message": "filtered", "code": "content_filter"},
    ],
)
def test_request_error_in_200_is_not_outage(form, error):
    assert outage(form, json_reply(200, {"error": error})) == ""


@FORM
@pytest.mark.parametrize(
    ("reply", "how"),
    [
        (Reply(HTML, PAGE), "an HTML page: 502 Bad Gateway"),
        (Reply(JSON_TYPE, b"\n<html><body>Just a moment...</body></html>"), "an HTML page"),
        (Reply(JSON_TYPE, b""), "an empty body"),
        (Reply((), b" \r\n"), "an empty body"),
        (Reply((), b"", 204), "an empty body"),
        (Reply(EVENTS, b""), "an empty body"),
        (Reply(EVENTS, b": PROCESSING\n\n: PROCESSING\n\n"), "a stream without events"),
        (json_reply(200, {}), "a body that is not a reply of a model"),
        (json_reply(200, None), "a body that is not a reply of a model"),
        (json_reply(200, {"detail": "Internal failure"}), "a body that is not a reply of a model"),
        (Reply((), b"upstream connect error or disconnect"), "a body that is not a reply of a model"),
    ],
)
def test_wrong_content_type_is_outage(form, reply, how):
    assert outage(form, reply) == f"it answered {reply.status} with {how}"


@FORM
def test_cut_body_is_outage(form):
    whole = form.reply(TEXT)
    cut = outage(form, replace(whole, body=whole.body[: len(whole.body) // 3]))
    assert cut.startswith("it answered 200 with a ")


@STREAM
def test_error_event_is_outage(form):
    first = events(TEXT, form)[:2]
    lines = [event({"error": PROVIDER}), b"event: error\ndata: Provider returned error\n\n"]
    for bad in [JSON_LINE] if form.dialect == "ollama" else lines:
        reply = form.reply(TEXT).with_body(b"".join([*first, bad]))
        assert outage(form, reply, whole=False) == "it answered 200 with an error: Provider returned error"


@STREAM
def test_unfinished_stream_is_outage(form):
    parts = events(TEXT, form)
    text_at = max(n for n, part in enumerate(parts) if form.model_dialect.kind_of(part) == "text")
    cut = form.reply(TEXT).with_body(b"".join(parts[:text_at]))
    assert outage(form, cut) == "it answered 200 with a stream that ended without its end"
    assert outage(form, cut, whole=False) == ""  # recorded elsewhere: the client left or the connection broke


@FORM
@pytest.mark.parametrize(
    "reply", [TEXT, CALL, FINAL, ModelReply("", (), "stop"), ModelReply("An error: 500", (), "length")]
)
def test_answer_is_not_outage(form, reply):
    assert outage(form, form.reply(reply)) == ""


CHAT, CHAT_STREAM = FORMS[0], FORMS[1]


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        # no finish reason, as some servers leave it out
        ("openai_chat", {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}),
        (
            "openai_chat",
            {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "error": None},
        ),
        (
            "openai_chat",
            {"choices": [{"message": {"content": "", "reasoning": "Hm"}, "finish_reason": "length"}]},
        ),
        ("openai_chat", {"choices": [{"message": {"content": "<html>"}, "finish_reason": "stop"}]}),
        ("anthropic", {"type": "message", "content": [], "stop_reason": "end_turn"}),
        ("openai_responses", {"object": "response", "status": "queued", "output": [], "error": None}),
        (
            "openai_responses",
            {
                "object": "response",
                "status": "incomplete",
                "output": [],
                "incomplete_details": {"reason": "max_output_tokens"},
            },
        ),
        ("gemini", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
        ("gemini", {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}),
    ],
)
def test_unusual_answer_is_not_outage(dialect, body):
    assert model_outage(MODEL_DIALECTS[dialect], json_reply(200, body), whole=True) == ""


def test_stream_may_end_without_done():
    parts = [part for part in events(TEXT, CHAT_STREAM) if b"[DONE]" not in part]
    assert outage(CHAT_STREAM, Reply(EVENTS, b"".join(parts))) == ""


def test_outages_of_other_paths():
    def of_list(reply: Reply) -> str:
        return model_outage(None, reply, whole=True)

    assert of_list(json_reply(200, {"object": "list", "data": []})) == of_list(Reply((), b"", 204)) == ""
    assert of_list(json_reply(200, {"error": PROVIDER})).endswith("an error: Provider returned error")
    assert of_list(Reply(HTML, PAGE)).endswith("an HTML page: 502 Bad Gateway")


@pytest.mark.parametrize(
    ("reply", "how"),
    [
        (json_reply(500, {}), "it answered 500"),
        (json_reply(408, {}), "it answered 408"),
        (json_reply(200, {"error": {"code": 503, "message": "down"}}), "it answered 200 with an error: down"),
        (
            json_reply(200, {"error": {"type": "internal_error"}}),
            "it answered 200 with an error: internal_error",
        ),
        (Reply(HTML, PAGE), "it answered 200 with an HTML page: 502 Bad Gateway"),
        (
            Reply(HTML, b"<html><h1>Down for maintenance</h1></html>"),
            "it answered 200 with an HTML page: Down for maintenance",
        ),
        (Reply(JSON_TYPE, b'{"price": 1'), "it answered 200 with a body that is not JSON"),
        # errors that the caller must handle, or requested content
        (json_reply(404, {}), ""),
        (json_reply(429, {}), ""),
        (json_reply(200, {"error": "insufficient stock"}), ""),
        (json_reply(200, {"error": {"code": 404, "message": "no such order"}}), ""),
        (Reply(HTML, b"<html><title>News: 500 people came</title></html>"), ""),
        (Reply((("Content-Type", "text/plain"),), b"{not json"), ""),
        (Reply((), b""), ""),
        (Reply((), b"", 204), ""),
    ],
)
def test_tool_outages(reply, how):
    assert tool_outage(reply, whole=True) == how


UNAVAILABLE = b"<html><body><p>503 Service Temporarily Unavailable</p></body></html>"
GRAPHQL = {"message": "boom", "extensions": {"code": "INTERNAL_SERVER_ERROR"}}


@pytest.mark.parametrize(
    ("reply", "how"),
    [
        (json_reply(200, {"error": "Internal Server Error"}), "an error: Internal Server Error"),
        (json_reply(200, {"error": "502 Bad Gateway"}), "an error: 502 Bad Gateway"),
        (json_reply(200, {"status": 500, "error": "oops"}), "an error: oops"),
        (json_reply(200, {"errors": [GRAPHQL], "data": None}), "an error: boom"),
        (Reply(HTML, UNAVAILABLE), "an HTML page: 503 Service Temporarily Unavailable"),
        (Reply(JSON_TYPE, b""), "an empty body"),
    ],
)
def test_other_tool_error_forms(reply, how):
    assert tool_outage(reply, whole=True) == f"it answered 200 with {how}"


@pytest.mark.parametrize(
    "reply",
    [
        json_reply(200, {"error": "insufficient stock"}),
        json_reply(200, {"error": "this item is currently unavailable"}),
        json_reply(200, {"error": "500 is the maximum"}),
        json_reply(200, {"error": "out of stock", "code": 409}),
        json_reply(200, {"error": None, "status": 500}),
        json_reply(200, {"errors": [GRAPHQL], "data": {"orders": []}}),
        json_reply(200, {"errors": [{"message": "unknown field", "extensions": {"code": "BAD_USER_INPUT"}}]}),
        Reply(HTML, b"<html><body><p>500 ways to make tea</p></body></html>"),
        Reply(HTML, b"<html><body>A bad gateway is one that answers with 502.</body></html>"),
        Reply(HTML, b""),
    ],
    ids=lambda reply: reply.body[:40].decode(),
)
def test_tool_answers_without_outage(reply):
    assert tool_outage(reply, whole=True) == ""


def test_html_page_for_json_request_is_outage():
    page = Reply(HTML, b"<html><title>Sign in</title></html>")
    assert tool_outage(page, whole=True) == ""
    assert tool_outage(page, whole=True, no_page=True) == "it answered 200 with an HTML page: Sign in"


def test_empty_body_or_page_for_json_client_is_outage():
    assert tool_outage(Reply((), b""), whole=True, wants_json=True) == "it answered 200 with an empty body"
    page = Reply(HTML, b"<html><title>Sign in</title></html>")
    assert tool_outage(page, whole=True, wants_json=True) == "it answered 200 with an HTML page: Sign in"


RESULT = {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": True}}


@pytest.mark.parametrize(
    ("reply", "how"),
    [
        (json_reply(503, {}), "it answered 503"),
        (Reply(HTML, PAGE), "it answered 200 with an HTML page: 502 Bad Gateway"),
        (Reply(JSON_TYPE, b""), "it answered 200 with an empty body"),
        (json_reply(200, {"ok": True}), "it answered 200 with a body that is not MCP"),
        (
            json_reply(200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "oops"}}),
            "it answered 200 with an error: oops",
        ),
        (json_reply(200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "bad"}}), ""),
        (json_reply(200, RESULT), ""),
        (Reply(EVENTS, event(RESULT)), ""),
        (json_reply(404, {}), ""),
        (Reply((), b"", 202), ""),
    ],
)
def test_mcp_outages(reply, how):
    assert mcp_outage(reply, whole=True) == how
