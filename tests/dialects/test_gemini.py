"""Gemini's dialect: features only its API has, and its official client reading our replies."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest

from tests.dialects.forms import CALL, CALLS, TEXT, TOOLS, USER, ZURICH
from tests.dialects.gemini_forms import gemini_client, gemini_reply, gemini_request
from tests.upstream import Upstream, requests_of, whole
from wirefault.dialects.base import ModelReply, ToolCall, before_finish, error_reply, typed_error
from wirefault.dialects.conversation import read_conversation, role_of, text_of
from wirefault.dialects.gemini import GEMINI
from wirefault.dialects.http import Reply, Request, json_reply, split_events, write_event

STREAM = (("Content-Type", "text/event-stream"),)
SAID = pytest.mark.parametrize("scripted", [TEXT, CALL, CALLS], ids=["text", "call", "calls"])


@contextmanager
def server(reply: Reply) -> Iterator[str]:
    """The address of a model that always gives that reply."""

    def serve(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            connection.sendall(b"".join(whole(reply)))

    with Upstream(serve) as upstream:
        yield upstream.address.url


def client_reply(reply: Reply) -> tuple[ModelReply, int | None]:
    with server(reply) as url, gemini_client(url) as client:
        return client.ask(gemini_request(USER, (ZURICH,), TOOLS), stream=reply.is_event_stream)


def rewritten(reply: ModelReply, *, stream: bool) -> Reply:
    body = gemini_reply(reply)
    body = GEMINI.write_reply(body, GEMINI.read_reply(body))
    return Reply(STREAM, b"".join(GEMINI.spread(body))) if stream else json_reply(200, body)


@SAID
@pytest.mark.parametrize("stream", [False, True])
def test_official_client_sees_no_difference(scripted, stream):
    seen, tokens = client_reply(rewritten(scripted, stream=stream))
    assert (seen.text, seen.calls, seen.finish, tokens) == (
        scripted.text,
        scripted.calls,
        "STOP",
        16,
    )


@SAID
def test_streamed_reply_round_trips(scripted):
    body = gemini_reply(scripted)
    assert GEMINI.read_reply(body) == scripted
    assert GEMINI.collect(GEMINI.spread(body)) == body


def test_malformed_call_sets_api_finish_reason():
    broken = CALLS.with_call(1, ToolCall("get_weather", '{"city": "Be', "c2"))
    seen, _ = client_reply(json_reply(200, GEMINI.write_reply(gemini_reply(CALLS), broken)))
    assert seen.finish == "MALFORMED_FUNCTION_CALL" and seen.calls == CALLS.calls[:1]


def test_signatures_and_thoughts_keep_their_position():
    body = gemini_reply(CALL)
    parts = body["candidates"][0]["content"]["parts"]
    parts.insert(0, {"text": "Zurich first.", "thought": True})
    parts[-1]["thoughtSignature"] = "c2ln"
    changed = GEMINI.write_reply(body, CALL.with_call(0, ToolCall("other", "{}", "c9")))
    assert GEMINI.read_reply(body) == CALL
    assert changed["candidates"][0]["content"]["parts"] == [
        *parts[:2],
        {"thoughtSignature": "c2ln", "functionCall": {"id": "c9", "name": "other", "args": {}}},
    ]


def test_missing_call_id_stays_missing():
    body = gemini_reply(CALL)
    body["candidates"][0]["content"]["parts"][1]["functionCall"].pop("id")
    assert GEMINI.read_reply(body).calls[0].id == ""
    assert GEMINI.write_reply(body, GEMINI.read_reply(body)) == body


def test_content_next_to_finish_reason_is_kept():
    event = write_event(gemini_reply(TEXT))
    assert GEMINI.kind_of(event) == "text"
    left = before_finish(GEMINI, event, "text")
    assert left is not None and GEMINI.read_reply(GEMINI.collect([left])) == ModelReply(TEXT.text, (), "")
    assert before_finish(GEMINI, left, "text") is None


def test_stream_can_break_inside_arguments():
    event = write_event(gemini_reply(CALLS))
    cut = GEMINI.with_arguments(event, '{"city": "Zur')
    assert cut.endswith(b'"args": {"city": "Zur') and GEMINI.calls_begun(event) == 2
    assert GEMINI.calls_begun(GEMINI.with_arguments(event, GEMINI.arguments_in(event))) == 1


@pytest.mark.parametrize("path", ["generateContent", "streamGenerateContent?alt=sse"])
def test_request_is_read_in_either_spelling(path):
    schema = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}
    body = {
        "contents": [
            {"parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [{"function_call": {"name": "find", "args": {"city": "Bern"}}}]},
        ],
        "tools": [{"function_declarations": [{"name": "find", "parameters": schema}]}],
    }
    request = Request((), json.dumps(body).encode(), "POST", f"/v1beta/models/gemini-x:{path}")
    read = GEMINI.read_request(request)
    assert (read.user, read.model) == ("Hi", "gemini-x")
    assert read.calls == (ToolCall("find", '{"city": "Bern"}'),)
    assert read.tools[0].property("city") == {"type": "string"}


def test_conversation_is_system_instruction_and_contents():
    body = gemini_request(USER, (ZURICH,), {}) | {
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]}
    }
    chat = read_conversation(Request((), json.dumps(body).encode()), "gemini")
    assert [role_of(message) for message in chat.messages] == ["system", "user", "assistant", "tool"]
    assert text_of(chat.messages[0]) == "Be brief." and text_of(chat.messages[3]) == '{"temperature": 21.5}'
    assert chat.as_body() == body


def test_result_text_keeps_its_key():
    result = {"name": "find", "response": {"result": "21.5 degrees"}}
    body = {"contents": [{"role": "user", "parts": [{"functionResponse": result}]}]}
    chat = read_conversation(Request((), json.dumps(body).encode()), "gemini")
    chat.messages[0]["content"][0]["content"] = "2.15 degrees"
    [part] = chat.as_body()["contents"][0]["parts"]
    assert part["functionResponse"]["response"] == {"result": "2.15 degrees"}


@pytest.mark.parametrize(
    ("kind", "status", "name"),
    [
        ("rate_limit", 429, "RESOURCE_EXHAUSTED"),
        ("auth_error", 400, "INVALID_ARGUMENT"),
        ("overloaded", 503, "UNAVAILABLE"),
        ("not_found", 404, "NOT_FOUND"),
    ],
)
def test_error_body_has_status_and_status_name(kind, status, name):
    error = error_reply(GEMINI, kind).json()["error"]
    assert (error["code"], error["status"]) == (status, name)


@pytest.mark.parametrize(
    ("status", "type", "name"),
    [(429, "too_many_requests", "RESOURCE_EXHAUSTED"), (599, "status_599", "UNKNOWN")],
)
def test_any_error_status_has_api_name(status, type, name):
    error = typed_error(GEMINI, status, type, "words").json()["error"]
    assert (error["code"], error["status"], error["message"]) == (status, name, "words")


def test_official_client_raises_error():
    with pytest.raises(import_module("google.genai.errors").ClientError) as raised:
        client_reply(error_reply(GEMINI, "rate_limit"))
    assert (raised.value.code, raised.value.status) == (429, "RESOURCE_EXHAUSTED")


def test_blocked_prompt_has_no_candidate():
    seen, _ = client_reply(error_reply(GEMINI, "content_filter"))
    assert seen == ModelReply("", (), "")


def test_api_chunks_are_read():
    half = gemini_reply(ModelReply("Hel"))
    half["candidates"][0].pop("finishReason")
    stream = write_event(half) + write_event(gemini_reply(ModelReply("lo.")))
    whole_reply = GEMINI.collect(split_events(stream.replace(b"\n", b"\r\n")))
    assert GEMINI.read_reply(whole_reply) == ModelReply("Hello.")
