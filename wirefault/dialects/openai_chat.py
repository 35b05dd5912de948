"""Chat completions (Groq, OpenAI and compatible). Pure.

Statuses, types and codes of errors follow the providers' error references; messages are usual ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wirefault.dialects import Dialect
from wirefault.dialects.base import (
    CONTENT_FILTERED,
    TOOL_USE_FAILED,
    ErrorForm,
    EventKind,
    ModelReply,
    ModelRequest,
    OfferedTool,
    ToolCall,
    pieces,
)
from wirefault.dialects.conversation import last_user_text
from wirefault.dialects.http import Request, data_of, dump_json, value_of, with_data, write_event
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, index_in

_DONE = b"[DONE]"
_INVALID = "invalid_request_error"
_ERRORS = {
    "rate_limit": ErrorForm(429, "Rate limit reached for model `{model}`.", "tokens", "rate_limit_exceeded"),
    "quota": ErrorForm(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "auth_error": ErrorForm(401, "Invalid API Key", _INVALID, "invalid_api_key"),
    "forbidden": ErrorForm(
        403,
        "Country, region, or territory not supported",
        "request_forbidden",
        "unsupported_country_region_territory",
    ),
    "not_found": ErrorForm(
        404,
        "The model `{model}` does not exist or you do not have access to it.",
        _INVALID,
        "model_not_found",
    ),
    "server_error": ErrorForm(500, "The server had an error while processing your request.", "server_error"),
    "bad_gateway": ErrorForm(502, "Bad Gateway"),
    "unavailable": ErrorForm(503, "Service Unavailable", "internal_server_error", "service_unavailable"),
    "overloaded": ErrorForm(
        503, "{model} is over capacity. Please try again later.", "server_error", "overloaded"
    ),
    "context_length": ErrorForm(
        400,
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} "
        "tokens. Please reduce the length of the messages.",
        _INVALID,
        "context_length_exceeded",
    ),
    "tool_use_failed": ErrorForm(400, TOOL_USE_FAILED, _INVALID, "tool_use_failed", ("failed_generation",)),
    "content_filter": ErrorForm(400, CONTENT_FILTERED, _INVALID, "content_filter"),
}


class OpenAIChat:
    """Implements ``ModelDialect``; a reply is a completion, of which the first choice is read and written."""

    name: Dialect = "openai_chat"
    id_header = "x-request-id"
    errors: Mapping[str, ErrorForm] = _ERRORS
    path_end = "/chat/completions"
    id_prefix = "call_"

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        return {"error": {"message": message, "type": type, "param": None, "code": code, **fields}}

    def read_request(self, request: Request) -> ModelRequest:
        body = request.json_object()
        messages = as_objects(body.get("messages"))
        calls = [_call(call) for message in messages for call in as_objects(message.get("tool_calls"))]
        functions = [as_object(tool.get("function")) for tool in as_objects(body.get("tools"))]
        tools = [OfferedTool.read(function, schema="parameters") for function in functions]
        return ModelRequest(last_user_text(messages), tuple(calls), tuple(tools))

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        message = {"role": "assistant", "content": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": None}
        envelope = {"id": id, "object": "chat.completion", "created": created, "model": model}
        return {**envelope, "choices": [choice]}

    def read_reply(self, body: dict[str, Any]) -> ModelReply:
        choice = _first(body)
        message = as_object(choice.get("message"))
        return ModelReply(
            as_text(message.get("content")),
            tuple(map(_call, as_objects(message.get("tool_calls")))),
            as_text(choice.get("finish_reason")),
        )

    def write_reply(self, body: dict[str, Any], reply: ModelReply) -> dict[str, Any]:
        choice = _first(body)
        message = {**as_object(choice.get("message"))}
        same_text = reply.text == as_text(message.get("content"))
        if not (same_text and reply.calls):
            message["content"] = reply.text
        old_calls = as_objects(message.pop("tool_calls", None))
        if reply.calls:
            padded = [*old_calls, *({} for _ in reply.calls)]
            message["tool_calls"] = [
                _written(old, call) for old, call in zip(padded, reply.calls, strict=False)
            ]
        changed = {**choice, "message": message, "finish_reason": reply.finish or None}
        if not same_text and "logprobs" in changed:
            changed["logprobs"] = None
        return {**body, "choices": [changed, *body["choices"][1:]]}

    def usage(self, prompt: int, completion: int) -> dict[str, int]:
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def collect(self, events: Iterable[bytes]) -> dict[str, Any]:
        chunks = [value for event in events if isinstance(value := value_of(event), dict)]
        choices: dict[int, dict[str, Any]] = {}
        for chunk in chunks:
            for part in as_objects(chunk.get("choices")):
                _add(choices.setdefault(index_in(part), {"message": {}}), part)
        if not choices or any("error" in chunk for chunk in chunks):
            raise ValueError("no stream of chunks")
        whole = {key: value for chunk in reversed(chunks) for key, value in chunk.items()}
        usage = [chunk["usage"] for chunk in chunks if as_object(chunk.get("usage"))]
        groq = [chunk["x_groq"] for chunk in chunks if as_object(chunk.get("x_groq"))]
        whole |= {"object": "chat.completion", "choices": [choices[at] for at in sorted(choices)]}
        whole |= {"usage": usage[-1]} if usage else {}
        whole |= {"x_groq": {**groq[0], **groq[-1]}} if groq else {}
        return whole

    def spread(self, body: dict[str, Any]) -> Iterator[bytes]:
        envelope = {**body, "object": "chat.completion.chunk"}
        usage, groq = envelope.pop("usage", None), envelope.pop("x_groq", None)
        choices = as_objects(envelope.pop("choices"))
        first = {"x_groq": {"id": groq["id"]}} if "id" in as_object(groq) else {}
        for at, choice in enumerate(choices):
            index = {"index": choice.get("index", at)}
            unfinished = {"logprobs": None} if "logprobs" in choice else {}
            for delta in _deltas(as_object(choice.get("message"))):
                part = {**index, "delta": delta, **unfinished, "finish_reason": None}
                yield write_event({**envelope, "choices": [part], **first})
                first = {}
            rest = {key: value for key, value in choice.items() if key not in ("index", "message")}
            last = {"x_groq": groq} if groq and choice is choices[-1] else {}
            yield write_event({**envelope, "choices": [{**index, "delta": {}, **rest}], **last})
        if usage is not None:
            yield write_event({**envelope, "choices": [], "usage": usage})
        yield b"data: " + _DONE + b"\n\n"

    def kind_of(self, event: bytes) -> EventKind:
        if data_of(event).strip() == _DONE:
            return "end"
        choice = _chunk_choice(value_of(event))
        if choice.get("finish_reason"):
            return "finish"
        calls = _call_deltas(choice)
        if calls:
            return "call" if any(map(_begins, calls)) else "arguments"
        delta = as_object(choice.get("delta"))
        texts = (delta.get(key) for key in ("content", "reasoning", "reasoning_content"))
        return "text" if any(map(as_text, texts)) else "other"

    def calls_begun(self, event: bytes) -> int:
        if self.kind_of(event) != "call":
            return 0
        return sum(map(_begins, _call_deltas(_chunk_choice(value_of(event)))))

    def arguments_in(self, event: bytes) -> str:
        calls = _call_deltas(_chunk_choice(value_of(event)))
        return as_text(as_object(calls[0].get("function")).get("arguments")) if calls else ""

    def with_arguments(self, event: bytes, arguments: str) -> bytes:
        value = as_object(value_of(event))
        choice = _chunk_choice(value)
        for call in _call_deltas(choice)[:1]:
            call["function"] = {**as_object(call.get("function")), "arguments": arguments}
            choice["delta"]["tool_calls"] = [call]
        return with_data(event, dump_json(value))


OPENAI_CHAT = OpenAIChat()


def as_streamed(completion: dict[str, Any], usage_wanted: bool) -> dict[str, Any]:
    """A completion with its usage where a stream has it: Groq's last chunk, and OpenAI's if it is wanted."""
    usage = completion["usage"]
    rest = {key: value for key, value in completion.items() if key != "usage"}
    groq = {"x_groq": {**rest["x_groq"], "usage": usage}} if "x_groq" in rest else {}
    return {**rest, **groq, **({"usage": usage} if usage_wanted else {})}


def _first(completion: dict[str, Any]) -> dict[str, Any]:
    choice = as_object(next(iter(as_list(completion.get("choices"))), None))
    if not as_object(choice.get("message")):
        raise ValueError("no completion")
    return choice


def _call(value: dict[str, Any]) -> ToolCall:
    function = as_object(value.get("function"))
    return ToolCall(
        as_text(function.get("name")), as_text(function.get("arguments")), as_text(value.get("id"))
    )


def _written(old: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    function = {**as_object(old.get("function")), "name": call.name, "arguments": call.arguments}
    return {"id": "", "type": "function"} | old | {"id": call.id, "function": function}


def _add(choice: dict[str, Any], part: dict[str, Any]) -> None:
    """Add a chunk's delta to the choice so far."""
    message = choice["message"]
    for key, value in as_object(part.get("delta")).items():
        if key == "tool_calls":
            calls = message.setdefault("tool_calls", [])
            for delta in as_objects(value):
                _add_call(calls, delta)
        elif key != "role" and isinstance(value, str) and isinstance(message.get(key), str):
            message[key] += value
        elif value is not None or key not in message:
            message[key] = value
    rest = {key: value for key, value in part.items() if key != "delta" and value is not None}
    choice.update(rest)


