"""The Model Context Protocol: JSON-RPC messages, whatever carries them. Pure.

Two eras are on the wire: sessions that begin with a handshake (up to 2025-11-25), and stateless requests
(2026-07-28), which say in ``params._meta`` what the handshake said and repeat the message's method and name
in headers. A message is told by its shape; what is none reads as None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from wirefault.core.fingerprint import fingerprint
from wirefault.dialects import Dialect
from wirefault.dialects.errors import ErrorForm
from wirefault.dialects.http import Request
from wirefault.dialects.json_values import as_object, as_objects, as_text, parsed

CALL, LIST = "tools/call", "tools/list"
INITIALIZE, CANCELLED = "initialize", "notifications/cancelled"
PROGRESS, TOOLS_CHANGED = "notifications/progress", "notifications/tools/list_changed"
SESSION_HEADER, EVENT_ID_HEADER = "mcp-session-id", "last-event-id"
_METHOD_HEADER, _NAME_HEADER = "mcp-method", "mcp-name"
_VERSION_IN_META = "io.modelcontextprotocol/protocolVersion"
# the field of params that a request's header repeats, by its method
_NAMED_BY = {CALL: "name", "prompts/get": "name", "resources/read": "uri"}
SERVER_ERROR, INVALID_REQUEST = -32000, -32600
ToolAnswer = Literal["", "result", "error"]
"""How a call of a tool was answered; empty where that is not known."""


class ModelContextProtocol:
    """Implements ``LinkDialect``: an error is a JSON-RPC one, its name in the catalogue among its data.

    Its ``id`` is null here: who answers a message puts that message's id there.
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
        """What the message is about: the tool or prompt by its name, a resource by its URI; else empty."""
        return as_text(self.params.get(_NAMED_BY.get(self.method, "")))

    @property
    def arguments(self) -> dict[str, Any]:
        return as_object(self.params.get("arguments"))

    @property
    def progress_token(self) -> Any:
        """By what notifications of progress name this request; None if it asks for none."""
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
        """Whether it is what a tool gave, an error of the tool included."""
        return self.result is not None and isinstance(self.result.get("content"), list)

    @property
    def tool_answer(self) -> ToolAnswer:
        """What it says of the tool that was called: that it has done it, or that it has failed.

        Empty for a result that says that the call is not over (a task, a question to the client), and for a
        message that is no response.
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
    """The same of JSON that was read already."""
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
    """As ``wirefault.core.fingerprint.fingerprint``, without a message's ``id`` and ``params._meta``.

    Both differ each time that a client asks for the same.
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

    A server of the stateless era refuses a request whose headers and body differ. What was changed counts: if
    only a header was, the body follows it, else the headers follow the body.
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
