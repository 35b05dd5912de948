"""Bedrock's messages: converted to and from messages of a conversation, whose form is Anthropic's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, compact, parsed

_Part = dict[str, Any]


def to_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The system text and the messages. Raises ``ValueError`` if there are none."""
    messages = body.get("messages")
    if not isinstance(messages, list) or len(as_objects(messages)) < len(messages):
        raise ValueError("no list of messages")
    system = as_objects(body.get("system"))
    first = [{"role": "system", "content": system}] if system else []
    return first + [
        {**message, "content": [_to_part(part) for part in as_objects(message.get("content"))]}
        for message in messages
    ]


def from_messages(body: dict[str, Any], messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The request's body with these messages; system messages become its system text, in their order."""
    rest = {key: value for key, value in body.items() if key not in ("messages", "system")}
    system = [part for m in messages if m.get("role") == "system" for part in _from_content(m.get("content"))]
    others = [
        {**message, "content": _from_content(message.get("content"))}
        for message in messages
        if message.get("role") != "system"
    ]
    return {**rest, **({"system": system} if system else {}), "messages": others}


def _to_part(part: _Part) -> _Part:
    """Calls and results get a type and keep the original part."""
    call, result = as_object(part.get("toolUse")), as_object(part.get("toolResult"))
    if call:
        return {"type": "tool_use", "id": call.get("toolUseId"), "part": part}
    if result:
        text = _result_text(result)
        return {"type": "tool_result", "tool_use_id": result.get("toolUseId"), "content": text, "part": part}
    return part


def _from_content(content: Any) -> list[_Part]:
    if isinstance(content, str):
        return [{"text": content}]
    return [_from_part(part) for part in as_list(content) if isinstance(part, dict)]


def _from_part(part: _Part) -> _Part:
    original = as_object(part.get("part"))
    if part.get("type") == "tool_use":
        return {**original, "toolUse": {**as_object(original.get("toolUse")), "toolUseId": part.get("id")}}
    if part.get("type") == "tool_result":
        result = as_object(original.get("toolResult"))
        changed = _with_result_text(result, as_text(part.get("content")))
        return {
            **original,
            "toolResult": {**result, "toolUseId": part.get("tool_use_id"), "content": changed},
        }
    return part


def _result_text(result: dict[str, Any]) -> str:
    parts = as_objects(result.get("content"))
    return "\n".join(
        as_text(p["text"]) if "text" in p else compact(p["json"])
        for p in parts
        if {"text", "json"} & p.keys()
    )


def _with_result_text(result: dict[str, Any], text: str) -> list[Any]:
    """The content with another text: JSON again where it was."""
    content = as_list(result.get("content"))
    if text == _result_text(result):
        return content
    was_json = len(content) == 1 and "json" in as_object(content[0])
    try:
        changed = parsed(text) if was_json else None
    except ValueError:
        changed = None
    return [{"json": changed}] if isinstance(changed, dict) else [{"text": text}]
