"""Bedrock's ``converse`` and ``converse-stream``. Pure.

The model's name is in the request's path. A stream is AWS's event stream: the kind of an event is a header of
its frame. The type of an error is a header of the reply, or of the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from wirefault.dialects import Dialect
from wirefault.dialects.base import (
    ErrorForm,
    EventKind,
    ModelReply,
    ModelRequest,
    NamesErrorsInHeader,
    OfferedTool,
    ToolCall,
    pieces,
)
from wirefault.dialects.bedrock_messages import to_messages
from wirefault.dialects.conversation import last_user_text
from wirefault.dialects.http import Request, dump_json, value_of, with_data
from wirefault.dialects.json_values import as_object, as_objects, as_text, compact, parsed
from wirefault.dialects.stream_forms import Frame, read_frame

ERROR_TYPE = "x-amzn-ErrorType"
_ERRORS = {
    "rate_limit": ErrorForm(
        429, "Too many requests, please wait before trying again.", "ThrottlingException"
    ),
    "quota": ErrorForm(
        400, "Your request exceeds the service quota for your account.", "ServiceQuotaExceededException"
    ),
    "auth_error": ErrorForm(
        403, "The security token included in the request is invalid.", "UnrecognizedClientException"
    ),
    "forbidden": ErrorForm(
        403, "You don't have access to the model with the specified model ID.", "AccessDeniedException"
    ),
    "not_found": ErrorForm(404, "Could not resolve the model {model}.", "ResourceNotFoundException"),
    "server_error": ErrorForm(
        500,
        "The system encountered an unexpected error during processing. Try your request again.",
        "InternalServerException",
    ),
    "bad_gateway": ErrorForm(502, "Bad Gateway"),
    "unavailable": ErrorForm(503, "The service is temporarily unavailable.", "ServiceUnavailableException"),
    "overloaded": ErrorForm(
        429, "The model is not ready to serve inference requests. Try again.", "ModelNotReadyException"
    ),
    "context_length": ErrorForm(
        400,
        "Input is too long for requested model: {tokens} tokens > {limit} maximum.",
        "ValidationException",
    ),
    "tool_use_failed": ErrorForm(
        424,
        "The model produced invalid sequence as part of ToolUse: {failed_generation}",
        "ModelErrorException",
    ),
    "content_filter": ErrorForm(
        400, "The request was blocked by our content filters.", "ValidationException"
    ),
}
_BY_STATUS = {form.status: form.type for form in reversed(_ERRORS.values()) if form.type} | {
    400: "ValidationException",
    403: "AccessDeniedException",
    408: "ModelTimeoutException",
}
_FINISH = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
    "content_filtered": "content_filter", "guardrail_intervened": "content_filter",
}  # fmt: skip
_STOP = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filtered",
}
# the exceptions that a stream may end in, by the names of errors before it
_STREAM_EXCEPTIONS = {
    "ValidationException": "validationException",
    "ThrottlingException": "throttlingException",
    "InternalServerException": "internalServerException",
    "ServiceUnavailableException": "serviceUnavailableException",
    "ModelNotReadyException": "serviceUnavailableException",
}
_Block = dict[str, Any]


class Bedrock(NamesErrorsInHeader):
    """Implements ``ModelDialect``; a reply has a message, its content a list of blocks."""

    name: Dialect = "bedrock"
    id_header = "x-amzn-RequestId"
    errors: Mapping[str, ErrorForm] = _ERRORS
    path_end = ("/converse", "/converse-stream")
    id_prefix = "tooluse_"
    ping = b""

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        return {"message": message}

    def error_headers(self, type: str, status: int) -> Mapping[str, str]:
        known = type if type.endswith("Exception") else _BY_STATUS.get(status)
        return {ERROR_TYPE: known} if known else {}

    def read_request(self, request: Request) -> ModelRequest:
        body = request.json_object()
        try:
            messages = to_messages(body)
        except ValueError:
            messages = []
        blocks = [
            b for message in as_objects(body.get("messages")) for b in as_objects(message.get("content"))
        ]
        calls = [_call(block) for block in blocks if "toolUse" in block]
        specs = [
            as_object(t.get("toolSpec")) for t in as_objects(as_object(body.get("toolConfig")).get("tools"))
        ]
        tools = [
            OfferedTool.read(
                {**spec, "schema": as_object(spec.get("inputSchema")).get("json")}, schema="schema"
            )
            for spec in specs
        ]
        model = unquote(request.path.rpartition("/")[0].rpartition("/model/")[2])
        return ModelRequest(last_user_text(messages), tuple(calls), tuple(tools), model=model)

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        """A reply names neither itself nor its model."""
        output = {"message": {"role": "assistant", "content": []}}
        return {"output": output, "stopReason": "end_turn", "metrics": {"latencyMs": 0}}

    def read_reply(self, body: dict[str, Any]) -> ModelReply:
        blocks = _blocks(body)
        stop = as_text(body.get("stopReason"))
        text = "".join(as_text(block.get("text")) for block in blocks)
        return ModelReply(text, tuple(_call(b) for b in blocks if "toolUse" in b), _FINISH.get(stop, stop))

    def write_reply(self, body: dict[str, Any], reply: ModelReply) -> dict[str, Any]:
        """Blocks of other kinds than text and tool calls stay where they are."""
        same_text = reply.text == self.read_reply(body).text
        calls, text = list(reply.calls), reply.text
        content: list[_Block] = []
        for block in _blocks(body):
            if "toolUse" in block:
                content += [_written(block, calls.pop(0))] if calls else []
            elif "text" not in block or same_text:
                content.append(block)
            elif text:
                content.append({"text": text})
                text = ""
        if text and not same_text:
            content.append({"text": text})
        content += [_written({}, call) for call in calls]
        return _with_content({**body, "stopReason": _STOP.get(reply.finish, reply.finish) or None}, content)

    def cut_call(self, call: ToolCall, *, stream: bool) -> ToolCall | None:
        """Arguments are an object; only the pieces of a stream can break off."""
        return call if stream else replace(call, arguments="{}")

    def usage(self, prompt: int, completion: int) -> dict[str, int]:
        return {"inputTokens": prompt, "outputTokens": completion, "totalTokens": prompt + completion}

    def collect(self, events: Iterable[bytes]) -> dict[str, Any]:
        body: dict[str, Any] | None = None
        blocks: dict[int, _Block] = {}
        for event in events:
            kind, value = _kind_and_value(event)
            if kind == "messageStart":
                body = {"output": {"message": {"role": "assistant"}}}
            elif kind == "contentBlockStart":
                blocks[_index(value)] = {
                    key: {**as_object(v)} for key, v in as_object(value.get("start")).items()
                }
            elif kind == "contentBlockDelta":
                _add(blocks.setdefault(_index(value), {}), as_object(value.get("delta")))
            elif kind in ("messageStop", "metadata") and body is not None:
                body |= {key: item for key, item in value.items() if key != _PADDING}
            elif exception_in(event):
                raise ValueError("the stream ended in an exception")
        if body is None:
            raise ValueError("no stream of a message")
        return _with_content(body, [_ended(blocks[at]) for at in sorted(blocks)])

    def spread(self, body: dict[str, Any]) -> Iterator[bytes]:
        yield _event("messageStart", role="assistant")
        for at, block in enumerate(_blocks(body)):
            start, deltas = _opened(block)
            if start:
                yield _event("contentBlockStart", contentBlockIndex=at, start=start)
            for delta in deltas:
                yield _event("contentBlockDelta", contentBlockIndex=at, delta=delta)
            yield _event("contentBlockStop", contentBlockIndex=at)
        rest = {key: value for key, value in body.items() if key != "output"}
        ends = {key: rest.pop(key) for key in ("stopReason", "additionalModelResponseFields") if key in rest}
        yield _event("messageStop", **ends)
        if rest:
            yield _event("metadata", **rest)

    def kind_of(self, event: bytes) -> EventKind:
        kind, value = _kind_and_value(event)
        if kind in ("messageStop", "metadata"):
            return "finish" if kind == "messageStop" else "end"
        if kind == "contentBlockStart":
            return "call" if "toolUse" in as_object(value.get("start")) else "other"
        delta = as_object(value.get("delta"))
        if "toolUse" in delta:
            return "arguments"
        thought = as_object(delta.get("reasoningContent")).get("text")
        return "text" if as_text(delta.get("text")) or as_text(thought) else "other"

    def calls_begun(self, event: bytes) -> int:
        return int(self.kind_of(event) == "call")

    def arguments_in(self, event: bytes) -> str:
        delta = as_object(as_object(value_of(event)).get("delta"))
        return as_text(as_object(delta.get("toolUse")).get("input"))

    def error_event(self, type: str, body: dict[str, Any], number: int) -> bytes:
        """An exception; a stream has fewer kinds of them than a reply."""
        kind = _STREAM_EXCEPTIONS.get(type, "modelStreamErrorException")
        headers = {
            ":exception-type": kind,
            ":content-type": "application/json",
            ":message-type": "exception",
        }
        return Frame(headers, dump_json(body)).encoded()

    def with_arguments(self, event: bytes, arguments: str) -> bytes:
        value = as_object(value_of(event))
        delta = as_object(value.get("delta"))
        if "toolUse" not in delta:
            return event
        changed = {**delta, "toolUse": {**as_object(delta["toolUse"]), "input": arguments}}
        return with_data(event, dump_json({**value, "delta": changed}))


BEDROCK = Bedrock()
_PADDING = "p"  # of random length, so that the size of an event does not show its content


def exception_in(event: bytes) -> str:
    """The type of the exception that an event of a stream is; empty for any other event."""
    headers = frame.headers if (frame := read_frame(event)) is not None else {}
    return headers.get(":exception-type", "") or headers.get(":error-code", "")


def _kind_and_value(event: bytes) -> tuple[str, dict[str, Any]]:
    frame = read_frame(event)
    return ("", {}) if frame is None else (frame.headers.get(":event-type", ""), as_object(value_of(event)))


def _blocks(body: dict[str, Any]) -> list[_Block]:
    content = as_object(as_object(body.get("output")).get("message")).get("content")
    if not isinstance(content, list) or len(as_objects(content)) != len(content):
        raise ValueError("no message")
    return as_objects(content)


def _with_content(body: dict[str, Any], content: list[_Block]) -> dict[str, Any]:
    output = as_object(body.get("output"))
    return {**body, "output": {**output, "message": {**as_object(output.get("message")), "content": content}}}


def _call(block: _Block) -> ToolCall:
    call = as_object(block["toolUse"])
    return ToolCall(as_text(call.get("name")), _arguments(call.get("input")), as_text(call.get("toolUseId")))


def _arguments(value: Any) -> str:
    """If an input is a string, it is the text of a stream's pieces, which was not JSON."""
    return value if isinstance(value, str) else compact(value if value is not None else {})


