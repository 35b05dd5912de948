"""OpenAI's Responses API. Pure.

A reply's ``output`` is a list of items: messages, function calls, reasoning and others. Its errors are the
same as in chat completions, except for a context that is too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import count
from typing import Any

from wirefault.dialects import Dialect
from wirefault.dialects.base import (
    ErrorForm,
    EventKind,
    ModelReply,
    ModelRequest,
    OfferedTool,
    ToolCall,
    pieces,
)
from wirefault.dialects.conversation import last_user_text
from wirefault.dialects.http import Request, dump_json, value_of, with_data, write_event
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text
from wirefault.dialects.openai_chat import OPENAI_CHAT

FINISHED = ("response.completed", "response.incomplete")
_BEGUN = ("response.created", "response.queued", "response.in_progress")
_Event = dict[str, Any]


def collect_response(events: Iterable[bytes]) -> dict[str, Any]:
    """The response from the events: as in the last of them, else assembled from the pieces.

    Raises ``ValueError`` for any other stream, and for one that ended in an error.
    """
    response: dict[str, Any] | None = None
    items: dict[int, dict[str, Any]] = {}
    for event in events:
        value = as_object(value_of(event))
        kind = as_text(value.get("type"))
        if kind in FINISHED:
            return {**as_object(value.get("response"))}
        if kind in ("error", "response.failed"):
            raise ValueError("the stream ended in an error")
        if kind in _BEGUN:
            response = {**as_object(value.get("response"))}
        elif kind in ("response.output_item.added", "response.output_item.done"):
            items[_number(value, "output_index")] = deepcopy(as_object(value.get("item")))
        else:
            _add(items.setdefault(_number(value, "output_index"), {}), kind, value)
    if response is None:
        raise ValueError("no stream of a response")
    return {**response, "output": [items[at] for at in sorted(items) if items[at]]}


def _add(item: dict[str, Any], kind: str, event: _Event) -> None:
    """Add what an event brings to the item so far."""
    delta = as_text(event.get("delta"))
    if kind == "response.function_call_arguments.delta":
        item["arguments"] = as_text(item.get("arguments")) + delta
    elif kind == "response.content_part.added":
        item["content"] = [*as_list(item.get("content")), {**as_object(event.get("part"))}]
    elif kind == "response.output_text.delta":
        parts = as_objects(item.get("content"))
        if parts:
            part = parts[min(_number(event, "content_index"), len(parts) - 1)]
            part["text"] = as_text(part.get("text")) + delta


def _number(event: _Event, name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) and value >= 0 else 0


def spread_response(body: Mapping[str, Any]) -> Iterator[bytes]:
    """The response as the events of a stream."""
    numbers = count()
    for event in _events(body):
        yield write_event({**event, "sequence_number": next(numbers)}, event["type"])


def _events(body: Mapping[str, Any]) -> Iterator[_Event]:
    begun: _Event = {"status": "in_progress", "output": [], "incomplete_details": None, "usage": None}
    yield {"type": "response.created", "response": {**body, **begun}}
    yield {"type": "response.in_progress", "response": {**body, **begun}}
    for at, item in enumerate(as_objects(body.get("output"))):
        of_item = {"item_id": as_text(item.get("id")), "output_index": at}
        filled = {key: item[key] for key in item.keys() & {"content", "summary", "arguments"}}
        empty = {key: value[:0] for key, value in filled.items() if isinstance(value, str | list)}
        opened = {**item, **empty} | ({"status": "in_progress"} if "status" in item else {})
        yield {"type": "response.output_item.added", "output_index": at, "item": opened}
        yield from ({**event, **of_item} for event in _inside(item))
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    status = "incomplete" if body.get("status") == "incomplete" else "completed"
    yield {"type": f"response.{status}", "response": dict(body)}


def _inside(item: dict[str, Any]) -> Iterator[_Event]:
    """The events between the begin and the end of an item."""
    if item.get("type") == "function_call":
        written = as_text(item.get("arguments"))
        for piece in pieces(written):
            yield {"type": "response.function_call_arguments.delta", "delta": piece}
        name = as_text(item.get("name"))
        yield {"type": "response.function_call_arguments.done", "arguments": written, "name": name}
    for at, part in enumerate(as_objects(item.get("content"))):
        yield from ({**event, "content_index": at} for event in _of_part(part, "response.content_part"))
    for at, part in enumerate(as_objects(item.get("summary"))):
        summary = _of_part(part, "response.reasoning_summary_part")
        yield from ({**event, "summary_index": at} for event in summary)


# the kinds of parts whose text comes in pieces: what their events are called, and the key of their text
_TEXTS: dict[str, tuple[str, str, _Event]] = {
    "output_text": ("response.output_text", "text", {"logprobs": []}),
    "refusal": ("response.refusal", "refusal", {}),
    "reasoning_text": ("response.reasoning_text", "text", {}),
    "summary_text": ("response.reasoning_summary_text", "text", {}),
}


def _of_part(part: dict[str, Any], called: str) -> Iterator[_Event]:
    name, key, more = _TEXTS.get(as_text(part.get("type")), ("", "", {}))
    yield {"type": f"{called}.added", "part": {**part, key: ""} if key else part}
    if key:
        text = as_text(part.get(key))
        for piece in pieces(text):
            yield {"type": f"{name}.delta", "delta": piece, **more}
        yield {"type": f"{name}.done", key: text, **more}
    yield {"type": f"{called}.done", "part": part}


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
        value = body.get("input")
        items = [{"role": "user", "content": value}] if isinstance(value, str) else as_objects(value)
        calls = [_call(item) for item in items if item.get("type") == "function_call"]
        functions = [tool for tool in as_objects(body.get("tools")) if tool.get("type") == "function"]
        tools = [OfferedTool.read(function, schema="parameters") for function in functions]
        return ModelRequest(last_user_text(items), tuple(calls), tuple(tools))

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        head = {"id": id, "object": "response", "created_at": created, "status": "completed", "error": None}
        echo: _Item = {
            "instructions": None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        text = {"text": {"format": {"type": "text"}}, "temperature": 1.0, "top_p": 1.0, "metadata": {}}
        return {
            **head,
            "incomplete_details": None,
            "model": model,
            "output": [],
            **echo,
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
        if reply.finish == "length" and output:
            output[-1] = {**output[-1], "status": "incomplete"}
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

    def error_event(self, type: str, body: dict[str, Any], number: int) -> bytes:
        error = body["error"]
        details = {"code": error["code"] or type, "message": error["message"], "param": error["param"]}
        return write_event({"type": "error", **details, "sequence_number": number}, "error")

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
    """The item with that call. One of another id is another item, with its own id."""
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