def _add_call(calls: list[dict[str, Any]], delta: dict[str, Any]) -> None:
    """Add a piece of a tool call to the call with its index, or begin that call."""
    at = index_in(delta)
    known = next((call for call in calls if call["index"] == at), None)
    function = as_object(delta.get("function"))
    if known is None:
        calls.append({**delta, "index": at, "function": {**function, "arguments": ""}})
        known = calls[-1]
    known["function"]["arguments"] += as_text(function.get("arguments"))


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message in pieces: its role, its text, and each tool call with its arguments."""
    content, calls = as_text(message.get("content")), as_objects(message.get("tool_calls"))
    rest = {key: value for key, value in message.items() if key not in ("content", "tool_calls")}
    yield {"role": "assistant", **rest, "content": None if calls and not content else ""}
    for piece in pieces(content):
        yield {"content": piece}
    for at, call in enumerate(calls):
        function = as_object(call.get("function"))
        begun = {"index": at} | call | {"index": at, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [begun]}
        for piece in pieces(as_text(function.get("arguments"))):
            yield {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}


def _chunk_choice(chunk: Any) -> dict[str, Any]:
    """The first choice of a chunk; empty without one."""
    return next(iter(as_objects(as_object(chunk).get("choices"))), {})


def _call_deltas(choice: dict[str, Any]) -> list[dict[str, Any]]:
    return as_objects(as_object(choice.get("delta")).get("tool_calls"))


def _begins(call: dict[str, Any]) -> bool:
    return bool(as_object(call.get("function")).get("name"))
