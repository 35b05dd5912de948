"""Gemini's contents and parts: read, written, and converted to and from messages of a conversation. Pure.

Its JSON names a field in camel case or in snake case: the API takes both, and clients mix them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wirefault.dialects.base import ToolCall
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, compact, parsed

CONTENTS = "contents"
ContentPart = dict[str, Any]
_CAPITAL = re.compile("[A-Z]")
_ROLES = {"model": "assistant", "function": "tool"}
_NAMES = {role: name for name, role in _ROLES.items()}
# A function's result is under one of these keys unless it is an object.
_RESULT_KEYS = ("result", "output", "error", "content")


def named_field(value: dict[str, Any], name: str) -> Any:
    """The field of that camel-case name, in either spelling; None without one."""
    return value[name] if name in value else value.get(_snake(name))


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name)


def parts_of(content: Any) -> list[ContentPart]:
    return as_objects(as_object(content).get("parts"))


def call_in(part: ContentPart) -> dict[str, Any]:
    """A part's function call; empty without one."""
    return as_object(named_field(part, "functionCall"))


def read_call(call: dict[str, Any]) -> ToolCall:
    """A call without arguments has none in its JSON, and in older versions of the API no id."""
    arguments = call.get("args")
    return ToolCall(
        as_text(call.get("name")), compact({} if arguments is None else arguments), as_text(call.get("id"))
    )


def write_call(part: ContentPart, call: ToolCall, arguments: dict[str, Any]) -> ContentPart:
    """The part with its call replaced; the rest of the part, such as a signature, stays."""
    rest = {key: value for key, value in call_in(part).items() if key != "id"}
    identity = {"id": call.id} if call.id else {}
    others = {key: value for key, value in part.items() if key not in ("functionCall", "function_call")}
    return {**others, "functionCall": {**identity, **rest, "name": call.name, "args": arguments}}


def to_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The system instruction and the contents as messages. Raises ``ValueError`` if there are none."""
    contents = body.get(CONTENTS)
    if not isinstance(contents, list) or len(as_objects(contents)) < len(contents):
        raise ValueError("no list of contents")
    system = as_object(named_field(body, "systemInstruction"))
    first = [{"role": "system", "content": [*map(_to_message_part, parts_of(system))]}] if system else []
    return first + [_to_message(content) for content in contents]


def from_messages(body: dict[str, Any], messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The request's body with these messages; system messages become its instruction, in their order."""
    own = (CONTENTS, "systemInstruction", "system_instruction")
    rest = {key: value for key, value in body.items() if key not in own}
    texts = [part for m in messages if m.get("role") == "system" for part in _to_parts(m.get("content"))]
    system = {**as_object(named_field(body, "systemInstruction")), "parts": texts}
    contents = [_to_content(message) for message in messages if message.get("role") != "system"]
    return {**rest, **({"systemInstruction": system} if texts else {}), CONTENTS: contents}


def _to_message(content: dict[str, Any]) -> dict[str, Any]:
    """Content as a message; without a role it is the user's."""
    rest = {key: value for key, value in content.items() if key not in ("role", "parts")}
    role = as_text(content.get("role")) or "user"
    return {**rest, "role": _ROLES.get(role, role), "content": [*map(_to_message_part, parts_of(content))]}


def _to_content(message: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    role = as_text(message.get("role"))
    return {**rest, "role": _NAMES.get(role, role), "parts": _to_parts(message.get("content"))}


def _to_message_part(part: ContentPart) -> dict[str, Any]:
    """A part of a message: calls and results get a type and keep the original part."""
    call, result = call_in(part), as_object(named_field(part, "functionResponse"))
    if call:
        return {"type": "tool_use", "id": call.get("id"), "part": part}
    if result:
        text = _result_text(result.get("response"))
        return {"type": "tool_result", "tool_use_id": result.get("id"), "content": text, "part": part}
    return part


def _to_parts(content: Any) -> list[ContentPart]:
    if isinstance(content, str):
        return [{"text": content}]
    return [_to_part(part) for part in as_list(content) if isinstance(part, dict)]


def _to_part(part: dict[str, Any]) -> ContentPart:
    original = as_object(part.get("part"))
    if part.get("type") == "tool_use":
        return _with_field(original, "functionCall", call_in(original), part.get("id"))
    if part.get("type") == "tool_result":
        result = as_object(named_field(original, "functionResponse"))
        response = _with_result_text(result.get("response"), as_text(part.get("content")))
        changed = {**result, "response": response} if response is not None else result
        return _with_field(original, "functionResponse", changed, part.get("tool_use_id"))
    return part


def _with_field(part: ContentPart, name: str, value: dict[str, Any], id: Any) -> ContentPart:
    key = name if name in part else _snake(name)
    return {**part, key: {**value, "id": id} if id is not None else value}


def _result_text(response: Any) -> str:
    """The function's result as text: the response's only text, else its JSON."""
    values = as_object(response)
    if len(values) == 1:
        [(key, value)] = values.items()
        if key in _RESULT_KEYS and isinstance(value, str):
            return value
    return "" if response is None else compact(response)


def _with_result_text(response: Any, text: str) -> Any:
    """The response with another text: JSON again where it was, else under the key that holds a text."""
    if text == _result_text(response):
        return response
    values = as_object(response)
    key = next((key for key in _RESULT_KEYS if key in values), _RESULT_KEYS[0])
    if len(values) == 1 and isinstance(values.get(key), str):
        return {key: text}
    try:
        changed = parsed(text)
    except ValueError:
        return {key: text}
    return changed if isinstance(changed, dict) else {key: text}
