"""The official clients in normal use; results are in the neutral form."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from zlib import crc32

from tests.dialects.forms import Form
from tests.dialects.gemini_forms import GeminiClient, gemini_client
from tests.support import PATIENCE_S
from wirefault.dialects import Dialect
from wirefault.dialects.base import ModelReply, ToolCall

# one connection per request: a connection that the gateway closed would count as a retry
CLOSE = {"Connection": "close"}
Answer = tuple[ModelReply, int | None]
"""The reply and its tokens."""


@dataclass(frozen=True)
class Imported:
    """A client's package, imported on first use: every worker imports this file, few create a client.

    Its attributes are the package's classes, to be called.
    """

    package: str

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        return lambda **options: getattr(import_module(self.package), kind)(**options)


anthropic, groq, openai = Imported("anthropic"), Imported("groq"), Imported("openai")


@dataclass(frozen=True)
class Sdk:
    """An official client; ``base`` follows the server's address."""

    name: str
    dialect: Dialect
    base: str
    kind: Any
    ask: Callable[[Any, dict[str, Any]], Answer]

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def open(self, url: str) -> Iterator[Client]:
        with self.kind(api_key="k", base_url=url + self.base, default_headers=CLOSE) as client:
            yield Client(self, client)


class Client:
    """A client with its own retries, but without its waits before them. ``tries`` of the last request."""

    def __init__(self, sdk: Sdk, client: Any) -> None:
        self._sdk = sdk
        self._client = client
        self.tries = 0
        count_retries(client, self)

    def ask(self, body: dict[str, Any], timeout_s: float = PATIENCE_S) -> Answer:
        self.tries = 1
        self._client.timeout = timeout_s
        return self._sdk.ask(self._client, body)


def count_retries(client: Any, counter: Any) -> None:
    """Count in ``counter.tries`` and let the client retry at once."""

    def no_wait(*args: Any, **kwargs: Any) -> float:
        counter.tries += 1
        return 0.0

    client._calculate_retry_timeout = no_wait


def _ask_chat(client: Any, body: dict[str, Any]) -> Answer:
    reply = client.chat.completions.create(**body)
    if body["stream"]:
        return _joined(reply)
    message, finish = reply.choices[0].message, reply.choices[0].finish_reason
    calls = tuple(ToolCall(c.function.name, c.function.arguments, c.id) for c in message.tool_calls or ())
    return ModelReply(message.content or "", calls, finish), reply.usage.total_tokens if reply.usage else None


def _joined(chunks: Any) -> Answer:
    """As the clients' documentation joins the pieces of a stream."""
    text, finish, tokens = "", "", None
    calls: dict[int, ToolCall] = {}
    for chunk in chunks:
        usage = chunk.usage or getattr(getattr(chunk, "x_groq", None), "usage", None)
        tokens = usage.total_tokens if usage else tokens
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or ():
                old = calls.get(piece.index, ToolCall(piece.function.name or "", "", piece.id or ""))
                arguments = old.arguments + (piece.function.arguments or "")
                calls[piece.index] = ToolCall(old.name, arguments, old.id)
    return ModelReply(text, tuple(calls.values()), finish), tokens


def _ask_messages(client: Any, body: dict[str, Any]) -> Answer:
    options = {key: value for key, value in body.items() if key != "stream"}
    if body["stream"]:
        with client.messages.stream(**options) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**options)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = tuple(
        ToolCall(
            block.name, block.input if isinstance(block.input, str) else json.dumps(block.input), block.id
        )
        for block in message.content
        if block.type == "tool_use"
    )
    return ModelReply(text, calls, message.stop_reason or ""), message.usage.output_tokens


def _ask_responses(client: Any, body: dict[str, Any]) -> Answer:
    """A stream as the client itself joins it: its last event has all of the reply."""
    options = {key: value for key, value in body.items() if key not in ("stream", "max_tokens")}
    if body["stream"]:
        with client.responses.stream(**options) as stream:
            response = stream.get_final_response()
    else:
        response = client.responses.create(**options)
    calls = tuple(
        ToolCall(item.name, item.arguments, item.call_id)
        for item in response.output
        if item.type == "function_call"
    )
    reply = ModelReply(response.output_text, calls, response.status)
    return reply, response.usage.total_tokens if response.usage else None


def _ask_gemini(client: GeminiClient, body: dict[str, Any]) -> Answer:
    return client.ask(body, stream=body["stream"])


