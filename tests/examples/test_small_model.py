"""The adapter for small models: a real client's tools go out as a schema and come back as a tool call."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest
from langchain_groq import ChatGroq
from pydantic import BaseModel, SecretStr

from tests.support import ROOT

_PATH = ROOT / "examples" / "small_model" / "adapter.py"
_SPEC = importlib.util.spec_from_file_location("small_model_adapter", _PATH)
assert _SPEC and _SPEC.loader
adapter: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(adapter)

CALL = '{"name":"Order","arguments":{"item":"tea","count":2}}'


class Order(BaseModel):
    """Order an item."""

    item: str
    count: int


class _StrictServer(BaseHTTPRequestHandler):
    """Refuses null fields, as llama.cpp does, and writes ``text``."""

    text = CALL
    requests: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append({**body, "path": self.path})
        null = [name for name, value in body.items() if value is None]
        message = {"role": "assistant", "content": self.text}
        reply: dict[str, Any] = {
            "id": "r1",
            "object": "chat.completion",
            "created": 1,
            "model": "small",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }
        data = json.dumps({"error": {"message": f"{null} is null"}} if null else reply).encode()
        self.send_response(400 if null else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *values: Any) -> None: ...


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


@contextmanager
def adapted(text: str = CALL) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The adapter's address, and the requests that reach the model's server behind it."""
    requests: list[dict[str, Any]] = []
    upstream = type("Upstream", (_StrictServer,), {"text": text, "requests": requests})
    with serving(upstream) as model, serving(type("A", (adapter.Adapter,), {"upstream": model})) as url:
        yield url, requests


def test_client_with_null_fields_gets_valid_tool_call() -> None:
    with adapted() as (url, requests):
        # ChatGroq appends OpenAI's path to a base without /v1
        model = ChatGroq(model="small", api_key=SecretStr("none"), base_url=url.removesuffix("/v1"))
        answer = model.bind_tools([Order], tool_choice="any").invoke("Order 2 tea")
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [
        ("Order", {"item": "tea", "count": 2})
    ]
    [request] = requests
    assert "tools" not in request and request["max_tokens"] == adapter.MAX_NEW_TOKENS
    [call] = request["response_format"]["json_schema"]["schema"]["anyOf"]
    assert call["properties"]["name"] == {"const": "Order"}
    assert set(call["properties"]["arguments"]["properties"]) == {"item", "count"}


def test_conversation_is_written_as_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "Order", "arguments": '{"count": 2}'}}
    messages = [
        {"role": "user", "content": "Order 2 tea"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "no tea"},
    ]
    tools = [{"type": "function", "function": {"name": "Order"}}]
    request = adapter.constrained({"messages": messages, "tools": tools, "stop": None})
    assert "stop" not in request
    [system, _, assistant, result] = request["messages"]
    assert '{"name":"Order"}' in system["content"]
    assert assistant["content"] == '{"name":"Order","arguments":{"count":2}}'
    assert result == {"role": "user", "content": "Result of the call: no tea"}


@pytest.mark.parametrize(
    "text, content",
    [
        ('{"name":"answer","arguments":{"text":"Hello"}}', "Hello"),
        ('{"name":"Order","argum', '{"name":"Order","argum'),
    ],
    ids=["words", "cut off"],
)
def test_answer_without_call_stays_text(text: str, content: str) -> None:
    reply = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    [choice] = adapter.with_tool_call(reply)["choices"]
    assert choice["message"]["content"] == content and "tool_calls" not in choice["message"]


def test_request_without_tools_passes_unchanged() -> None:
    with adapted("Hello") as (url, requests):
        reply = httpx.post(f"{url}/chat/completions", json={"messages": [], "temperature": 0})
    assert reply.json()["choices"][0]["message"]["content"] == "Hello"
    assert requests == [{"messages": [], "temperature": 0, "path": "/v1/chat/completions"}]


@pytest.mark.parametrize(
    "body, reason",
    [(b"[]", "not a chat completion request"), (b'{"tools": [{}], "messages": []}', "'function'")],
)
def test_bad_request_is_refused_with_reason(body: bytes, reason: str) -> None:
    with adapted() as (url, requests):
        reply = httpx.post(f"{url}/chat/completions", content=body)
    assert reply.status_code == 400 and reason in reply.json()["error"]["message"] and requests == []


def test_streaming_is_refused() -> None:
    tools = [{"type": "function", "function": {"name": "Order"}}]
    with adapted() as (url, _):
        reply = httpx.post(f"{url}/chat/completions", json={"messages": [], "tools": tools, "stream": True})
    assert reply.status_code == 400 and "STREAM=off" in reply.json()["error"]["message"]


def test_unreachable_model_is_a_bad_gateway() -> None:
    handler = type("A", (adapter.Adapter,), {"upstream": "http://127.0.0.1:9/v1"})
    with serving(handler) as url:
        reply = httpx.post(f"{url}/chat/completions", json={"messages": []})
    assert reply.status_code == 502 and "cannot reach http://127.0.0.1:9/v1" in reply.text
