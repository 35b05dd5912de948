"""Faults where Gemini's API differs: calls and answers come whole, and replies name refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.forms import CALLS, TEXT, TOOLS, USER, ZURICH
from tests.dialects.gemini_forms import gemini_reply, gemini_request
from tests.faults.tries import a_try, act_of
from wirefault.dialects.base import ModelReply
from wirefault.dialects.gemini import GEMINI
from wirefault.dialects.http import JSON_TYPE, Reply, Request, json_reply, value_of, write_event
from wirefault.faults.base import Changed, Fault, Miss, Try
from wirefault.faults.catalogue.context import InjectMessage
from wirefault.faults.catalogue.http.errors import NotFoundError
from wirefault.faults.catalogue.model.calls import MalformedToolCall
from wirefault.faults.catalogue.model.provider import ContentFilter
from wirefault.faults.catalogue.model.streams import EarlyEnd, SlowFirstToken, StreamCut


def asking(**more: Any) -> Try:
    body = json.dumps(gemini_request(USER, (ZURICH,), TOOLS) | more).encode()
    request = Request(JSON_TYPE, body, "POST", "/v1beta/models/gemini-x:generateContent")
    return a_try(dialect="gemini", request=request)


def streamed(fault: Fault, *stream: bytes) -> list[bytes | float]:
    """Steps that the gateway would send for these events."""
    act = act_of(fault, asking())
    assert act.events is not None
    editor = act.events()
    steps = [step for event in stream for step in editor.event(event)]
    assert editor.why_not is None
    return [*steps, *editor.end()]


@pytest.mark.parametrize("fault", [EarlyEnd(), StreamCut(at="finish")], ids=["early_end", "stream_cut"])
def test_text_next_to_finish_reason_is_delivered(fault):
    [left] = streamed(fault, write_event(gemini_reply(TEXT)))
    assert GEMINI.read_reply(GEMINI.collect([left])) == ModelReply(TEXT.text, (), "")
    assert streamed(fault, write_event(gemini_reply(ModelReply("")))) == []


def test_single_event_answer_has_first_token():
    event = write_event(gemini_reply(TEXT))
    assert streamed(SlowFirstToken(ms=1500), event) == [1.5, event]


def test_stream_is_cut_inside_arguments():
    [cut] = streamed(StreamCut(at="arguments"), write_event(gemini_reply(CALLS)))
    assert isinstance(cut, bytes) and value_of(cut) is None
    assert cut.endswith(ZURICH.arguments[: len(ZURICH.arguments) // 2].encode())


def test_json_array_stream_is_unchanged():
    """``streamGenerateContent`` without ``alt=sse`` gives one, which no official client asks for."""
    act = act_of(MalformedToolCall(), asking())
    assert act.reply is not None
    assert act.reply(json_reply(200, [gemini_reply(CALLS)])) == Miss("unreadable")


def test_malformed_call_is_hidden():
    act = act_of(MalformedToolCall(), asking())
    done = act.reply(json_reply(200, gemini_reply(CALLS))) if act.reply else None
    assert isinstance(done, Changed) and isinstance(done.reply, Reply)
    [candidate] = done.reply.json()["candidates"]
    assert (
        candidate["finishReason"] == "MALFORMED_FUNCTION_CALL" and "get_weather" in candidate["finishMessage"]
    )


def test_filtered_request_has_no_candidate():
    answer = act_of(ContentFilter(form="error"), asking()).answer
    assert isinstance(answer, Reply) and answer.status == 200
    assert answer.json()["promptFeedback"] == {"blockReason": "PROHIBITED_CONTENT"}


def test_error_names_model_of_path():
    answer = act_of(NotFoundError(), asking()).answer
    assert isinstance(answer, Reply) and "models/gemini-x is not found" in answer.json()["error"]["message"]


def test_system_message_is_appended_to_instruction():
    tried = asking(systemInstruction={"parts": [{"text": "Be brief."}]})
    changed = act_of(InjectMessage(role="system", text="Be rude."), tried).request
    assert changed is not None
    assert changed.json()["systemInstruction"] == {"parts": [{"text": "Be brief."}, {"text": "Be rude."}]}
    assert changed.json()["contents"] == tried.request.json()["contents"]
