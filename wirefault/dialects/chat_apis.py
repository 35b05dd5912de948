"""Converts requests of other model APIs to chat completions, for a server that works with those. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from wirefault.dialects import Dialect, bedrock_messages
from wirefault.dialects.anthropic import ANTHROPIC
from wirefault.dialects.base import ModelDialect, OfferedTool, ToolCall
from wirefault.dialects.bedrock import BEDROCK
from wirefault.dialects.gemini import GEMINI, json_schema
from wirefault.dialects.gemini_contents import call_in, named_field, read_call, to_messages
from wirefault.dialects.http import Request
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, compact, parsed
from wirefault.dialects.ollama import OLLAMA
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.dialects.openai_responses import OPENAI_RESPONSES

ChatPart = dict[str, Any]


def checked_body(request: Request, refused: Mapping[str, str]) -> dict[str, Any]:
    """The request's JSON object. ``refused``: unsupported fields, with the reason."""
    body = request.json()
    if not isinstance(body, dict):
        raise ValueError("'body': must be an object")
    for name in filter(body.get, refused):
        raise ValueError(f"'{name}' is not supported: {refused[name]}")
    return body


def objects_at(place: str, value: Any) -> list[dict[str, Any]]:
    """The list of objects at that place; empty if missing. Raises ``ValueError`` for anything else."""
    objects = as_objects(value)
    if value is not None and (not isinstance(value, list) or len(objects) < len(value)):
        raise ValueError(f"'{place}': must be a list of objects")
    return objects


def text_at(place: str, content: Any, *kinds: str) -> str:
    """The text of a content: a string, or parts that must all be texts of these kinds."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = objects_at(place, content)
    for at, part in enumerate(parts):
        if part.get("type") not in kinds:
            raise ValueError(f"'{place}.{at}': only text is supported here, not {part.get('type')}")
    return "\n".join(as_text(part.get("text", part.get("refusal"))) for part in parts)


def assistant_message(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The model's text and tool calls as a message."""
    written = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    return {"role": "assistant", "content": text or None} | ({"tool_calls": written} if written else {})


def tool_message(call_id: Any, text: str) -> dict[str, Any]:
    """A tool result as a message."""
    return {"role": "tool", "tool_call_id": as_text(call_id), "content": text}


def function_tool(tool: OfferedTool) -> dict[str, Any]:
    """An offered tool."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}


def function_choice(name: Any) -> dict[str, Any]:
    """The choice that forces a call of this tool."""
    return {"type": "function", "function": {"name": name}}


def json_form(schema: Any, name: str = "form") -> dict[str, Any]:
    """The response format for JSON of that schema."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": as_object(schema)}}


