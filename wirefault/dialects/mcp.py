"""The Model Context Protocol: JSON-RPC messages, whatever carries them. Pure.

The protocol has two eras: sessions that begin with a handshake (up to 2025-11-25), and stateless requests
(2026-07-28), which repeat the handshake's content in ``params._meta`` and the message's method and name in
headers. A message is recognized by its shape; anything else reads as None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from wirefault.core.identity import fingerprint
from wirefault.dialects import Dialect
from wirefault.dialects.base import ErrorForm
from wirefault.dialects.http import (
    Reply,
    Request,
    Step,
    data_of,
    dump_json,
    split_events,
)
from wirefault.dialects.json_values import as_object, as_objects, as_text, compact, is_json, parsed
from wirefault.dialects.stream_forms import SERVER_SENT_EVENTS

CALL, LIST = "tools/call", "tools/list"
INITIALIZE, CANCELLED = "initialize", "notifications/cancelled"
PROGRESS = "notifications/progress"
SESSION_HEADER = "mcp-session-id"
_METHOD_HEADER, _NAME_HEADER = "mcp-method", "mcp-name"
_VERSION_IN_META = "io.modelcontextprotocol/protocolVersion"
# the field of params that a request's header repeats, by its method
_NAMED_BY = {CALL: "name", "prompts/get": "name", "resources/read": "uri"}
SERVER_ERROR, INVALID_REQUEST = -32000, -32600
_ENDPOINT_OF_SESSION = re.compile(r"[?&]session_?id=|/messages?(?:[/?]|$)", re.I)
ToolAnswer = Literal["", "result", "error"]
"""How a call of a tool was answered; empty where that is not known."""


class ModelContextProtocol:
    """Implements ``LinkDialect``: an error is a JSON-RPC one, its name in the catalogue among its data.

    Its ``id`` is null here: the sender of the response sets it to the message's id.
    """

    name: Dialect = "mcp"
    id_header = ""
    errors: Mapping[str, ErrorForm] = {
        "rate_limit": ErrorForm(429, "Too many requests", "rate_limit"),
        "quota": ErrorForm(429, "The quota of this key is used up", "quota"),
        "auth_error": ErrorForm(401, "The token is missing or not valid", "auth_error"),
        "forbidden": ErrorForm(403, "This token may not do that", "forbidden"),
        "not_found": ErrorForm(404, "Not found", "not_found"),
        "server_error": ErrorForm(500, "Internal server error", "server_error"),
        "bad_gateway": ErrorForm(502, "The server behind this one did not answer", "bad_gateway"),
        "unavailable": ErrorForm(503, "The server is unavailable", "unavailable"),
        "overloaded": ErrorForm(503, "The server has too much to do", "overloaded"),
    }

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        return error_message(None, SERVER_ERROR, message, {"type": type})


MCP = ModelContextProtocol()


@dataclass(frozen=True)
class McpMessage:
    """One JSON-RPC message.

    ``kind``: a ``request`` has a method and an id, a ``notification`` a method alone, a ``response`` a result
    or an error.
    """

    kind: Literal["request", "notification", "response"]
    value: Mapping[str, Any]

    @property
    def id(self) -> Any:
        """None for a notification, and for an error that answers nothing in particular."""
        return self.value.get("id")

    @property
    def method(self) -> str:
        """Empty for a response."""
        return as_text(self.value.get("method"))

    @property
    def params(self) -> dict[str, Any]:
        return as_object(self.value.get("params"))

    @property
    def name(self) -> str:
        """Subject of the message: name of the tool or prompt, URI of the resource; else empty."""
        return as_text(self.params.get(_NAMED_BY.get(self.method, "")))

    @property
    def arguments(self) -> dict[str, Any]:
        return as_object(self.params.get("arguments"))

    @property
    def progress_token(self) -> Any:
        """Token by which progress notifications name this request; None if it asks for none."""
        return as_object(self.params.get("_meta")).get("progressToken")

    @property
    def stateless(self) -> bool:
        """Whether the request is of the era without sessions."""
        return _VERSION_IN_META in as_object(self.params.get("_meta"))

    @property
    def result(self) -> dict[str, Any] | None:
        """A response's result; None for an error and for any other message."""
        result = self.value.get("result")
        return result if isinstance(result, dict) else None

    @property
    def error(self) -> dict[str, Any] | None:
        """A response's JSON-RPC error."""
        error = self.value.get("error")
        return error if isinstance(error, dict) else None

    @property
    def is_tool_result(self) -> bool:
        """Whether it is a tool's result, including a tool's error."""
        return self.result is not None and isinstance(self.result.get("content"), list)

    @property
    def tool_answer(self) -> ToolAnswer:
        """Whether the called tool succeeded or failed.

        Empty for a result of an unfinished call (a task, a question to the client), and for any message other
        than a response.
        """
        if self.error is not None:
            return "error"
        if self.result is None or "task" in self.result:
            return ""
        if self.result.get("isError"):
            return "error"
        return "result" if self.result.get("resultType", "complete") == "complete" else ""

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that a result of ``tools/list`` offers."""
        return as_objects((self.result or {}).get("tools"))


def read_message(source: bytes) -> McpMessage | None:
    """The message in a body, a line or an event's data; None for anything else, a batch included."""
    try:
        return message_of(parsed(source))
    except ValueError:
        return None