class PlainClient:
    """A client of an API whose official client is not a test dependency. It never retries."""

    def __init__(self, base_url: str, **_: Any) -> None:
        self._url = base_url
        self.timeout = PATIENCE_S

    def __enter__(self) -> PlainClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def post(self, path: str, body: dict[str, Any]) -> Iterator[bytes]:
        """The pieces of the reply's body. Raises ``HTTPStatusError`` for error statuses."""
        httpx = import_module("httpx")
        with httpx.stream("POST", self._url + path, json=body, headers=CLOSE, timeout=self.timeout) as reply:
            if reply.status_code >= 400:
                reply.read()
            reply.raise_for_status()
            yield from reply.iter_bytes()


def _ask_ollama(client: PlainClient, body: dict[str, Any]) -> Answer:
    """As Ollama's own client joins the lines of a stream."""
    text, finish, tokens = "", "", None
    calls: list[ToolCall] = []
    for line in b"".join(client.post("/api/chat", body)).splitlines():
        part = json.loads(line)
        if "error" in part:
            raise RuntimeError(part["error"])
        message = part["message"]
        text += message["content"]
        for call in message.get("tool_calls", ()):
            arguments = call["function"]["arguments"]
            calls.append(ToolCall(call["function"]["name"], json.dumps(dict(arguments)), call.get("id", "")))
        finish, tokens = part.get("done_reason", finish), part.get("eval_count", tokens)
    return ModelReply(text, tuple(calls), finish), tokens


def _ask_bedrock(client: PlainClient, body: dict[str, Any]) -> Answer:
    """As the documentation of ``converse`` and ``converse_stream`` reads a reply."""
    request = {key: value for key, value in body.items() if key not in ("stream", "model", "max_tokens")}
    if not body["stream"]:
        whole = json.loads(b"".join(client.post("/model/m/converse", request)))
        blocks = whole["output"]["message"]["content"]
        uses = [block["toolUse"] for block in blocks if "toolUse" in block]
        calls = [ToolCall(use["name"], json.dumps(use["input"]), use["toolUseId"]) for use in uses]
        text = "".join(block.get("text", "") for block in blocks)
        return ModelReply(text, tuple(calls), whole["stopReason"]), whole["usage"]["totalTokens"]
    text, finish, tokens = "", "", None
    calls = []
    for kind, value in _frames(b"".join(client.post("/model/m/converse-stream", request))):
        if kind == "contentBlockStart":
            use = value["start"]["toolUse"]
            calls.append(ToolCall(use["name"], "", use["toolUseId"]))
        elif kind == "contentBlockDelta" and "toolUse" in value["delta"]:
            arguments = calls[-1].arguments + value["delta"]["toolUse"]["input"]
            calls[-1] = ToolCall(calls[-1].name, arguments, calls[-1].id)
        elif kind == "contentBlockDelta":
            text += value["delta"]["text"]
        finish = value["stopReason"] if kind == "messageStop" else finish
        tokens = value["usage"]["totalTokens"] if kind == "metadata" else tokens
    return ModelReply(text, tuple(calls), finish), tokens


def _frames(data: bytes) -> Iterator[tuple[str, Any]]:
    """The kinds and values of AWS's events, read without code of the product; their checksums are checked."""
    while data:
        length, headers = struct.unpack(">II", data[:8])
        assert struct.unpack(">I", data[8:12])[0] == crc32(data[:8])
        assert struct.unpack(">I", data[length - 4 : length])[0] == crc32(data[: length - 4])
        kind = re.search(rb":event-type\x07..(\w+)", data[12 : 12 + headers], re.S)
        if not kind:
            raise RuntimeError("an exception, not an event")
        yield kind[1].decode().partition("\x0d")[0], json.loads(data[12 + headers : length - 4])
        data = data[length:]


def _open_gemini(base_url: str, **_: Any) -> AbstractContextManager[GeminiClient]:
    return gemini_client(base_url)


SDKS = [
    Sdk("groq", "openai_chat", "", groq.Groq, _ask_chat),
    Sdk("openai", "openai_chat", "/v1", openai.OpenAI, _ask_chat),
    Sdk("openai responses", "openai_responses", "/v1", openai.OpenAI, _ask_responses),
    Sdk("google-genai", "gemini", "", _open_gemini, _ask_gemini),
    Sdk("anthropic", "anthropic", "", anthropic.Anthropic, _ask_messages),
    Sdk("ollama", "ollama", "", PlainClient, _ask_ollama),
    Sdk("bedrock", "bedrock", "", PlainClient, _ask_bedrock),
]
CLIENTS = [(sdk, Form(sdk.dialect, stream)) for sdk in SDKS for stream in (False, True)]


def column(client: str, stream: bool) -> str:
    """The client's column in the table of client views."""
    return f"{client}, stream" if stream else client


@contextmanager
def open_clients(url: str) -> Iterator[dict[str, Client]]:
    """All clients by name, connected to the server at that address."""
    with ExitStack() as stack:
        yield {sdk.name: stack.enter_context(sdk.open(url)) for sdk in SDKS}
