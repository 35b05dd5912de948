"""Gemini's requests and replies, written without code of the project, and its official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tests.support import PATIENCE_S
from wirefault.dialects.base import ModelReply, ToolCall

USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 7, "totalTokenCount": 16}


def gemini_reply(reply: ModelReply) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": _call(call)} for call in reply.calls]
    candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "m", "responseId": "r1"}


def gemini_request(user: str, earlier: tuple[ToolCall, ...], tools: dict[str, Any]) -> dict[str, Any]:
    """``tools``: by name, the description and the JSON schema of each."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": user}]}]
    for call in earlier:
        contents.append({"role": "model", "parts": [{"functionCall": _call(call)}]})
        result = {"name": call.name, "id": call.id, "response": {"temperature": 21.5}}
        contents.append({"role": "user", "parts": [{"functionResponse": result}]})
    declared = [
        {"name": name, "description": about, "parametersJsonSchema": schema}
        for name, (about, schema) in tools.items()
    ]
    return {"contents": contents} | ({"tools": [{"functionDeclarations": declared}]} if tools else {})


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}


class GeminiClient:
    """The official client, which does not retry.

    Its package is imported when one is made: every worker reads this file, few make one.
    """

    def __init__(self, url: str) -> None:
        options = {"base_url": url, "api_version": "v1beta", "headers": {"Connection": "close"}}
        self.timeout = PATIENCE_S  # seconds
        self.client = import_module("google.genai").Client(api_key="k", http_options=options)

    def ask(self, body: dict[str, Any], *, stream: bool) -> tuple[ModelReply, int | None]:
        """The reply and its total tokens."""
        config = {
            "tools": body.get("tools"),
            "system_instruction": body.get("systemInstruction"),
            "http_options": {"timeout": int(self.timeout * 1000)},
            "automatic_function_calling": {"disable": True},
        }
        options = {"model": "m", "contents": body["contents"], "config": config}
        if stream:
            return _joined(list(self.client.models.generate_content_stream(**options)))
        return _joined([self.client.models.generate_content(**options)])


@contextmanager
def gemini_client(url: str) -> Iterator[GeminiClient]:
    opened = GeminiClient(url)
    try:
        yield opened
    finally:
        opened.client.close()


def _joined(chunks: list[Any]) -> tuple[ModelReply, int | None]:
    """As the client's documentation joins the chunks of a stream."""
    text, finish, tokens = "", "", None
    calls: list[ToolCall] = []
    for chunk in chunks:
        tokens = chunk.usage_metadata.total_token_count if chunk.usage_metadata else tokens
        for candidate in chunk.candidates or ():
            finish = candidate.finish_reason.value if candidate.finish_reason else finish
            for part in (candidate.content.parts if candidate.content else None) or ():
                text += part.text or ""
                if part.function_call:
                    call = part.function_call
                    calls.append(ToolCall(call.name or "", json.dumps(call.args), call.id or ""))
    return ModelReply(text, tuple(calls), finish), tokens