def same_fields(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields with the same names in chat completions."""
    return {name: body[name] for name in names if name in body}


class _OpenCalls:
    """The calls without a result so far, in APIs where ids are optional."""

    def __init__(self) -> None:
        self._waiting: list[ToolCall] = []

    def add(self, at: int, calls: Iterable[ToolCall]) -> list[ToolCall]:
        """Add the calls of the message at that place; return them with ids where they have none."""
        added = [replace(call, id=call.id or f"call{at}_{number}") for number, call in enumerate(calls)]
        self._waiting += added
        return added

    def answered(self, id: Any, name: str | None) -> Any:
        """Remove the call to which a result belongs, and return its id.

        It is the call with the result's own ``id``; without one, the first of that ``name``, or of any.
        """
        for at, call in enumerate(self._waiting):
            if call.id == id if id else name in (None, call.name):
                return self._waiting.pop(at).id
        return id


def _turn(
    place: str,
    role: Any,
    texts: Sequence[ChatPart],
    calls: Sequence[ToolCall],
    results: Sequence[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """The messages for one message that may have texts, calls and results together."""
    for part in texts:
        if "text" not in part:
            raise ValueError(f"'{place}': only text is supported here, not {', '.join(part)}")
    text = "\n".join(as_text(part["text"]) for part in texts if not part.get("thought"))
    yield from results
    if role == "assistant":
        yield assistant_message(text, calls)
    elif texts or not results:
        yield {"role": role, "content": text}


_REFUSED = {
    "mcp_servers": "tools are called by the client only",
    "container": "containers are unavailable",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_THOUGHTS = ("thinking", "redacted_thinking")


def _anthropic_as_chat(request: Request) -> dict[str, Any]:
    body = checked_body(request, _REFUSED)
    if not isinstance(body.get("max_tokens"), int):
        raise ValueError("missing 'max_tokens'")
    originals = objects_at("messages", body.get("messages"))
    messages = [
        chatted for at, message in enumerate(originals) for chatted in _chatted(f"messages.{at}", message)
    ]
    if messages and messages[-1]["role"] == "assistant":
        raise ValueError(f"'messages.{len(originals) - 1}': continuing an assistant message is not supported")
    system_text = text_at("system", body.get("system"), "text")
    system = [{"role": "system", "content": system_text}] if system_text else []
    tools = [_tool(at, tool) for at, tool in enumerate(objects_at("tools", body.get("tools")))]
    choice = as_object(body.get("tool_choice"))
    wishes = {"tools": tools, "tool_choice": _choice(choice), "response_format": _form(body)}
    parallel = {"parallel_tool_calls": not choice.get("disable_parallel_tool_use")}
    same = same_fields(body, "model", "stream", "seed")
    return {**same, "messages": [*system, *messages] if messages else [], **wishes, **parallel}


def _chatted(place: str, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message as chat completions have it: one message per tool result, and one for the text."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        raise ValueError(f"'{place}.role': must be 'user' or 'assistant', not {role}")
    if content is None:
        raise ValueError(f"missing '{place}.content'")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else None
    blocks = objects_at(f"{place}.content", content) if blocks is None else blocks
    of_kind = "tool_use" if role == "assistant" else "tool_result"
    tooled = [block for block in blocks if block.get("type") == of_kind]
    rest = [block for block in blocks if block.get("type") not in (of_kind, *_THOUGHTS)]
    text = text_at(f"{place}.content", rest, "text")
    if role == "assistant":
        yield assistant_message(text, [_call(block) for block in tooled])
        return
    for block in tooled:
        yield tool_message(block.get("tool_use_id"), _result(place, block))
    if rest or not tooled:
        yield {"role": "user", "content": text}


def _call(block: ChatPart) -> ToolCall:
    arguments = compact(as_object(block.get("input")))
    return ToolCall(as_text(block.get("name")), arguments, as_text(block.get("id")))


def _result(place: str, block: ChatPart) -> str:
    """The result's text; an error is marked in it, since chat completions have only the text."""
    text = text_at(f"{place}.content.content", block.get("content"), "text")
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
        raise ValueError(f"missing 'tools.{at}.name'")
    return function_tool(OfferedTool.read(tool, schema="input_schema"))


def _choice(choice: dict[str, Any]) -> Any:
    kind = choice.get("type", "auto")
    if kind == "tool":
        return function_choice(choice.get("name"))
    if kind not in _CHOICES:
        raise ValueError(f"'tool_choice.type': must be auto, any, tool or none, not {kind}")
    return _CHOICES[kind]


def _form(body: dict[str, Any]) -> dict[str, Any] | None:
    form = as_object(as_object(body.get("output_config")).get("format") or body.get("output_format"))
    if form and not (form.get("type") == "json_schema" and isinstance(form.get("schema"), dict)):
        raise ValueError("'output_config.format': must be a json_schema with a schema")
    return json_form(form["schema"]) if form else None


_GEMINI_REFUSED = {"cachedContent": "no content is stored; send all of it as 'contents'"}
_GEMINI_CHOICES = {"AUTO": "auto", "VALIDATED": "auto", "ANY": "required", "NONE": "none"}
_UNKNOWN_CHOICE = "must be AUTO, ANY, NONE or VALIDATED"


def _gemini_as_chat(request: Request) -> dict[str, Any]:
    body = checked_body(request, _GEMINI_REFUSED)
    model_request, streams = GEMINI.read_request(request), request.path.endswith(":streamGenerateContent")
    if streams and parse_qs(request.target.partition("?")[2]).get("alt") != ["sse"]:
        raise ValueError("'alt': only event streams are supported: send alt=sse")
    for at, tool in enumerate(objects_at("tools", body.get("tools"))):
        if named_field(tool, "functionDeclarations") is None:
            raise ValueError(f"'tools.{at}': only functionDeclarations are supported, not {', '.join(tool)}")
    config = as_object(named_field(body, "generationConfig"))
    names = {"n": named_field(config, "candidateCount"), "logprobs": named_field(config, "responseLogprobs")}
    wishes = {
        "tools": [function_tool(tool) for tool in model_request.tools],
        "tool_choice": _gemini_choice(body, [tool.name for tool in model_request.tools]),
        "response_format": _gemini_form(config),
    }
    messages = list(_messages(to_messages(body)))
    return {
        **{"model": model_request.model, "stream": streams, "seed": config.get("seed"), "messages": messages},
        **{name: value for name, value in names.items() if value},
        **wishes,
    }


def _messages(contents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Gemini's contents as messages. Older clients give calls no ids."""
    open_calls = _OpenCalls()
    for at, message in enumerate(contents):
        parts = as_list(message.get("content"))
        calls = [read_call(call_in(as_object(p.get("part")))) for p in parts if p.get("type") == "tool_use"]
        calls = open_calls.add(at, calls)
        results = [
            tool_message(_answered(part, open_calls), as_text(part.get("content")))
            for part in parts
            if part.get("type") == "tool_result"
        ]
        rest = [part for part in parts if part.get("type") not in ("tool_use", "tool_result")]
        yield from _turn(f"contents.{at}", message.get("role"), rest, calls, results)


def _answered(result: dict[str, Any], open_calls: _OpenCalls) -> Any:
    """The id of the call to which a result belongs."""
    response = as_object(named_field(as_object(result.get("part")), "functionResponse"))
    return open_calls.answered(result.get("tool_use_id"), as_text(response.get("name")))


def _gemini_choice(body: dict[str, Any], names: list[str]) -> Any:
    tooling = as_object(named_field(body, "toolConfig"))
    config = as_object(named_field(tooling, "functionCallingConfig"))
    mode, allowed = config.get("mode", "AUTO"), as_list(named_field(config, "allowedFunctionNames"))
    if mode not in _GEMINI_CHOICES:
        raise ValueError(f"'toolConfig.functionCallingConfig.mode': {_UNKNOWN_CHOICE}, not {mode}")
    if len(allowed) == 1:
        return function_choice(allowed[0])
    if allowed and set(allowed) != set(names):
        raise ValueError(
            "'toolConfig.functionCallingConfig.allowedFunctionNames': must be one name, or all of them"
        )
    return _GEMINI_CHOICES[mode]


def _gemini_form(config: dict[str, Any]) -> dict[str, Any] | None:
    kind = named_field(config, "responseMimeType") or "text/plain"
    schema = named_field(config, "responseJsonSchema") or named_field(config, "responseSchema")
    if kind not in ("text/plain", "application/json"):
        raise ValueError(f"'generationConfig.responseMimeType': {kind} is not supported")
    if kind == "text/plain":
        return None
    return {"type": "json_object"} if schema is None else json_form(json_schema(schema))


_RESPONSES_REFUSED = {
    "previous_response_id": "no reply is stored; send the whole conversation as 'input'",
    "conversation": "no conversation is stored; send all of it as 'input'",
    "prompt": "no prompt is stored; send its text as 'instructions'",
    "background": "the reply is complete when it is sent",
    "top_logprobs": "probabilities are unavailable",
}
_TEXTS = ("input_text", "output_text", "text", "refusal")


def _responses_as_chat(request: Request) -> dict[str, Any]:
    body = checked_body(request, _RESPONSES_REFUSED)
    value = body.get("input")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else objects_at("input", value)
    if not items:
        raise ValueError("missing 'input'")
    tools = [_responses_tool(at, tool) for at, tool in enumerate(objects_at("tools", body.get("tools")))]
    system_text = text_at("instructions", body.get("instructions"))
    system = [{"role": "system", "content": system_text}] if system_text else []
    wishes = {
        "tools": tools,
        "tool_choice": _responses_choice(body.get("tool_choice")),
        "response_format": _responses_form(body),
    }
    same = same_fields(body, "model", "stream", "seed", "parallel_tool_calls")
    return {**same, "messages": [*system, *_responses_messages(items)], **wishes}


def _responses_messages(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls that the model made together become one message, with the text before them."""
    messages: list[dict[str, Any]] = []
    for at, item in enumerate(items):
        kind, place = item.get("type", "message"), f"input.{at}"
        if kind == "message":
            text = text_at(f"{place}.content", item.get("content"), *_TEXTS)
            messages.append({"role": item.get("role"), "content": text})
        elif kind == "function_call":
            call = ToolCall(
                as_text(item.get("name")), as_text(item.get("arguments")), as_text(item.get("call_id"))
            )
            made = assistant_message("", [call])
            if messages and messages[-1]["role"] == "assistant":
                earlier = messages.pop()
                made = {**earlier, "tool_calls": [*earlier.get("tool_calls", []), *made["tool_calls"]]}
            messages.append(made)
        elif kind == "function_call_output":
            text = text_at(f"{place}.output", item.get("output"), *_TEXTS)
            messages.append(tool_message(item.get("call_id"), text))
        elif kind != "reasoning":
            raise ValueError(f"'{place}': an item of the type {kind} is not supported")
    return messages


def _responses_tool(at: int, tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise ValueError(f"'tools.{at}': only functions are supported, not {tool.get('type')}")
    if not as_text(tool.get("name")):
        raise ValueError(f"missing 'tools.{at}.name'")
    return function_tool(OfferedTool.read(tool, schema="parameters"))


def _responses_choice(choice: Any) -> Any:
    is_function = as_object(choice).get("type") == "function"
    return function_choice(choice.get("name")) if is_function else choice


def _responses_form(body: dict[str, Any]) -> dict[str, Any] | None:
    form = as_object(as_object(body.get("text")).get("format"))
    if form.get("type") != "json_schema":
        return form or None
    if not isinstance(form.get("schema"), dict):
        raise ValueError("missing 'text.format.schema'")
    return json_form(form["schema"])


def _ollama_as_chat(request: Request) -> dict[str, Any]:
    """A reply is a stream unless the request says otherwise."""
    body = checked_body(request, {"images": "only text is supported"})
    form = body.get("format")
    wishes = {
        "tools": objects_at("tools", body.get("tools")),
        "response_format": json_form(form) if isinstance(form, dict) else form and {"type": "json_object"},
        "seed": as_object(body.get("options")).get("seed"),
    }
    messages = list(_ollama_messages(objects_at("messages", body.get("messages"))))
    return {
        **same_fields(body, "model"),
        "stream": body.get("stream") is not False,
        "messages": messages,
        **wishes,
    }


def _ollama_messages(messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    open_calls = _OpenCalls()
    for at, message in enumerate(messages):
        if message.get("images"):
            raise ValueError(f"'messages.{at}.images': only text is supported")
        content = message.get("content")
        if message.get("role") == "assistant":
            requested = OLLAMA.read_request(Request().with_json({"messages": [message]})).calls
            yield assistant_message(as_text(content), open_calls.add(at, requested))
        elif message.get("role") == "tool":
            name = as_text(message.get("tool_name") or message.get("name"))
            id = open_calls.answered(message.get("tool_call_id"), name or None)
            yield tool_message(id, as_text(content))
        else:
            yield {"role": message.get("role"), "content": content}


_BEDROCK_REFUSED = {
    "guardrailConfig": "guardrails are unavailable",
    "promptVariables": "no prompt is stored; send its text",
}


def _bedrock_as_chat(request: Request) -> dict[str, Any]:
    body, read = checked_body(request, _BEDROCK_REFUSED), BEDROCK.read_request(request)
    choice = as_object(as_object(body.get("toolConfig")).get("toolChoice"))
    forced = as_object(choice.get("tool")).get("name")
    wishes = {
        "tools": [function_tool(tool) for tool in read.tools],
        "tool_choice": function_choice(forced) if forced else "required" if "any" in choice else "auto",
    }
    messages = list(_bedrock_messages(bedrock_messages.to_messages(body)))
    streams = request.path.endswith("-stream")
    return {"model": read.model, "stream": streams, "messages": messages, **wishes}


def _bedrock_messages(messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for at, message in enumerate(messages):
        parts = as_objects(message.get("content"))
        originals = [part["part"] for part in parts if part.get("type") == "tool_use"]
        calls = BEDROCK.read_request(Request().with_json({"messages": [{"content": originals}]})).calls
        results = [
            tool_message(part.get("tool_use_id"), as_text(part.get("content")))
            for part in parts
            if part.get("type") == "tool_result"
        ]
        rest = [
            p for p in parts if p.get("type") is None and not p.keys() & {"cachePoint", "reasoningContent"}
        ]
        yield from _turn(f"messages.{at}", message.get("role"), rest, calls, results)


_CHAT_REFUSED = {
    "functions": "send 'tools'",
    "function_call": "send 'tool_choice'",
    "audio": "only text is written",
    "web_search_options": "only tools can search",
    "logprobs": "a script has no probabilities",
    "logit_bias": "a script has no probabilities",
}


_CONVERTERS: Mapping[Dialect, Callable[[Request], dict[str, Any]]] = {
    OPENAI_CHAT.name: lambda request: checked_body(request, _CHAT_REFUSED),
    OPENAI_RESPONSES.name: _responses_as_chat,
    ANTHROPIC.name: _anthropic_as_chat,
    GEMINI.name: _gemini_as_chat,
    BEDROCK.name: _bedrock_as_chat,
    OLLAMA.name: _ollama_as_chat,
}


def as_chat(dialect: ModelDialect, request: Request) -> dict[str, Any]:
    """Convert a request in that dialect; raises ``ValueError`` that names an unsupported field."""
    return _CONVERTERS[dialect.name](request)
