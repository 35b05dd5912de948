"""What an event of a model's stream is, in either API. Pure."""

from __future__ import annotations

from typing import Any, Literal

from windtunnel.dialects import event_stream as sse
from windtunnel.dialects.http import dump_json
from windtunnel.dialects.json_values import obj, objects, text

Mark = Literal["text", "call", "arguments", "finish", "end", "other"]
"""``text`` (thinking among it), a tool ``call`` begins, more of its ``arguments``, the ``finish`` with its
reason, the ``end`` of the stream, anything ``other``."""
TOKENS: frozenset[Mark] = frozenset(("text", "call", "arguments"))
_ANTHROPIC: dict[str, Mark] = {"message_delta": "finish", "message_stop": "end"}


def mark(event: bytes) -> Mark:
    """The first of them that fits."""
    if sse.data_of(event).strip() == b"[DONE]":
        return "end"
    value = obj(sse.value_of(event))
    kind = text(value.get("type"))
    if kind in _ANTHROPIC:
        return _ANTHROPIC[kind]
    if kind.startswith("content_block"):
        return _block_mark(value)
    choices = objects(value.get("choices"))
    return _chunk_mark(choices[0]) if choices else "other"


def calls_begun(event: bytes) -> int:
    """How many tool calls begin in it; chat completions may bring several at once."""
    if mark(event) != "call":
        return 0
    return max(1, len([call for call in _deltas(obj(sse.value_of(event))) if _begins(call)]))


def arguments_in(event: bytes) -> str:
    """The arguments, or the piece of them, that it brings for its first tool call."""
    value = obj(sse.value_of(event))
    for call in _deltas(value):
        return text(obj(call.get("function")).get("arguments"))
    return text(obj(value.get("delta")).get("partial_json"))


def with_arguments(event: bytes, arguments: str) -> bytes:
    """The same event with those as its first tool call's arguments, and no other call."""
    value: dict[str, Any] = obj(sse.value_of(event))
    delta = obj(value.get("delta"))
    if "partial_json" in delta:
        delta["partial_json"] = arguments
    for call in _deltas(value)[:1]:
        call["function"] = {**obj(call.get("function")), "arguments": arguments}
    return only_call(sse.with_data(event, dump_json(value)))


def only_call(event: bytes) -> bytes:
    """The same event with the first of its tool calls only."""
    value = obj(sse.value_of(event))
    if len(_deltas(value)) < 2:
        return event
    delta = objects(value["choices"])[0]["delta"]
    delta["tool_calls"] = _deltas(value)[:1]
    return sse.with_data(event, dump_json(value))


def _block_mark(value: dict[str, Any]) -> Mark:
    if obj(value.get("content_block")).get("type") == "tool_use":
        return "call"
    delta = obj(value.get("delta"))
    if "partial_json" in delta:
        return "arguments"
    return "text" if text(delta.get("text")) or text(delta.get("thinking")) else "other"


def _chunk_mark(choice: dict[str, Any]) -> Mark:
    if choice.get("finish_reason"):
        return "finish"
    delta = obj(choice.get("delta"))
    calls = objects(delta.get("tool_calls"))
    if calls:
        return "call" if any(map(_begins, calls)) else "arguments"
    said = (delta.get(key) for key in ("content", "reasoning", "reasoning_content"))
    return "text" if any(map(text, said)) else "other"


def _deltas(value: dict[str, Any]) -> list[dict[str, Any]]:
    choices = objects(value.get("choices"))
    return objects(obj(choices[0].get("delta")).get("tool_calls")) if choices else []


def _begins(call: dict[str, Any]) -> bool:
    return bool(obj(call.get("function")).get("name"))