def _written(block: _Block, call: ToolCall) -> _Block:
    values = call.values()
    old = as_object(block.get("toolUse"))
    new = {"toolUseId": call.id, "name": call.name, "input": call.arguments if values is None else values}
    return {**block, "toolUse": {**old, **new}}


def _index(value: dict[str, Any]) -> int:
    index = value.get("contentBlockIndex")
    return index if isinstance(index, int) else 0


def _add(block: _Block, delta: dict[str, Any]) -> None:
    """Add a delta to the block so far: texts are joined, at any depth."""
    for key, value in delta.items():
        if isinstance(value, str):
            block[key] = as_text(block.get(key)) + value
        elif isinstance(value, dict):
            _add(block.setdefault(key, {}), value)
        else:
            block[key] = value


def _ended(block: _Block) -> _Block:
    """A complete block: its input is JSON, or the text that should be JSON."""
    call = as_object(block.get("toolUse"))
    if not call:
        return block
    written = as_text(call.get("input"))
    try:
        return {**block, "toolUse": {**call, "input": parsed(written) if written else {}}}
    except ValueError:
        return block


def _opened(block: _Block) -> tuple[_Block, list[_Block]]:
    """How a block starts, empty for a text, and the deltas that complete it."""
    if "toolUse" in block:
        call = as_object(block["toolUse"])
        start = {key: value for key, value in call.items() if key != "input"}
        return {"toolUse": start}, [
            {"toolUse": {"input": piece}} for piece in pieces(_arguments(call.get("input")))
        ]
    if "text" in block:
        return {}, [{"text": piece} for piece in pieces(as_text(block["text"]))]
    return {}, [block]


def _event(kind: str, **fields: Any) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return Frame(headers, dump_json(fields)).encoded()
