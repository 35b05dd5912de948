"""Replies read into the neutral form and written again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.catalogue.model.replies import BERN, CALL, CALLS, FINAL, FORMS, TEXT, USER, ZURICH, streamed
from windtunnel.dialects import event_stream as sse
from windtunnel.dialects.model_messages import ModelReply, ToolCall
from windtunnel.faults.catalogue.model.content import APIS, whole_body, with_body

SAID = pytest.mark.parametrize("said", [TEXT, CALL, CALLS, FINAL], ids=["text", "call", "calls", "final"])
FORM = pytest.mark.parametrize("form", FORMS, ids=str)
THINKING = {"type": "thinking", "thinking": "Zurich first, then Bern, I think.", "signature": "c2ln"}
OBJECTS = st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=4)


@FORM
@SAID
def test_a_reply_is_read_as_what_was_said(form, said):
    assert form.said(form.reply(said)) == said


@FORM
@SAID
def test_what_is_written_unchanged_is_the_same_body(form, said):
    api = APIS[form.dialect]
    body = whole_body(api, form.reply(said))
    assert api.write(body, said) == body
    assert whole_body(api, with_body(api, form.reply(said), body)) == body


@FORM
@given(words=st.text(), values=OBJECTS)
def test_any_text_and_arguments_survive_being_written_and_read(form, words, values):
    wanted = ModelReply(
        words, (ToolCall("calculate", json.dumps(values, ensure_ascii=False), "x1"),), "tool_calls"
    )
    api, reply = APIS[form.dialect], form.reply(CALL)
    assert form.said(with_body(api, reply, api.write(whole_body(api, reply), wanted))) == wanted


def test_blocks_of_other_kinds_stay_where_they_are():
    api = APIS["anthropic"]
    body = {**whole_body(api, FORMS[2].reply(CALL)), "content": [THINKING]}
    written = api.write(body, CALL)
    assert [block["type"] for block in written["content"]] == ["thinking", "text", "tool_use"]
    assert whole_body(api, streamed("anthropic", written)) == written


def test_further_choices_stay_as_they_are():
    form = FORMS[0]
    body = form.reply(TEXT).json()
    body["choices"].append({"index": 1, "message": {"role": "assistant", "content": "b"}})
    written = APIS["openai"].write(body, ModelReply("a"))
    assert [choice["message"]["content"] for choice in written["choices"]] == ["a", "b"]
    again = whole_body(APIS["openai"], streamed("openai", written))
    assert [choice["message"]["content"] for choice in again["choices"]] == ["a", "b"]


@FORM
def test_the_conversation_is_read_from_the_request(form):
    talk = APIS[form.dialect].talk(form.this(ZURICH, BERN).request)
    assert talk.user == USER and talk.calls == (ZURICH, BERN)
    assert [tool.name for tool in talk.tools] == ["get_weather", "calculate", "Report"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_events_are_split_at_blank_lines_whatever_the_line_end(line_end):
    body = "event: a\ndata: 1\n\n: ping\n\ndata: [2,\ndata: 3]\n\n".replace("\n", line_end).encode()
    found = list(sse.split(body))
    assert b"".join(found) == body
    assert [sse.value_of(event) for event in found] == [1, None, [2, 3]]


@pytest.mark.parametrize("name", ["groq_calls", "openai_text", "anthropic_calls"])
def test_streams_as_the_providers_write_them_are_read(name):
    sample = Path(__file__).with_name("samples") / f"{name}.txt"
    api = APIS["anthropic" if name.startswith("anthropic") else "openai"]
    body = api.collect(sse.split(sample.read_bytes()))
    said = api.read(body)
    assert api.read(api.collect(api.spread(body))) == said
    if name.endswith("text"):
        assert said == ModelReply("Hello there.", (), "stop") and body["usage"]["total_tokens"] == 12
    else:
        assert [call.values() for call in said.calls] == [{"city": "Zurich"}, {"city": "Bern"}]
