"""How chat completions put what every model's API has: messages, tools, the choice of one, forms. Pure.

The other APIs' requests are written so for whoever answers in one of them only. What a request asks for and
chat completions cannot say is a ``ValueError`` that names the field in the request's own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wirefault.dialects.http import Request
from wirefault.dialects.json_values import as_object, as_objects, as_text
from wirefault.dialects.model_messages import OfferedTool, ToolCall

ChatPart = dict[str, Any]


def checked_body(request: Request, refused: Mapping[str, str]) -> dict[str, Any]:
    """The request's JSON object. ``refused``: fields that it may not set, and why."""
    body = request.json()
    if not isinstance(body, dict):
        raise ValueError("'body': is no object")
    for name in filter(body.get, refused):
        raise ValueError(f"'{name}' is not supported: {refused[name]}")
    return body


def objects_at(place: str, value: Any) -> list[dict[str, Any]]:
    """The list of objects that stands there; empty if nothing does."""
    objects = as_objects(value)
    if value is not None and (not isinstance(value, list) or len(objects) < len(value)):
        raise ValueError(f"'{place}': is no list of objects")
    return objects


def text_at(place: str, content: Any, *kinds: str) -> str:
    """The text of a content: a string, or parts, of which each must be a text of one of these kinds."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = objects_at(place, content)
    for at, part in enumerate(parts):
        if part.get("type") not in kinds:
            raise ValueError(f"'{place}.{at}': only text can be read here, not {part.get('type')}")
    return "\n".join(as_text(part.get("text", part.get("refusal"))) for part in parts)


def assistant_message(text: str, calls: list[ToolCall]) -> dict[str, Any]:
    """What the model said, and the tools that it called."""
    written = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    return {"role": "assistant", "content": text or None} | ({"tool_calls": written} if written else {})


def tool_message(call_id: Any, text: str) -> dict[str, Any]:
    """What a tool gave."""
    return {"role": "tool", "tool_call_id": as_text(call_id), "content": text}


def function_tool(tool: OfferedTool) -> dict[str, Any]:
    """A tool that is offered."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}


def function_choice(name: Any) -> dict[str, Any]:
    """The wish that this tool is called."""
    return {"type": "function", "function": {"name": name}}


def json_form(schema: Any, name: str = "form") -> dict[str, Any]:
    """The wish for an answer that is JSON of that schema."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": as_object(schema)}}


def kept(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields that chat completions have under the same names."""
    return {name: body[name] for name in names if name in body}
