"""Anthropic's messages API. Pure.

Statuses and types of errors follow its error reference; messages are its usual ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
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
from wirefault.dialects.http import Request, dump_json, value_of, with_data, write_event
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, compact, index_in, parsed

_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "refusal": "content_filter", "max_tokens": "length"}
_STOP = {finish: stop for stop, finish in _FINISH.items()}
_ENDS = ("stop_reason", "stop_sequence", "stop_details", "container")
_INVALID = "invalid_request_error"
_ERRORS = {
    "rate_limit": ErrorForm(429, "This request would exceed your account's rate limit.", "rate_limit_error"),
    "quota": ErrorForm(402, "Your credit balance is too low to access the API.", "billing_error"),
    "auth_error": ErrorForm(401, "invalid x-api-key", "authentication_error"),
    "forbidden": ErrorForm(403, "Your API key has no permission to use this resource.", "permission_error"),
    "not_found": ErrorForm(404, "model: {model}", "not_found_error"),
    "server_error": ErrorForm(500, "Internal server error", "api_error"),
    "bad_gateway": ErrorForm(502, "Bad Gateway"),
    "unavailable": ErrorForm(503, "Service unavailable", "api_error"),
    "overloaded": ErrorForm(529, "Overloaded", "overloaded_error"),
    "context_length": ErrorForm(400, "prompt is too long: {tokens} tokens > {limit} maximum", _INVALID),
    "tool_use_failed": ErrorForm(400, TOOL_USE_FAILED + " {failed_generation}", _INVALID),
    "content_filter": ErrorForm(400, CONTENT_FILTERED, _INVALID),
}
_Block = dict[str, Any]


class Anthropic:
    """Implements ``ModelDialect``; a reply is a message, its content a list of blocks."""

    name: Dialect = "anthropic"
    id_header = "request-id"
    errors: Mapping[str, ErrorForm] = _ERRORS
    path_end = ("/messages", ":rawPredict", ":streamRawPredict")  # the latter two on Vertex
    id_prefix = "toolu_"
    ping = write_event({"type": "ping"}, "ping")

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        return {"type": "error", "error": {"type": type, "message": message, **fields}, "request_id": id}

    def read_request(self, request: Request) -> ModelRequest:
        body = request.json_object()
        messages = as_objects(body.get("messages"))
        blocks = [block for message in messages for block in as_objects(message.get("content"))]
        calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
        tools = [OfferedTool.read(tool, schema="input_schema") for tool in as_objects(body.get("tools"))]
        return ModelRequest(last_user_text(messages), tuple(calls), tuple(tools))

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        """A message does not say when it was created."""
        head = {"id": id, "type": "message", "role": "assistant", "model": model, "content": []}
        return {**head, "stop_reason": None, "stop_sequence": None, "usage": self.usage(0, 0)}

    def read_reply(self, body: dict[str, Any]) -> ModelReply:
        blocks = _blocks(body)
        stop = as_text(body.get("stop_reason"))
        text = "".join(as_text(block.get("text")) for block in blocks if block.get("type") == "text")
        calls = tuple(_call(block) for block in blocks if block.get("type") == "tool_use")
        return ModelReply(text, calls, _FINISH.get(stop, stop))

    def write_reply(self, body: dict[str, Any], reply: ModelReply) -> dict[str, Any]:
        """Blocks of other kinds than text and tool calls stay where they are."""
        same_text = reply.text == self.read_reply(body).text
        calls, text = list(reply.calls), reply.text
        content: list[_Block] = []
        for block in _blocks(body):
            kind = block.get("type")
            if kind == "tool_use":
                content += [_written(block, calls.pop(0))] if calls else []
            elif kind != "text" or same_text:
                content.append(block)
            elif text:
                content.append({"type": "text", "text": text})
                text = ""
        if text and not same_text:
            content.append({"type": "text", "text": text})
        content += [_written({"type": "tool_use"}, call) for call in calls]
        return {**body, "content": content, "stop_reason": _STOP.get(reply.finish, reply.finish) or None}

    def cut_call(self, call: ToolCall, *, stream: bool) -> ToolCall | None:
        """Arguments are an object; only the pieces of a stream can break off."""
        return call if stream else replace(call, arguments="{}")

    def usage(self, prompt: int, completion: int) -> dict[str, int]:
        return {"input_tokens": prompt, "output_tokens": completion}

    def collect(self, events: Iterable[bytes]) -> dict[str, Any]:
        message: dict[str, Any] | None = None
        blocks: dict[int, _Block] = {}
        for event in events:
            value = as_object(value_of(event))
            kind = value.get("type")
            if kind == "message_start":
                message = {**as_object(value.get("message"))}
            elif kind == "message_delta" and message is not None:
                message |= as_object(value.get("delta"))
                message["usage"] = {**as_object(message.get("usage")), **as_object(value.get("usage"))}
            elif kind == "content_block_start":
                blocks[index_in(value)] = {**as_object(value.get("content_block"))}
            elif kind == "content_block_delta":
                _add(blocks.setdefault(index_in(value), {"type": "text"}), as_object(value.get("delta")))
            elif kind == "error":
                raise ValueError("the stream ended in an error")
        if message is None:
            raise ValueError("no stream of a message")
        return {**message, "content": [_ended(blocks[at]) for at in sorted(blocks)]}

    def spread(self, body: dict[str, Any]) -> Iterator[bytes]:
        usage = as_object(body.get("usage"))
        start = {**body, "content": [], "stop_reason": None, "stop_sequence": None}
        yield _event("message_start", message=start)
        for at, block in enumerate(_blocks(body)):
            empty, deltas = _opened(block)
            yield _event("content_block_start", index=at, content_block=empty)
            for delta in deltas:
                yield _event("content_block_delta", index=at, delta=delta)
            yield _event("content_block_stop", index=at)
        delta = {key: body.get(key) for key in _ENDS if key in body}
        yield _event("message_delta", delta=delta, usage={"output_tokens": 0, **usage})
        yield _event("message_stop")

    def kind_of(self, event: bytes) -> EventKind:
        value = as_object(value_of(event))
        kind = as_text(value.get("type"))
        if kind in ("message_delta", "message_stop"):
            return "finish" if kind == "message_delta" else "end"
        if not kind.startswith("content_block"):
            return "other"
        if as_object(value.get("content_block")).get("type") == "tool_use":
            return "call"
        delta = as_object(value.get("delta"))
        if "partial_json" in delta:
            return "arguments"
        return "text" if as_text(delta.get("text")) or as_text(delta.get("thinking")) else "other"

    def calls_begun(self, event: bytes) -> int:
        return int(self.kind_of(event) == "call")

    def arguments_in(self, event: bytes) -> str:
        return as_text(as_object(as_object(value_of(event)).get("delta")).get("partial_json"))

    def error_event(self, type: str, body: dict[str, Any], number: int) -> bytes:
        return write_event(body, "error")

    def with_arguments(self, event: bytes, arguments: str) -> bytes:
        value = as_object(value_of(event))
        delta = {**as_object(value.get("delta")), "partial_json": arguments}
        return with_data(event, dump_json({**value, "delta": delta}))


ANTHROPIC = Anthropic()


def _blocks(message: dict[str, Any]) -> list[_Block]:
    content = message.get("content")
    if not isinstance(content, list) or len(as_objects(content)) != len(content):
        raise ValueError("no message")
    return as_objects(content)


def _call(block: _Block) -> ToolCall:
    return ToolCall(as_text(block.get("name")), _arguments(block.get("input")), as_text(block.get("id")))


def _arguments(value: Any) -> str:
    """If an input is a string, it is the text of a stream's pieces, which was not JSON."""
    return value if isinstance(value, str) else compact(value if value is not None else {})


