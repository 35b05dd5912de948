"""A request to OpenAI's Responses API as chat completions would put it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirefault.dialects import chat_form as chat
from wirefault.dialects.http import Request
from wirefault.dialects.json_values import as_object, as_text
from wirefault.dialects.model_messages import OfferedTool, ToolCall

_REFUSED = {
    "previous_response_id": "no reply is stored; send the whole conversation as 'input'",
    "conversation": "no conversation is stored; send all of it as 'input'",
    "prompt": "no prompt is stored; send its text as 'instructions'",
    "background": "nothing is done after the reply",
    "top_logprobs": "there are no probabilities",
}
_TEXTS = ("input_text", "output_text", "text", "refusal")


def responses_as_chat(request: Request) -> dict[str, Any]:
    """Raises ``ValueError`` that names what chat completions cannot say."""
    body = chat.checked_body(request, _REFUSED)
    given = body.get("input")
    items = (
        [{"role": "user", "content": given}] if isinstance(given, str) else chat.objects_at("input", given)
    )
    if not items:
        raise ValueError("'input': is missing")
    tools = [_tool(at, tool) for at, tool in enumerate(chat.objects_at("tools", body.get("tools")))]
    said = chat.text_at("instructions", body.get("instructions"))
    system = [{"role": "system", "content": said}] if said else []
    wishes = {"tools": tools, "tool_choice": _choice(body.get("tool_choice")), "response_format": _form(body)}
    same = chat.kept(body, "model", "stream", "seed", "parallel_tool_calls")
    return {**same, "messages": [*system, *_messages(items)], **wishes}


def _messages(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls that the model asked for together are one message, with what it said before them."""
    messages: list[dict[str, Any]] = []
    for at, item in enumerate(items):
        kind, place = item.get("type", "message"), f"input.{at}"
        if kind == "message":
            text = chat.text_at(f"{place}.content", item.get("content"), *_TEXTS)
            messages.append({"role": item.get("role"), "content": text})
        elif kind == "function_call":
            call = ToolCall(
                as_text(item.get("name")), as_text(item.get("arguments")), as_text(item.get("call_id"))
            )
            made = chat.assistant_message("", [call])
            if messages and messages[-1]["role"] == "assistant":
                earlier = messages.pop()
                made = {**earlier, "tool_calls": [*earlier.get("tool_calls", []), *made["tool_calls"]]}
            messages.append(made)
        elif kind == "function_call_output":
            text = chat.text_at(f"{place}.output", item.get("output"), *_TEXTS)
            messages.append(chat.tool_message(item.get("call_id"), text))
        elif kind != "reasoning":
            raise ValueError(f"'{place}': an item of the type {kind} is not supported")
    return messages


def _tool(at: int, tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise ValueError(f"'tools.{at}': only functions are supported, not {tool.get('type')}")
    if not as_text(tool.get("name")):
        raise ValueError(f"'tools.{at}.name': is missing")
    return chat.function_tool(OfferedTool.read(tool, schema="parameters"))


def _choice(choice: Any) -> Any:
    is_function = as_object(choice).get("type") == "function"
    return chat.function_choice(choice.get("name")) if is_function else choice


def _form(body: dict[str, Any]) -> dict[str, Any] | None:
    form = as_object(as_object(body.get("text")).get("format"))
    if form.get("type") != "json_schema":
        return form or None
    if not isinstance(form.get("schema"), dict):
        raise ValueError("'text.format.schema': is missing")
    return chat.json_form(form["schema"])