def message_of(value: Any) -> McpMessage | None:
    """The message in parsed JSON; None for anything else."""
    if not isinstance(value, dict) or "jsonrpc" not in value:
        return None
    if isinstance(value.get("method"), str):
        return McpMessage("request" if value.get("id") is not None else "notification", value)
    return McpMessage("response", value) if "result" in value or "error" in value else None


def result_message(request: McpMessage, result: Mapping[str, Any]) -> dict[str, Any]:
    """A response to that request with that result, in the request's era."""
    complete = {"resultType": "complete"} if request.stateless else {}
    return {"jsonrpc": "2.0", "id": request.id, "result": {**result, **complete}}


def error_message(id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    """A JSON-RPC error as the response to the request of that id."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": id, "error": error}


def notification_message(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": dict(params)}


def mcp_fingerprint(method: str, target: str, body: bytes) -> str:
    """As ``wirefault.core.identity.fingerprint``, without a message's ``id`` and ``params._meta``.

    Both differ between equal calls.
    """
    message = read_message(body)
    if message is None:
        return fingerprint(method, target, body)
    same = {name: value for name, value in message.value.items() if name != "id"}
    if message.params:
        same["params"] = {name: value for name, value in message.params.items() if name != "_meta"}
    return fingerprint(method, target, json.dumps(same).encode())


def consistent(before: Request, after: Request) -> Request:
    """The changed request, its headers and its body naming the same method and the same tool.

    A server of the stateless era refuses a request whose headers and body differ. If only
    a header was changed, the body follows it, else the headers follow the body.
    """
    message = read_message(after.body)
    if message is None or after.find_header(_METHOD_HEADER) is None:
        return after
    if after.body != before.body:
        named = {_METHOD_HEADER: message.method, _NAME_HEADER: message.name}
        headers = tuple((name, named.get(name.lower(), value)) for name, value in after.headers)
        return replace(after, headers=headers)
    value = _named_as_in_headers(message, after)
    return after if value == message.value else after.with_json(value)


def _named_as_in_headers(message: McpMessage, request: Request) -> dict[str, Any]:
    """The message with the method and the name that the request's headers give it."""
    method, name = request.header(_METHOD_HEADER), request.find_header(_NAME_HEADER)
    value = {**message.value, "method": method}
    if name is not None and method in _NAMED_BY:
        value["params"] = {**message.params, _NAMED_BY[method]: name}
    return value


EVENT_STREAM_HEAD = Reply((("Content-Type", "text/event-stream"),))


def line_event(line: bytes) -> bytes:
    """A server's line as an event for an ``EventEditor``."""
    return b"data: " + line.strip(b"\r\n") + b"\n\n"


def step_lines(steps: Iterable[Step]) -> Sequence[Step]:
    """Steps of an ``EventEditor`` as lines and seconds to wait."""
    lines: list[Step] = []
    for step in steps:
        if isinstance(step, bytes):
            lines += [line_of(data) for event in split_events(step) if (data := data_of(event))]
        else:
            lines.append(step)
    return lines


def line_of(message: bytes) -> bytes:
    """The message in one line: a line's end within its JSON is only for people."""
    if b"\n" in message or b"\r" in message:
        with suppress(ValueError):  # broken on purpose: sent unchanged
            message = dump_json(parsed(message))
    return message + b"\n"


VERSION_HEADER = "mcp-protocol-version"
_HEADERS = tuple(f"{name}:".encode() for name in (VERSION_HEADER, SESSION_HEADER))
_FIRST_LETTERS = (b"m", b"M")
_OWN_METHODS = frozenset(
    (
        *(CALL, LIST, "prompts/list", "prompts/get", "completion/complete", "logging/setLevel"),
        *("resources/list", "resources/templates/list", "resources/read"),
        *("resources/subscribe", "resources/unsubscribe", "server/discover", "subscriptions/listen"),
        *("notifications/initialized", "notifications/roots/list_changed", CANCELLED, PROGRESS),
    )
)


def has_mcp_header(lines: Iterable[bytes]) -> bool:
    """Whether one of the lines of a request's header block is a header that only MCP's clients send."""
    return any(line[:1] in _FIRST_LETTERS and line.lower().startswith(_HEADERS) for line in lines)


def is_answered_on_stream(request: Request) -> bool:
    """Whether its response comes on another request's stream: the HTTP+SSE transport of 2024-11-05.

    There the endpoint's query or path names the session; ``/message`` or ``/messages`` is what the SDKs call
    it. Clients of the later transport accept event streams, as it requires, and name the session in a header.
    """
    return (
        _ENDPOINT_OF_SESSION.search(request.target) is not None
        and SERVER_SENT_EVENTS.content_type not in request.header("accept").lower()
        and not request.header(SESSION_HEADER)
    )


def is_mcp_message(body: bytes) -> bool:
    """Whether the body is one JSON-RPC 2.0 message whose method is MCP's own."""
    message = read_message(body) if b'"jsonrpc"' in body else None
    if message is None or message.value["jsonrpc"] != "2.0":
        return False
    if message.method == INITIALIZE:
        return isinstance(message.params.get("protocolVersion"), str)
    return message.method in _OWN_METHODS


_TEXT, _ONLY = "text", "result"  # field of a document that is only text; of a result that is not an object
_Changes = list[tuple[Any, Any]]


@dataclass(frozen=True)
class McpResult:
    """A good result. ``document``: its structured content; without any, the JSON of its text (a list of
    several texts), or ``{"text": ...}`` for other text."""

    message: McpMessage
    document: Any

    def with_document(self, document: Any) -> dict[str, Any]:
        """The response with that document: structured content and texts say the same."""
        result = dict(self.message.result or {})
        if "structuredContent" in result:
            result["structuredContent"] = document
            result["content"] = _like_structured(result["content"], self.document, document)
        else:
            result["content"] = _of_documents(result["content"], document)
        return {**self.message.value, "result": result}


def tool_result(message: McpMessage | None) -> McpResult | None:
    """A tool's result; None for an error, a result without any text, and any other message."""
    if message is None or not message.is_tool_result:
        return None
    result = message.result or {}
    texts = [block[_TEXT] for block in _texts(result["content"])]
    structured = result.get("structuredContent")
    if result.get("isError") or not (texts or isinstance(structured, (dict, list))):
        return None
    if isinstance(structured, (dict, list)):
        return McpResult(message, structured)
    documents = [_document(text) for text in texts]
    return McpResult(message, documents[0] if len(documents) == 1 else documents)


def _texts(content: Any) -> list[dict[str, Any]]:
    return [block for block in as_objects(content) if isinstance(block.get(_TEXT), str)]


def _document(text: str) -> Any:
    value = parsed(text) if is_json(text) else None
    return value if isinstance(value, (dict, list)) else {_TEXT: text}


def _of_documents(content: Sequence[Any], document: Any) -> list[Any]:
    """The blocks with these documents as their texts; other blocks follow."""
    texts = _texts(content)
    several = len(texts) > 1 and isinstance(document, list)
    documents = document if several else [document]
    blocks = [
        {**texts[min(at, len(texts) - 1)], _TEXT: _text_of(one, texts[min(at, len(texts) - 1)][_TEXT])}
        for at, one in enumerate(documents)
    ]
    return [*blocks, *(block for block in content if block not in texts)]


def _text_of(document: Any, before: str) -> str:
    """The document in the form of the text before it."""
    if set(as_object(document)) == {_TEXT} and isinstance(document[_TEXT], str) and not is_json(before):
        return str(document[_TEXT])
    return json.dumps(document, ensure_ascii=False, indent=2) if "\n" in before else compact(document)


def _like_structured(content: Sequence[Any], before: Any, after: Any) -> list[Any]:
    """The blocks with the changes of the structured content applied to their texts."""
    texts = _texts(content)
    old, new = as_object(before).get(_ONLY), as_object(after).get(_ONLY)
    if isinstance(old, list) and isinstance(new, list) and old == [_value(t[_TEXT]) for t in texts]:
        return _of_documents(content, [_block_value(item) for item in new]) if new else []
    changes = list(_changed_values(before, after))
    return [_restated(b, before, after, changes) if b in texts else b for b in content]


def _restated(block: dict[str, Any], before: Any, after: Any, changes: _Changes) -> dict[str, Any]:
    text = block[_TEXT]
    for old, new in ((before, after), (as_object(before).get(_ONLY), as_object(after).get(_ONLY))):
        if new is not None and old == _value(text):
            return {**block, _TEXT: new if isinstance(new, str) else _text_of(new, text)}
    for old, new in changes:
        text = _text_form(new).join(re.split(rf"(?<!\w){re.escape(_text_form(old))}(?!\w)", text))
    return {**block, _TEXT: text}


def _value(text: str) -> Any:
    return parsed(text) if is_json(text) else text


def _block_value(item: Any) -> Any:
    return {_TEXT: item} if isinstance(item, str) else item


def _text_form(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _changed_values(before: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    """The values that differ, where both documents have one in that place."""
    waiting = [(before, after)]
    while waiting:  # without recursion, since a result may be nested very deep
        one, other = waiting.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            waiting += [(one[key], other[key]) for key in one if key in other]
        elif isinstance(one, list) and isinstance(other, list):
            waiting += zip(one, other, strict=False)
        elif one != other and isinstance(one, (str, int, float)) and one != "":
            yield one, other
