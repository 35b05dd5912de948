"""The scripted model over real HTTP: requests that it accepts and refuses, and its replies."""

import json

import pytest
import requests

from tests.model_server.exchange import CALL, DONE, REPORT, WEATHER, body, form, post, reply_to, tool


def test_health_and_models(url):
    assert requests.get(url, timeout=30).json() == {"status": "OK"}
    for path in ("/openai/v1/models", "/v1/models"):
        listed = requests.get(url + path, timeout=30).json()["data"]
        assert {"scripted", "scripted-fabricator"} <= {model["id"] for model in listed}


@pytest.mark.parametrize("path", ["/openai/v1", "/v1"])
def test_completion_has_tool_call_and_usage(url, path):
    reply = post(url, body(tools=[tool(WEATHER)]), path).json()
    (choice,) = reply["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(call["function"]["arguments"]) == CALL[0].arguments
    assert reply["usage"]["total_tokens"] == sum(
        reply["usage"][f"{k}_tokens"] for k in ("prompt", "completion")
    )
    assert reply["created"] == 1772409600


def test_ids_repeat_with_seed_and_differ_with_another(url):
    ids = [post(url, body(seed=seed)).json()["id"] for seed in (7, 7, 8)]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("model", "persona"),
    [
        ("scripted-quitter", "quitter"),
        ("openai/scripted-quitter", "quitter"),
        ("scripted", "stubborn"),
        ("gpt-5", "stubborn"),
    ],
)
def test_any_model_name_is_accepted(url, model, persona):
    assert reply_to(url, prompt="who?", model=model)["content"] == persona


def test_typist_writes_tool_call_as_text(url):
    decided = {"tools": [tool(WEATHER)], "model": "scripted-typist"}
    message = reply_to(url, **decided)
    assert not message.get("tool_calls")
    written = json.loads(message["content"].removeprefix("```json\n").removesuffix("\n```"))
    assert written == {"name": CALL[0].name, "arguments": CALL[0].arguments}


IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
HUMID = {"type": "object", "properties": {"humidity": {"type": "number"}}, "required": ["humidity"]}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
AFTER = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@pytest.mark.parametrize(
    ("wrong", "status", "code", "words"),
    [
        (b"{", 400, "invalid_json", "JSON"),
        (b"\xff\xfe", 400, "invalid_json", "JSON"),
        (b"[" * 100_000, 400, "invalid_json", "JSON"),
        (b"[]", 400, "invalid_request", "body"),
        ({"model": "scripted-sleeper"}, 404, "model_not_found", "scripted-sleeper"),
        ({"model": 3}, 400, "invalid_request", "model"),
        ({"messages": None}, 400, "invalid_request", "messages"),
        ({"messages": []}, 400, "invalid_request", "messages"),
        ({"messages": [{"role": "user"}]}, 400, "invalid_request", "messages.0"),
        ({"messages": [{"role": "king", "content": ""}]}, 400, "invalid_request", "messages.0.role"),
        ({"messages": ["hi"]}, 400, "invalid_request", "messages.0"),
        ({"messages": IMAGE}, 400, "invalid_request", "only text is supported here, not image_url"),
        ({"tools": [{"function": {}}]}, 400, "invalid_request", "tools.0.function.name"),
        ({"seed": "x"}, 400, "invalid_request", "seed"),
        ({"stream": "yes"}, 400, "invalid_request", "stream"),
        ({"n": 2}, 400, "invalid_request", "'n'"),
        ({"logprobs": True}, 400, "invalid_request", "logprobs"),
        ({"functions": [WEATHER]}, 400, "invalid_request", "send 'tools'"),
        ({"modalities": ["audio"]}, 400, "invalid_request", "modalities"),
        ({"response_format": {"type": "xml"}}, 400, "invalid_request", "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, 400, "invalid_request", "response_format"),
        ({"tool_choice": "required"}, 400, "no_call", DONE.text),
        ({"tool_choice": NAMED}, 400, "invalid_request", "get_weather"),
        ({"tool_choice": {"type": "allowed_tools"}}, 400, "invalid_request", "tool_choice"),
        ({"response_format": form(HUMID)}, 400, "cannot_fill", "humidity"),
        (
            {"tools": [tool({**REPORT, "parameters": HUMID})], "tool_choice": "required"},
            400,
            "cannot_fill",
            "humidity",
        ),
        (
            {"tools": [tool(WEATHER)], "tool_choice": NAMED, "messages": AFTER},
            400,
            "no_call",
            DONE.text,
        ),
    ],
)
def test_unsupported_request_is_provider_error_with_reason(url, wrong, status, code, words):
    data = wrong if isinstance(wrong, bytes) else json.dumps(body("hi") | wrong).encode()
    reply = requests.post(f"{url}/v1/chat/completions", data=data, timeout=20)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, code)
    assert words in error["message"]
    assert "type" in error


def test_unknown_paths_and_methods_are_json_too(url):
    assert requests.get(f"{url}/nowhere", timeout=30).json()["error"]["code"] == "unknown_url"
    assert requests.get(f"{url}/v1/chat/completions", timeout=30).status_code == 405


@pytest.mark.parametrize("base", ["/openai/v1", "/v1"])
def test_extra_client_requests_are_accepted(url, base):
    assert requests.post(f"{url}{base}/traces/ingest", json={"data": []}, timeout=30).status_code == 204
    counted = requests.post(f"{url}{base}/responses/input_tokens", json={"input": "four words"}, timeout=30)
    assert counted.json()["input_tokens"] > 0
