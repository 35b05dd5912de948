"""A request to Gemini's API as chat completions would put it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from wirefault.dialects import chat_form as chat
from wirefault.dialects.gemini import GEMINI, json_schema
from wirefault.dialects.gemini_contents import call_in, named_field, read_call, to_messages
from wirefault.dialects.http import Request
from wirefault.dialects.json_values import as_list, as_object, as_text

_REFUSED = {"cachedContent": "no content is stored; send all of it as 'contents'"}
_CHOICES = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
_UNKNOWN_CHOICE = "is AUTO, ANY, NONE or VALIDATED"


def gemini_as_chat(request: Request) -> dict[str, Any]:
    """Raises ``ValueError`` that names what chat completions cannot say."""
    body = chat.checked_body(request, _REFUSED)
    asked, streams = GEMINI.read_request(request), request.path.endswith(":streamGenerateContent")
    if streams and parse_qs(request.target.partition("?")[2]).get("alt") != ["sse"]:
        raise ValueError("'alt': only event streams are supported: send alt=sse")
    for at, tool in enumerate(chat.objects_at("tools", body.get("tools"))):
        if named_field(tool, "functionDeclarations") is None:
            raise ValueError(f"'tools.{at}': only functionDeclarations are supported, not {', '.join(tool)}")
    config = as_object(named_field(body, "generationConfig"))
    names = {"n": named_field(config, "candidateCount"), "logprobs": named_field(config, "responseLogprobs")}
    wishes = {
        "tools": [chat.function_tool(tool) for tool in asked.tools],
        "tool_choice": _choice(body, [tool.name for tool in asked.tools]),
        "response_format": _form(config),
    }
    messages = list(_messages(to_messages(body)))
    return {
        **{"model": asked.model, "stream": streams, "seed": config.get("seed"), "messages": messages},
        **{name: value for name, value in names.items() if value},
        **wishes,
    }


def _messages(given: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Calls without ids, as older clients send them, get some: the next result of that name answers each."""
    waiting: list[tuple[str, str]] = []
    for at, message in enumerate(given):
        parts, role = as_list(message.get("content")), message.get("role")
        calls = [read_call(call_in(as_object(p.get("part")))) for p in parts if p.get("type") == "tool_use"]
        calls = [replace(call, id=call.id or f"call{at}_{number}") for number, call in enumerate(calls)]
        waiting += [(call.name, call.id) for call in calls]
        results = [part for part in parts if part.get("type") == "tool_result"]
        rest = [part for part in parts if part.get("type") not in ("tool_use", "tool_result")]
        for part in rest:
            if "text" not in part:
                raise ValueError(f"'contents.{at}': only text can be read here, not {', '.join(part)}")
        text = "\n".join(as_text(part["text"]) for part in rest if not part.get("thought"))
        for part in results:
            yield chat.tool_message(_answered(part, waiting), as_text(part.get("content")))
        if role == "assistant":
            yield chat.assistant_message(text, calls)
        elif rest or not results:
            yield {"role": role, "content": text}


def _answered(result: dict[str, Any], waiting: list[tuple[str, str]]) -> str:
    """The id of the call that a result answers."""
    name = as_text(as_object(named_field(as_object(result.get("part")), "functionResponse")).get("name"))
    own = result.get("tool_use_id")
    at = next((at for at, call in enumerate(waiting) if (call[1] == own if own else call[0] == name)), None)
    return as_text(own) if at is None else waiting.pop(at)[1]


def _choice(body: dict[str, Any], names: list[str]) -> Any:
    tooling = as_object(named_field(body, "toolConfig"))
    config = as_object(named_field(tooling, "functionCallingConfig"))
    mode, allowed = config.get("mode", "AUTO"), as_list(named_field(config, "allowedFunctionNames"))
    if mode not in _CHOICES:
        raise ValueError(f"'toolConfig.functionCallingConfig.mode': {_UNKNOWN_CHOICE}, not {mode}")
    if len(allowed) == 1:
        return chat.function_choice(allowed[0])
    if allowed and set(allowed) != set(names):
        raise ValueError(
            "'toolConfig.functionCallingConfig.allowedFunctionNames': is one name, or all of them"
        )
    return _CHOICES[mode]


def _form(config: dict[str, Any]) -> dict[str, Any] | None:
    kind = named_field(config, "responseMimeType") or "text/plain"
    schema = named_field(config, "responseJsonSchema") or named_field(config, "responseSchema")
    if kind not in ("text/plain", "application/json"):
        raise ValueError(f"'generationConfig.responseMimeType': {kind} is not supported")
    if kind == "text/plain":
        return None
    return {"type": "json_object"} if schema is None else chat.json_form(json_schema(schema))
