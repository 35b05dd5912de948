"""Requests of every API converted to chat completions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.forms import BERN, ZURICH, Form
from wirefault.dialects import chat_apis
from wirefault.dialects.http import Request
from wirefault.dialects.registry import MODEL_DIALECTS

CHAT = Form("openai_chat", False)


def as_chat(
    dialect: str, body: dict[str, Any], target: str = "/v1beta/models/m:generateContent"
) -> dict[str, Any]:
    return chat_apis.as_chat(MODEL_DIALECTS[dialect], Request(target=target).with_json(body))


@pytest.mark.parametrize("dialect", MODEL_DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_conversation_is_equal_in_all_dialects(dialect, stream):
    chatted = chat_apis.as_chat(MODEL_DIALECTS[dialect], Form(dialect, stream).request(ZURICH, BERN))
    written = CHAT.request(ZURICH, BERN).json()
    assert [chatted[key] for key in ("model", "messages", "tools")] == [
        written[key] for key in ("model", "messages", "tools")
    ]
    assert chatted["stream"] == stream


def test_parallel_calls_are_one_message():
    calls = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in (ZURICH, BERN)
    ]
    output = [{"type": "input_text", "text": "warm"}]
    result = {"type": "function_call_output", "call_id": ZURICH.id, "output": output}
    items = [
        {"role": "assistant", "content": "I look."},
        {"type": "reasoning", "summary": []},
        *calls,
        result,
    ]
    reply, answers = as_chat("openai_responses", {"input": items})["messages"]
    assert (reply["content"], [call["id"] for call in reply["tool_calls"]]) == ("I look.", ["c1", "c2"])
    assert answers == {"role": "tool", "tool_call_id": "c1", "content": "warm"}


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai_responses", {"instructions": "Be brief.", "input": "Hi"}),
        (
            "anthropic",
            {
                "system": [{"type": "text", "text": "Be brief."}],
                "messages": [{"role": "user", "content": "Hi"}],
                "max_tokens": 9,
            },
        ),
        (
            "gemini",
            {
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "contents": [{"parts": [{"text": "Hi"}]}],
            },
        ),
    ],
)
def test_instructions_become_system_message(dialect, body):
    messages = as_chat(dialect, body)["messages"]
    assert messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def test_error_result_is_marked():
    result = {"type": "tool_result", "tool_use_id": "t", "content": "12 of 12", "is_error": True}
    body = {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [result, {"type": "text", "text": "so?"}]}],
    }
    answers, user = as_chat("anthropic", body)["messages"]
    assert answers["content"] == '{"error": "12 of 12"}' and user == {"role": "user", "content": "so?"}


def test_results_without_ids_match_calls_in_order():
    calls = [{"functionCall": {"name": "get_weather", "args": {"city": city}}} for city in ("Zurich", "Bern")]
    results = [
        {"functionResponse": {"name": "get_weather", "response": {"result": city}}}
        for city in ("cold", "warm")
    ]
    contents = [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    reply, *answers = as_chat("gemini", {"contents": contents})["messages"]
    assert [message["tool_call_id"] for message in answers] == [call["id"] for call in reply["tool_calls"]]
    assert [message["content"] for message in answers] == ["cold", "warm"]
