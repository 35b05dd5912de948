"""Ollama's own API: ``/api/chat`` and ``/api/generate``. Pure.

A stream is newline-delimited JSON: each line is a reply with a piece of the text, the last one has ``done``,
the reason and the counts. A tool call comes whole, in one line. An error is ``{"error": TEXT}``, also as a
line of a stream. Messages of errors follow the server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from wirefault.dialects import Dialect
from wirefault.dialects.base import (
    ErrorForm,
    EventKind,
    ModelReply,
    ModelRequest,
    NotInDialect,
    OfferedTool,
    ToolCall,
    pieces,
)
from wirefault.dialects.conversation import last_user_text
from wirefault.dialects.http import Request, dump_json, value_of, with_data
from wirefault.dialects.json_values import as_object, as_objects, as_text, compact

_ERROR = "error"  # its errors have no types
_ERRORS = {
    "rate_limit": ErrorForm(
        429, "you (account) are sending too many requests, please wait and try again", _ERROR
    ),
    "quota": ErrorForm(
        429, "you (account) have reached your weekly usage limit, upgrade for higher limits", _ERROR
    ),
    "auth_error": ErrorForm(401, "unauthorized", _ERROR),
    "forbidden": ErrorForm(403, "this model requires a subscription, upgrade for access", _ERROR),
    "not_found": ErrorForm(404, "model '{model}' not found", _ERROR),
    "server_error": ErrorForm(500, "model runner has unexpectedly stopped, check the server's logs", _ERROR),
    "bad_gateway": ErrorForm(502, "Bad Gateway"),
    "unavailable": ErrorForm(503, "the service is unavailable, please try again", _ERROR),
    "overloaded": ErrorForm(503, "server busy, please try again.  maximum pending requests exceeded", _ERROR),
    "context_length": ErrorForm(
        400, "the prompt has {tokens} tokens and exceeds the model's context length of {limit}", _ERROR
    ),
    "tool_use_failed": ErrorForm(
        500, "error parsing tool call: raw='{failed_generation}', err=unexpected end of JSON input", _ERROR
    ),
}
_FINISHES = frozenset({"stop", "tool_calls", "length", "load", "unload", ""})
_Body = dict[str, Any]


class Ollama:
    """Implements ``ModelDialect``. A reply of ``/api/chat`` has a message, of ``/api/generate`` a text."""

    name: Dialect = "ollama"
    id_header = ""
    errors: Mapping[str, ErrorForm] = _ERRORS
    path_end = ("/api/chat", "/api/generate")
    id_prefix = "call_"
    ping = b""

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        return {"error": message}

    def read_request(self, request: Request) -> ModelRequest:
        body = request.json_object()
        messages = as_objects(body.get("messages"))
        calls = [_call(call) for message in messages for call in as_objects(message.get("tool_calls"))]
        functions = [as_object(tool.get("function")) for tool in as_objects(body.get("tools"))]
        tools = [OfferedTool.read(function, schema="parameters") for function in functions]
        user = last_user_text(messages) if messages else as_text(body.get("prompt"))
        return ModelRequest(user, tuple(calls), tuple(tools))

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        """A reply has no id."""
        at = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
        message = {"role": "assistant", "content": ""}
        return {"model": model, "created_at": at, "message": message, "done": True, "done_reason": "stop"}

    def read_reply(self, body: dict[str, Any]) -> ModelReply:
        if "error" in body or not (_is_generated(body) or as_object(body.get("message"))):
            raise ValueError("no reply")
        calls = tuple(map(_call, _calls_in(body)))
        reason = as_text(body.get("done_reason")) or ("stop" if body.get("done") else "")
        return ModelReply(_text_in(body), calls, "tool_calls" if calls and reason == "stop" else reason)

    def write_reply(self, body: dict[str, Any], reply: ModelReply) -> dict[str, Any]:
        """The API has no content filter, and never returns a call whose arguments are not an object."""
        self.read_reply(body)
        if reply.finish not in _FINISHES:
            raise NotInDialect(f"no end by {reply.finish}")
        if any(call.values() is None for call in reply.calls):
            raise NotInDialect("arguments are always an object")
        changed = _with_text(body, reply.text)
        finish = {"done_reason": "stop" if reply.finish == "tool_calls" else reply.finish}
        if _is_generated(body):
            if reply.calls:
                raise NotInDialect("a generated text has no tool calls")
            return {**changed, **finish}
        old_calls = _calls_in(body)
        message = {key: value for key, value in changed["message"].items() if key != "tool_calls"}
        if reply.calls:
            padded = [*old_calls, *({} for _ in reply.calls)]
            message["tool_calls"] = [
                _written(old, call) for old, call in zip(padded, reply.calls, strict=False)
            ]
        return {**changed, "message": message, **finish}

    def cut_call(self, call: ToolCall, *, stream: bool) -> ToolCall | None:
        """Calls come whole or not at all."""
        return None

    def usage(self, prompt: int, completion: int) -> dict[str, int]:
        return {"prompt_eval_count": prompt, "eval_count": completion}

    def collect(self, events: Iterable[bytes]) -> dict[str, Any]:
        lines = [value for event in events if isinstance(value := value_of(event), dict)]
        if not lines or any("error" in line for line in lines):
            raise ValueError("no stream of replies")
        whole: _Body = {key: value for line in lines for key, value in line.items()}
        text = "".join(map(_text_in, lines))
        if "message" not in whole:
            return {**whole, "response": text, **_thinking(lines)}
        calls = [call for line in lines for call in _calls_in(line)]
        message = {
            "role": "assistant",
            "content": text,
            **_thinking([as_object(line.get("message")) for line in lines]),
        }
        return {**whole, "message": {**message, **({"tool_calls": calls} if calls else {})}}

    def spread(self, body: dict[str, Any]) -> Iterator[bytes]:
        """The reply in lines. The last one has the fields of a whole reply except its content."""
        begun = {key: body[key] for key in ("model", "created_at") if key in body}
        key = "response" if _is_generated(body) else "message"
        content = as_object(body.get("message")) if key == "message" else body
        for piece in pieces(as_text(content.get("thinking"))):
            yield _line({**begun, **_content(key, "", thinking=piece), "done": False})
        for piece in pieces(_text_in(body)):
            yield _line({**begun, **_content(key, piece), "done": False})
        for call in _calls_in(body):
            yield _line({**begun, **_content(key, "", tool_calls=[call]), "done": False})
        rest = {name: value for name, value in body.items() if name not in (key, "thinking")}
        yield _line({**begun, **_content(key, ""), **rest})

    def kind_of(self, event: bytes) -> EventKind:
        line = as_object(value_of(event))
        if _calls_in(line):
            return "call"
        if (
            _text_in(line)
            or as_text(line.get("thinking"))
            or as_text(as_object(line.get("message")).get("thinking"))
        ):
            return "text"
        return "finish" if line.get("done") is True else "other"

    def calls_begun(self, event: bytes) -> int:
        return len(_calls_in(as_object(value_of(event))))

    def arguments_in(self, event: bytes) -> str:
        return next((_call(call).arguments for call in _calls_in(as_object(value_of(event)))), "")

    def with_arguments(self, event: bytes, arguments: str) -> bytes:
        """A line cannot hold malformed arguments: it breaks off after them."""
        line = as_object(value_of(event))
        calls = _calls_in(line)
        if not calls:
            return event
        call = ToolCall(_call(calls[0]).name, arguments, _call(calls[0]).id)
        broken = call.values() is None
        written = _written(calls[0], ToolCall(call.name, "{}", call.id) if broken else call)
        message = {**as_object(line.get("message")), "tool_calls": [written]}
        whole = with_data(event, dump_json({**_undone(line), "message": message}))
        if not broken:
            return whole
        return (
            whole[: whole.rindex(b'"arguments": {}')]
            + b'"arguments": '
            + arguments.encode("utf-8", "replace")
        )

    def error_event(self, type: str, body: dict[str, Any], number: int) -> bytes:
        return _line(body)

    def without_finish(self, event: bytes) -> bytes | None:
        """The line without its end; None if it has none."""
        line = as_object(value_of(event))
        if line.get("done") is not True:
            return None
        return with_data(event, dump_json(_undone(line))) if self.kind_of(event) != "finish" else b""


OLLAMA = Ollama()


def _is_generated(body: _Body) -> bool:
    return isinstance(body.get("response"), str) and "message" not in body


def _text_in(body: _Body) -> str:
    if "message" in body:
        return as_text(as_object(body["message"]).get("content"))
    return as_text(body.get("response"))


def _with_text(body: _Body, text: str) -> _Body:
    if _is_generated(body):
        return {**body, "response": text}
    return {**body, "message": {**as_object(body.get("message")), "content": text}}


def _calls_in(body: _Body) -> list[dict[str, Any]]:
    return as_objects(as_object(body.get("message")).get("tool_calls"))


def _call(value: dict[str, Any]) -> ToolCall:
    function = as_object(value.get("function"))
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else compact({} if arguments is None else arguments)
    return ToolCall(as_text(function.get("name")), text, as_text(value.get("id")))


def _written(old: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    values = call.values()
    function = {
        **as_object(old.get("function")),
        "name": call.name,
        "arguments": call.arguments if values is None else values,
    }
    identity = {"id": call.id} if call.id else {}
    return {**identity, **{key: value for key, value in old.items() if key != "id"}, "function": function}


def _thinking(holders: Iterable[_Body]) -> dict[str, str]:
    text = "".join(as_text(holder.get("thinking")) for holder in holders)
    return {"thinking": text} if text else {}


def _content(key: str, text: str, **more: Any) -> dict[str, Any]:
    """A line's part of the reply."""
    if key == "response":
        return {"response": text, **more}
    return {"message": {"role": "assistant", "content": text, **more}}


def _undone(line: _Body) -> _Body:
    """The line as one before the last: without the reason and the counts."""
    return {
        key: line[key] for key in ("model", "created_at", "message", "response", "thinking") if key in line
    } | {"done": False}


def _line(value: Any) -> bytes:
    return dump_json(value) + b"\n"
