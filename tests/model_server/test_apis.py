"""The scripted model in every API: final forms, the choice of tools, and refusals in the API's own words."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tests.dialects.forms import Form
from tests.model_server.exchange import CALL, CITY, DONE, PROMPT
from wirefault.dialects.base import ModelReply
from wirefault.dialects.http import Reply
from wirefault.dialects.outages import UNABLE_HEADER

HUMID = {"type": "object", "properties": {"humidity": {"type": "number"}}, "required": ["humidity"]}
PATHS = {
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/scripted:generateContent",
}
TOOL: dict[str, Any] = {"name": "get_weather", "description": "Gets the weather of a city"}
REPORT = {**TOOL, "name": "Report", "description": "Report to the user; ends the task."}
FUNCTION = {"type": "function", **TOOL, "parameters": CITY}
DECLARED = [{"functionDeclarations": [{**TOOL, "parameters": CITY}, {**REPORT, "parameters": CITY}]}]
ANTHROPIC_TOOL = {**TOOL, "input_schema": CITY}


IMAGE = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]


def request_body(dialect: str, **more: Any) -> dict[str, Any]:
    """The body of a request that asks for the weather."""
    user = {"role": "user", "content": PROMPT}
    bodies: dict[str, dict[str, Any]] = {
        "openai_responses": {"model": "scripted", "input": PROMPT},
        "anthropic": {"model": "scripted", "max_tokens": 99, "messages": [user]},
        "gemini": {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]},
    }
    return {**bodies[dialect], **more}


def post(url: str, dialect: str, path: str = "", **more: Any) -> requests.Response:
    return requests.post(url + (path or PATHS[dialect]), json=request_body(dialect, **more), timeout=20)


def reply_to(url: str, dialect: str, **more: Any) -> ModelReply:
    reply = post(url, dialect, **more)
    assert reply.status_code == 200, reply.text
    headers = (("Content-Type", reply.headers["Content-Type"]),)
    return Form(dialect, stream=False).read(Reply(headers, reply.content))


@pytest.mark.parametrize("base", ["/v1", "/openai/v1"])
@pytest.mark.parametrize(
    ("dialect", "end"),
    [
        ("openai_responses", "/responses"),
        ("anthropic", "/messages"),
        ("gemini", "/models/scripted:generateContent"),
    ],
)
def test_apis_are_served_under_both_base_paths(url, base, dialect, end):
    assert post(url, dialect, base + end).status_code == 200


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        ("openai_responses", {"text": {"format": {"type": "json_schema", "name": "x", "schema": CITY}}}),
        ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": CITY}}}),
        ("gemini", {"generationConfig": {"responseMimeType": "application/json", "responseSchema": CITY}}),
    ],
)
def test_answer_has_requested_form(url, dialect, more):
    assert reply_to(url, dialect).text == DONE.text
    assert reply_to(url, dialect, **more).text == '{"city": "Paris"}'


@pytest.mark.parametrize(
    ("dialect", "more", "name"),
    [
        ("openai_responses", {"tools": [FUNCTION], "tool_choice": "required"}, "get_weather"),
        ("openai_responses", {"tools": [FUNCTION], "tool_choice": "none"}, None),
        (
            "openai_responses",
            {
                "tools": [FUNCTION, {**FUNCTION, **REPORT}],
                "tool_choice": {"type": "function", "name": "Report"},
            },
            "Report",
        ),
        ("anthropic", {"tools": [ANTHROPIC_TOOL], "tool_choice": {"type": "any"}}, "get_weather"),
        ("anthropic", {"tools": [ANTHROPIC_TOOL], "tool_choice": {"type": "none"}}, None),
        (
            "anthropic",
            {
                "tools": [ANTHROPIC_TOOL, {**ANTHROPIC_TOOL, **REPORT}],
                "tool_choice": {"type": "tool", "name": "Report"},
            },
            "Report",
        ),
        (
            "gemini",
            {"tools": DECLARED, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
            "get_weather",
        ),
        ("gemini", {"tools": DECLARED, "toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, None),
        (
            "gemini",
            {
                "tools": DECLARED,
                "tool_config": {"function_calling_config": {"allowed_function_names": ["Report"]}},
            },
            "Report",
        ),
    ],
)
def test_tool_choice_is_respected(url, dialect, more, name):
    reply = reply_to(url, dialect, **more)
    assert [call.name for call in reply.calls] == ([name] if name else [])
    assert name != "get_weather" or reply.calls[0].values() == CALL[0].arguments


def test_item_reference_is_resolved(url):
    """As clients write it that leave earlier items to the server (Mastra)."""
    first = post(url, "openai_responses", tools=[FUNCTION]).json()
    [call] = [item for item in first["output"] if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": '{"temp": 8.4}'}
    user = {"role": "user", "content": PROMPT}
    answers = [
        post(url, "openai_responses", tools=[FUNCTION], input=[user, item, result]).json()["output"]
        for item in (call, {"type": "item_reference", "id": call["id"]})
    ]
    assert answers[0] == answers[1] and answers[0][0]["type"] == "message"


@pytest.mark.parametrize(
    ("more", "unable"),
    [
        ({"input": IMAGE}, True),
        ({"previous_response_id": "resp_1"}, True),
        ({"tools": [{"type": "web_search"}]}, True),
        ({"input": None}, False),
        ({"input": [{"type": "item_reference", "id": "x"}]}, True),
    ],
)
def test_refusal_distinguishes_scripted_model_limits(url, more, unable):
    assert (UNABLE_HEADER in post(url, "openai_responses", **more).headers) is unable


IMAGE_BLOCK = [{"role": "user", "content": [{"type": "image", "source": {}}]}]
BEGUN = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "It is"}]


@pytest.mark.parametrize(
    ("dialect", "more", "words"),
    [
        ("openai_responses", {"previous_response_id": "resp_1"}, "'previous_response_id' is not supported"),
        ("openai_responses", {"input": IMAGE}, "'input.0.content.0': only text is supported here"),
        ("openai_responses", {"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
        ("openai_responses", {"input": None}, "missing 'input'"),
        ("openai_responses", {"tools": [{"type": "web_search"}]}, "only functions are supported"),
        ("openai_responses", {"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ("openai_responses", {"text": {"format": {"type": "json_schema"}}}, "'text.format.schema'"),
        (
            "openai_responses",
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": HUMID}}},
            "humidity",
        ),
        ("anthropic", {"max_tokens": None}, "missing 'max_tokens'"),
        ("anthropic", {"messages": IMAGE_BLOCK}, "only text is supported here, not image"),
        ("anthropic", {"messages": BEGUN}, "continuing an assistant message"),
        ("anthropic", {"messages": []}, "messages"),
        ("anthropic", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0"),
        ("anthropic", {"tool_choice": {"type": "some"}}, "'tool_choice.type'"),
        ("anthropic", {"tool_choice": {"type": "any"}}, "no call to make"),
        (
            "anthropic",
            {"output_config": {"format": {"type": "json_schema", "schema": HUMID}}},
            "humidity",
        ),
        ("gemini", {"tools": [{"googleSearch": {}}]}, "only functionDeclarations are supported"),
        ("gemini", {"contents": [{"role": "user", "parts": [{"inlineData": {}}]}]}, "only text"),
        ("gemini", {"generationConfig": {"candidateCount": 2}}, "'n'"),
        ("gemini", {"generationConfig": {"responseMimeType": "text/x.enum"}}, "responseMimeType"),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}}, "mode"),
        ("gemini", {"cachedContent": "x"}, "'cachedContent' is not supported"),
    ],
)
def test_unsupported_request_is_400_in_apis_form(url, dialect, more, words):
    reply = post(url, dialect, **more)
    types = {"anthropic": ("type", "invalid_request_error"), "gemini": ("status", "INVALID_ARGUMENT")}
    key, kind = types.get(dialect, ("type", "invalid_request_error"))
    error = reply.json()["error"]
    assert (reply.status_code, error[key]) == (400, kind)
    assert words in error["message"]


def test_unknown_model_is_404_in_apis_form(url):
    reply = post(url, "anthropic", model="scripted-king")
    assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found_error")
    reply = post(url, "gemini", "/v1beta/models/scripted-king:generateContent")
    assert (reply.status_code, reply.json()["error"]["status"]) == (404, "NOT_FOUND")


def test_gemini_stream_is_events_or_json(url):
    path = "/v1beta/models/scripted:streamGenerateContent"
    assert post(url, "gemini", path + "?alt=sse").headers["Content-Type"].startswith("text/event-stream")
    assert "alt=sse" in post(url, "gemini", path).json()["error"]["message"]


@pytest.mark.parametrize("dialect", ["openai_responses", "anthropic"])
def test_each_event_is_written_separately(url, dialect):
    body = request_body(dialect, stream=True)
    with requests.post(url + PATHS[dialect], json=body, stream=True, timeout=20) as reply:
        parts = list(reply.iter_content(None))
    assert len(parts) > 5 and all(part.count(b"data: ") == 1 for part in parts)
