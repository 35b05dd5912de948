"""Answers that are tool calls written as text, and answers that quote JSON on purpose."""

from __future__ import annotations

import json

import pytest

from tests.judging.oracle.histories import (
    ASK_BOB,
    ended,
    episode,
    exchange,
    judge_episode,
    started,
)
from wirefault.history.events import ToolCalled

CALL = {"name": "get_weather", "arguments": {"city": "Paris"}}
TEXT = json.dumps(CALL)
OTHER = {"name": "send_message", "arguments": {"to": "Bob", "body": "hi"}}


def judged(answer, *more, prompt="How warm is it in Paris?", expect=ASK_BOB):
    begin = started(expect, prompt=prompt)
    body = episode(ended(ended_by="text", response=answer), *more)
    return judge_episode([begin, *body[1:]])


CALLS_AS_TEXT = [
    TEXT,
    f"```json\n{TEXT}\n```",
    f"```\n{TEXT}\n```\n```json\n{json.dumps(OTHER)}\n```",
    f"<tool_call>\n{TEXT}\n</tool_call>",
    f"<|python_tag|>{json.dumps({'name': 'get_weather', 'parameters': {'city': 'Paris'}})}",
    f"[TOOL_CALLS] [{TEXT}]",
    json.dumps({"type": "function", "function": {**CALL, "arguments": json.dumps(CALL["arguments"])}}),
    json.dumps({"tool_calls": [{"id": "1", "type": "function", "function": CALL}]}),
    json.dumps({"tool": "get_weather", "tool_input": {"city": "Paris"}}),
    '<function=get_weather>{"city": "Paris"}</function>',
    'get_weather(city="Paris")',
    f"{TEXT}\n{json.dumps(OTHER)}",
]


@pytest.mark.parametrize("answer", CALLS_AS_TEXT)
def test_tool_call_as_text_is_flagged_and_not_answer(answer):
    verdict = judged(answer)
    assert "tool_call_as_text" in verdict.flags
    assert (verdict.outcome, verdict.claim) == ("failure", "none")
    assert "the answer is a tool call as text: get_weather" in verdict.why


def test_value_of_a_tool_call_as_text_is_none():
    verdict = judged(TEXT, expect={"values": [{"number": 8.4, "unit": "celsius"}]})
    assert (verdict.value, verdict.claim) == ("none", "none")


@pytest.mark.parametrize(
    ("expect", "outcome"), [(None, "unjudged"), ({"effects": []}, "unconfirmed"), (ASK_BOB, "failure")]
)
def test_tool_call_as_text_is_judged_by_world(expect, outcome):
    assert judged(TEXT, expect=expect).outcome == outcome


ANSWERS = [
    "It is 8.4 degrees in Paris.",
    f"I called the tool with {TEXT}, and it is 8.4 degrees.",
    f"```json\n{TEXT}\n```\nThis call failed, so I do not know.",
    json.dumps({"name": "Alice", "arguments": {"for": 1, "against": 2}}),
    json.dumps({"city": "Paris", "temp_c": 8.4}),
    json.dumps([{"name": "get_weather"}]),
    json.dumps({"name": "get_weather", "result": 8.4}),
    json.dumps({"name": "delete_everything", "arguments": {}}),
    f"[{TEXT}, 8.4]",
    "print(8.4)",
    "{",
    "[" * 100_000,
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer[:40])
def test_answer_with_json_is_an_answer(answer):
    verdict = judged(answer)
    assert "tool_call_as_text" not in verdict.flags
    assert verdict.claim != "none"


@pytest.mark.parametrize(
    "prompt", ["Which call would you make? Answer with JSON.", "Write the call of get_weather for Paris."]
)
def test_quote_requested_by_prompt_is_answer(prompt):
    assert judged(TEXT, prompt=prompt).flags == []


def test_quote_of_executed_call_is_answer():
    made = ToolCalled(
        104.0, "001", 1, 1, 0, "get_weather", "weather", CALL["arguments"], "f", 1, 1, True, "none", "8.4"
    )
    assert judged(TEXT, made).flags == []


def test_text_expected_by_oracle_is_answer():
    verdict = judged(TEXT, expect={"answer": {"contains": "Paris"}})
    assert (verdict.value, verdict.claim) == ("right", "unclear")


OFFERED = {
    "messages": [],
    "tools": [{"type": "function", "function": {"name": "book_table", "parameters": {}}}],
}
BOOKING = json.dumps({"name": "book_table", "arguments": {"for": 2}})


@pytest.mark.parametrize(("body", "flagged"), [(OFFERED, True), ({"messages": []}, False)])
def test_offered_tools_are_read_from_requests(body, flagged):
    model_request = exchange(
        link="llm",
        dialect="openai_chat",
        method="POST",
        target="/v1/chat/completions",
        request_body=json.dumps(body),
    )
    assert ("tool_call_as_text" in judged(BOOKING, model_request).flags) is flagged
