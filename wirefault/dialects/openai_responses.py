"""OpenAI's Responses API. Pure.

A reply's ``output`` is a list of items: messages, function calls, reasoning and others. Its errors are those
of chat completions, but for what it says of a context that is too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wirefault.dialects import Dialect
from wirefault.dialects.conversation import last_user_text
from wirefault.dialects.errors import ErrorForm
from wirefault.dialects.event_stream import value_of, with_data
from wirefault.dialects.http import Request, dump_json
from wirefault.dialects.json_values import as_object, as_objects, as_text
from wirefault.dialects.model_dialect import EventKind
from wirefault.dialects.model_messages import ModelReply, ModelRequest, OfferedTool, ToolCall
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.dialects.response_stream import FINISHED, collect_response, spread_response

_ERRORS = {
    **OPENAI_CHAT.errors,
    "context_length": ErrorForm(
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
}
_INCOMPLETE = {"content_filter": "content_filter", "length": "max_output_tokens"}
_FINISH = {reason: finish for finish, reason in _INCOMPLETE.items()}
_KINDS: Mapping[str, EventKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_text.delta": "text",
    "response.reasoning_summary_text.delta": "text",
    "response.function_call_arguments.delta": "arguments",
    **dict.fromkeys(FINISHED, "finish"),
}
_Item = dict[str, Any]


class OpenAIResponses:
    """Implements ``ModelDialect``. The event with the finish reason is the last, and none is an ``end``."""

    name: Dialect = "openai_responses"
    id_header = "x-request-id"
    errors: Mapping[str, ErrorForm] = _ERRORS
    path_end = "/responses"
    id_prefix = "call_"
    error_body = staticmethod(OPENAI_CHAT.error_body)

    def read_request(self, request: Request) -> ModelRequest:
        body = request.json_object()
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else as_objects(given)
        calls = [_call(item) for item in items if item.get("type") == "function_call"]
        functions = [tool for tool in as_objects(body.get("tools")) if tool.get("type") == "function"]
        tools = [OfferedTool.read(function, schema="parameters") for function in functions]
        return ModelRequest(last_user_text(items), tuple(calls), tuple(tools))

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        head = {"id": id, "object": "response", "created_at": created, "status": "completed", "error": None}
        asked: _Item = {"instructions": None, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        text = {"text": {"format": {"type": "text"}}, "temperature": 1.0, "top_p": 1.0, "metadata": {}}
        return {
            **head,
            "incomplete_details": None,
            "model": model,
            "output": [],
            **asked,
            **text,
            "usage": None,
        }

    def read_reply(self, body: dict[str, Any]) -> ModelReply:
        items = _items(body)
        calls = tuple(_call(item) for item in items if item.get("type") == "function_call")
        text = "".join(_text(item) for item in items if item.get("type") == "message")
        return ModelReply(text, calls, _finish(body, bool(calls)))

    def write_reply(self, body: dict[str, Any], reply: ModelReply) -> dict[str, Any]:
        """Items of other kinds than messages and function calls stay where they are."""
        old = self.read_reply(body)
        same_text = reply.text == old.text
        calls, text = list(reply.calls), reply.text
        output: list[_Item] = []
        for item in _items(body):
            kind = item.get("type")
            if kind == "function_call":
                output += [_with_call(item, calls.pop(0))] if calls else []
            elif kind != "message" or same_text:
                output.append(item)
            elif text:
                output.append(_with_text(item, text))
                text = ""
        suffix = as_text(body.get("id")).partition("_")[2]
        if text and not same_text:
            output.append(_with_text({"id": f"msg_{suffix}{len(output)}", "role": "assistant"}, text))
        output += [_with_call({}, call) for call in calls]
        return {**body, "output": output} | ({} if reply.finish == old.finish else _status(reply.finish))

    def usage(self, prompt: int, completion: int) -> dict[str, Any]:
        cached = {"cache_write_tokens": 0, "cached_tokens": 0}
        read = {"input_tokens": prompt, "input_tokens_details": cached}
        written = {"output_tokens": completion, "output_tokens_details": {"reasoning_tokens": 0}}
        return {**read, **written, "total_tokens": prompt + completion}

    def collect(self, events: Iterable[bytes]) -> dict[str, Any]:
        return collect_response(events)

    def spread(self, body: dict[str, Any]) -> Iterator[bytes]:
        return spread_response(body)

    def kind_of(self, event: bytes) -> EventKind:
        value = as_object(value_of(event))
        kind = as_text(value.get("type"))
        if kind == "response.output_item.added" and _is_call(value):
            return "call"
        return _KINDS.get(kind, "other")

    def calls_begun(self, event: bytes) -> int:
        return int(self.kind_of(event) == "call")

    def arguments_in(self, event: bytes) -> str:
        value = as_object(value_of(event))
        return as_text(value.get("delta")) if self.kind_of(event) == "arguments" else ""

    def with_arguments(self, event: bytes, arguments: str) -> bytes:
        return with_data(event, dump_json({**as_object(value_of(event)), "delta": arguments}))


OPENAI_RESPONSES = OpenAIResponses()


def _items(body: dict[str, Any]) -> list[_Item]:
    output = body.get("output")
    if not isinstance(output, list) or len(as_objects(output)) != len(output):
        raise ValueError("no response")
    return as_objects(output)


def _is_call(value: dict[str, Any]) -> bool:
    return as_object(value.get("item")).get("type") == "function_call"


def _call(item: _Item) -> ToolCall:
    return ToolCall(as_text(item.get("name")), as_text(item.get("arguments")), as_text(item.get("call_id")))


def _text(item: _Item) -> str:
    parts = [part for part in as_objects(item.get("content")) if part.get("type") == "output_text"]
    return "".join(as_text(part.get("text")) for part in parts)


def _with_call(item: _Item, call: ToolCall) -> _Item:
    """The item with that call. One of another id is another item, with an id of its own."""
    same = item.get("call_id") == call.id
    new = {} if same else {"id": f"fc_{call.id.removeprefix('call_')}"}
    written = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
    return {"type": "function_call", "status": "completed", **item, **new, **written}


def _with_text(item: _Item, text: str) -> _Item:
    """The item with that text alone in place of its parts, of which the annotations quoted offsets."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "status": "completed", **item, "content": [part]}


def _finish(body: dict[str, Any], has_calls: bool) -> str:
    """The reason for the end, in the words of chat completions; empty if the reply has not ended."""
    status, reason = as_text(body.get("status")), as_object(body.get("incomplete_details")).get("reason")
    if status == "completed":
        return "tool_calls" if has_calls else "stop"
    return _FINISH.get(as_text(reason), as_text(reason)) if status == "incomplete" else ""


def _status(finish: str) -> dict[str, Any]:
    reason = _INCOMPLETE.get(finish)
    details = {"reason": reason} if reason else None
    return {"status": "incomplete" if reason else "completed", "incomplete_details": details}
