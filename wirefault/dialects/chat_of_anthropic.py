"""A request to Anthropic's messages API as chat completions would put it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wirefault.dialects import chat_form as chat
from wirefault.dialects.http import Request
from wirefault.dialects.json_values import as_object, as_text, compact, parsed
from wirefault.dialects.model_messages import OfferedTool, ToolCall

_REFUSED = {
    "mcp_servers": "tools are called by the client only",
    "container": "there are no containers",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_THOUGHTS = ("thinking", "redacted_thinking")
_Block = dict[str, Any]


def anthropic_as_chat(request: Request) -> dict[str, Any]:
    """Raises ``ValueError`` that names what chat completions cannot say."""
    body = chat.checked_body(request, _REFUSED)
    if not isinstance(body.get("max_tokens"), int):
        raise ValueError("'max_tokens': is missing")
    given = chat.objects_at("messages", body.get("messages"))
    messages = [
        chatted for at, message in enumerate(given) for chatted in _chatted(f"messages.{at}", message)
    ]
    if messages and messages[-1]["role"] == "assistant":
        raise ValueError(f"'messages.{len(given) - 1}': an answer that was begun cannot be continued")
    said = chat.text_at("system", body.get("system"), "text")
    system = [{"role": "system", "content": said}] if said else []
    tools = [_tool(at, tool) for at, tool in enumerate(chat.objects_at("tools", body.get("tools")))]
    choice = as_object(body.get("tool_choice"))
    wishes = {"tools": tools, "tool_choice": _choice(choice), "response_format": _form(body)}
    parallel = {"parallel_tool_calls": not choice.get("disable_parallel_tool_use")}
    same = chat.kept(body, "model", "stream", "seed")
    return {**same, "messages": [*system, *messages] if messages else [], **wishes, **parallel}


def _chatted(place: str, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message with results of tools is one message of chat completions for each, and one for its text."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        raise ValueError(f"'{place}.role': is 'user' or 'assistant', not {role}")
    if content is None:
        raise ValueError(f"'{place}.content': is missing")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else None
    blocks = chat.objects_at(f"{place}.content", content) if blocks is None else blocks
    of_kind = "tool_use" if role == "assistant" else "tool_result"
    tooled = [block for block in blocks if block.get("type") == of_kind]
    rest = [block for block in blocks if block.get("type") not in (of_kind, *_THOUGHTS)]
    text = chat.text_at(f"{place}.content", rest, "text")
    if role == "assistant":
        yield chat.assistant_message(text, [_call(block) for block in tooled])
        return
    for block in tooled:
        yield chat.tool_message(block.get("tool_use_id"), _result(place, block))
    if rest or not tooled:
        yield {"role": "user", "content": text}


def _call(block: _Block) -> ToolCall:
    arguments = compact(as_object(block.get("input")))
    return ToolCall(as_text(block.get("name")), arguments, as_text(block.get("id")))


def _result(place: str, block: _Block) -> str:
    """A result that is marked as an error says so in its text, which is all that chat completions have."""
    text = chat.text_at(f"{place}.content.content", block.get("content"), "text")
    if not block.get("is_error"):
        return text
    try:
        data = parsed(text)
    except ValueError:
        data = None
    return text if isinstance(data, dict) and "error" in data else compact({"error": text or "failed"})


def _tool(at: int, tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type", "custom") != "custom":
        raise ValueError(f"'tools.{at}': only tools of the client are supported, not {tool['type']}")
    if not as_text(tool.get("name")):
        raise ValueError(f"'tools.{at}.name': is missing")
    return chat.function_tool(OfferedTool.read(tool, schema="input_schema"))


def _choice(choice: dict[str, Any]) -> Any:
    kind = choice.get("type", "auto")
    if kind == "tool":
        return chat.function_choice(choice.get("name"))
    if kind not in _CHOICES:
        raise ValueError(f"'tool_choice.type': is auto, any, tool or none, not {kind}")
    return _CHOICES[kind]


def _form(body: dict[str, Any]) -> dict[str, Any] | None:
    form = as_object(as_object(body.get("output_config")).get("format") or body.get("output_format"))
    if form and not (form.get("type") == "json_schema" and isinstance(form.get("schema"), dict)):
        raise ValueError("'output_config.format': is no json_schema with a schema")
    return chat.json_form(form["schema"]) if form else None