def _written(block: _Block, call: ToolCall) -> _Block:
    values = call.values()
    return {**block, "id": call.id, "name": call.name, "input": call.arguments if values is None else values}


_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def _add(block: _Block, delta: dict[str, Any]) -> None:
    kind = as_text(delta.get("type"))
    if kind == "input_json_delta":
        block["json"] = as_text(block.get("json")) + as_text(delta.get("partial_json"))
    elif kind == "citations_delta":
        block["citations"] = [*as_list(block.get("citations")), delta.get("citation")]
    elif kind in _PIECES:
        key = _PIECES[kind]
        block[key] = as_text(block.get(key)) + as_text(delta.get(key))


def _ended(block: _Block) -> _Block:
    """A complete block: its input is JSON, or the text that should be JSON."""
    if "json" not in block:
        return block
    written = block["json"]
    rest = {key: value for key, value in block.items() if key != "json"}
    try:
        return {**rest, "input": parsed(written) if written else {}}
    except ValueError:
        return {**rest, "input": written}


def _opened(block: _Block) -> tuple[_Block, list[dict[str, Any]]]:
    """A block as it starts, and the deltas that complete it."""
    kind = block.get("type")
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": cite} for cite in as_list(block.get("citations"))]
        empty = {**block, "text": ""} | ({"citations": []} if cited else {})
        return empty, [*cited, *_cut("text_delta", "text", as_text(block.get("text")))]
    if kind == "tool_use":
        written = _arguments(block.get("input"))
        return {**block, "input": {}}, _cut("input_json_delta", "partial_json", written)
    if kind == "thinking":
        thought = _cut("thinking_delta", "thinking", as_text(block.get("thinking")))
        sign = {"type": "signature_delta", "signature": as_text(block.get("signature"))}
        return {**block, "thinking": "", "signature": ""}, [*thought, sign]
    return block, []


def _cut(kind: str, key: str, whole: str) -> list[dict[str, Any]]:
    return [{"type": kind, key: piece} for piece in pieces(whole)]


def _event(kind: str, **fields: Any) -> bytes:
    return write_event({"type": kind, **fields}, kind)
