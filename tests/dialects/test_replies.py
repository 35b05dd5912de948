"""Replies read into the neutral form and written again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.forms import BERN, CALL, CALLS, FINAL, FORMS, TEXT, USER, ZURICH, streamed
from wirefault.dialects.base import ModelReply, ToolCall, reply_body, with_reply_body

REPLIES = pytest.mark.parametrize(
    "model_reply", [TEXT, CALL, CALLS, FINAL], ids=["text", "call", "calls", "final"]
)
FORM = pytest.mark.parametrize("form", FORMS, ids=str)
THINKING = {"type": "thinking", "thinking": "Zurich first, then Bern, I think.", "signature": "c2ln"}
OBJECTS = st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=4)


@FORM
@REPLIES
def test_reply_is_read_as_answer(form, model_reply):
    assert form.read(form.reply(model_reply)) == model_reply


@FORM
@REPLIES
def test_unchanged_reply_writes_equal_body(form, model_reply):
    dialect, reply = form.model_dialect, form.reply(model_reply)
    body = reply_body(dialect, reply)
    assert dialect.write_reply(body, model_reply) == body
    assert reply_body(dialect, with_reply_body(dialect, reply, body)) == body


@FORM
@given(words=st.text(), values=OBJECTS)
def test_arbitrary_text_and_arguments_round_trip(form, words, values):
    call = ToolCall("calculate", json.dumps(values, ensure_ascii=False), "x1")
    changed = ModelReply(words, (call,), "tool_calls")
    dialect, reply = form.model_dialect, form.reply(CALL)
    written = dialect.write_reply(reply_body(dialect, reply), changed)
    assert form.read(with_reply_body(dialect, reply, written)) == changed


def test_other_blocks_keep_their_position():
    form = FORMS[2]
    body = {**reply_body(form.model_dialect, form.reply(CALL)), "content": [THINKING]}
    written = form.model_dialect.write_reply(body, CALL)
    assert [block["type"] for block in written["content"]] == ["thinking", "text", "tool_use"]
    assert reply_body(form.model_dialect, streamed("anthropic", written)) == written


def test_further_choices_stay_unchanged():
    form = FORMS[0]
    body = form.reply(TEXT).json()
    body["choices"].append({"index": 1, "message": {"role": "assistant", "content": "b"}})
    written = form.model_dialect.write_reply(body, ModelReply("a"))
    assert [choice["message"]["content"] for choice in written["choices"]] == ["a", "b"]
    again = reply_body(form.model_dialect, streamed("openai_chat", written))
    assert [choice["message"]["content"] for choice in again["choices"]] == ["a", "b"]


NOT_IN_REPLY = {"ollama": {"id-1"}, "bedrock": {"id-1", "m"}}


@FORM
@REPLIES
def test_reply_can_be_built_from_scratch(form, model_reply):
    empty = form.model_dialect.new_reply("id-1", "m", 5)
    body = form.model_dialect.write_reply(empty, model_reply)
    assert form.model_dialect.read_reply(body) == model_reply
    assert {"id-1", "m"} - set(map(str, body.values())) <= NOT_IN_REPLY.get(form.dialect, set())


@FORM
def test_conversation_is_read_from_request(form):
    request = form.model_dialect.read_request(form.request(ZURICH, BERN))
    assert request.user == USER and request.calls == (ZURICH, BERN)
    assert [tool.name for tool in request.tools] == ["get_weather", "calculate", "Report"]
