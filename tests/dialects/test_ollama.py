"""Ollama's own API: lines of JSON, arguments that are objects, errors that are texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.forms import CALL, TEXT, ZURICH, Form, events
from wirefault.dialects.base import ModelReply, NotInDialect, error_reply, reply_body
from wirefault.dialects.http import Reply, Request, json_reply
from wirefault.dialects.ollama import OLLAMA
from wirefault.dialects.outages import model_outage
from wirefault.dialects.stream_forms import JSON_LINES, recorded_events, split_stream
from wirefault.dialects.token_usage import TokenUsage, may_have_usage, read_stream_usage, read_usage
from wirefault.gateway.exchange.reply_changes import EventSplitter

LINES = (("Content-Type", "application/x-ndjson"),)
STREAM = Form("ollama", True)
GENERATED = {
    "model": "m",
    "created_at": "t",
    "response": "Hello there, Bob.",
    "done": True,
    "done_reason": "stop",
}
COUNTS = {"prompt_eval_count": 9, "eval_count": 7}


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_lines_split_at_any_chunk_boundary() -> None:
    body = STREAM.reply(CALL).body
    for size in (1, 7, len(body)):
        splitter = EventSplitter(JSON_LINES)
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        assert [event for piece in pieces for event in splitter.feed(piece)] == events(CALL, STREAM)
        assert splitter.rest == b""


def test_generated_text_is_read_changed_and_streamed() -> None:
    assert OLLAMA.read_reply(GENERATED) == ModelReply("Hello there, Bob.", (), "stop")
    changed = OLLAMA.write_reply({**GENERATED, **COUNTS}, ModelReply("No.", (), "length"))
    assert (changed["response"], changed["done_reason"], changed["eval_count"]) == ("No.", "length", 7)
    stream = Reply(LINES, b"".join(OLLAMA.spread({**GENERATED, **COUNTS})))
    assert reply_body(OLLAMA, stream) == {**GENERATED, **COUNTS}
    kinds = [OLLAMA.kind_of(event) for event in stream.events()]
    assert kinds == ["text", "text", "finish"]
    with pytest.raises(NotInDialect):
        OLLAMA.write_reply(GENERATED, CALL)


def test_generate_prompt_is_user_text() -> None:
    request = Request(method="POST", target="/api/generate").with_json({"model": "m", "prompt": "Hi"})
    assert OLLAMA.read_request(request).user == "Hi"


def test_thinking_is_joined_and_excluded_from_answer() -> None:
    thoughts = [{"message": {"role": "assistant", "content": "", "thinking": piece}} for piece in ("Hm", "m")]
    end = {"message": {"role": "assistant", "content": "Yes"}, "done": True}
    body = OLLAMA.collect(split_stream(JSON_LINES, lines(*thoughts, end)))
    assert body["message"]["thinking"] == "Hmm" and OLLAMA.read_reply(body).text == "Yes"
    assert OLLAMA.collect(OLLAMA.spread(body)) == body
    assert OLLAMA.kind_of(lines(thoughts[0])) == "text"


def test_removed_end_keeps_its_text() -> None:
    last = {"model": "m", "message": {"role": "assistant", "content": "Bye"}, "done": True, "eval_count": 3}
    assert OLLAMA.without_finish(lines(last)) == lines(
        {"model": "m", "message": {"role": "assistant", "content": "Bye"}, "done": False}
    )
    assert OLLAMA.without_finish(lines({"model": "m", "done": True})) == b""
    assert OLLAMA.without_finish(lines({"model": "m", "done": False})) is None


@pytest.mark.parametrize(
    "body", [{**GENERATED, **COUNTS}, {"model": "m", "message": {"content": "a"}, **COUNTS}]
)
def test_tokens_are_read_with_message(body: dict[str, Any]) -> None:
    expected = TokenUsage("m", 9, 7)
    assert may_have_usage(lines(body)) and read_usage(body) == expected
    first = {"model": "m", "message": {"content": "a"}, "done": False}
    assert read_stream_usage(lines(first, body)) == expected
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in (lines(first), lines(body)))
    assert read_stream_usage(chunked) == expected


def test_calls_without_ids_are_read() -> None:
    call = {"function": {"name": "get_weather", "arguments": {"city": "Zurich", "days": 2}}}
    reply = OLLAMA.read_reply({"message": {"content": "", "tool_calls": [call]}, "done": True})
    assert reply.calls[0].values() == ZURICH.values() and (reply.calls[0].id, reply.finish) == (
        "",
        "tool_calls",
    )


def test_non_object_arguments_are_invalid() -> None:
    body = Form("ollama", False).reply(CALL).json()
    broken = CALL.with_calls(ZURICH.__class__("get_weather", '{"city": ', "c1"))
    with pytest.raises(NotInDialect):
        OLLAMA.write_reply(body, broken)


def test_errors_are_texts() -> None:
    reply = error_reply(OLLAMA, "not_found", model="qwen3")
    assert (reply.status, reply.json()) == (404, {"error": "model 'qwen3' not found"})
    with pytest.raises(NotInDialect):
        error_reply(OLLAMA, "content_filter")


@pytest.mark.parametrize(
    ("reply", "outage"),
    [
        (json_reply(503, {"error": "server busy"}), "it answered 503"),
        (json_reply(404, {"error": "model 'm' not found"}), "it answered 404"),
        (json_reply(400, {"error": "m does not support tools"}), ""),
        (json_reply(200, {"error": "out of memory"}), "it answered 200 with an error: out of memory"),
        (
            Reply(
                LINES, lines({"message": {"content": "a"}, "done": False}, {"error": "the runner stopped"})
            ),
            "it answered 200 with an error: the runner stopped",
        ),
        (
            Reply(LINES, lines({"message": {"content": "a"}, "done": False})),
            "it answered 200 with a stream that ended without its end",
        ),
        (Reply(LINES, b""), "it answered 200 with an empty body"),
        (STREAM.reply(TEXT), ""),
    ],
)
def test_outage_forms(reply: Reply, outage: str) -> None:
    assert model_outage(OLLAMA, reply, whole=True) == outage


def test_recorded_stream_is_distinguished_from_json() -> None:
    assert recorded_events(STREAM.reply(TEXT).body.decode()) == events(TEXT, STREAM)
    assert recorded_events(lines({"message": {"content": "a"}, "done": False}).decode())
    assert recorded_events(Form("ollama", False).reply(TEXT).body.decode()) == []
    assert recorded_events(json.dumps({"choices": []}, indent=1)) == []
    assert recorded_events("") == recorded_events('{"a": 1') == []
