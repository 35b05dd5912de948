"""Errors in place of a tool call's result: of the tool, the protocol or the session."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from wirefault.core.caller_errors import HTTP_ERRORS, ErrorKind, status_kind
from wirefault.dialects.http import json_reply
from wirefault.dialects.mcp import (
    INVALID_REQUEST,
    SERVER_ERROR,
    SESSION_HEADER,
    McpMessage,
    error_message,
    read_message,
    result_message,
)
from wirefault.faults.base import Act, Miss, Try
from wirefault.faults.catalogue.http.errors import AnsweringFault


class _McpAnswer(AnsweringFault):
    """Replies to an MCP request in the server's place."""

    family = "mcp"
    where = "mcp"

    def act(self, tried: Try) -> Act | Miss:
        asked = read_message(tried.request.body)
        if asked is None or asked.kind != "request":
            return Miss("nothing_to_change")
        return self._answer(tried, asked)

    def _answer(self, tried: Try, asked: McpMessage) -> Act | Miss:
        raise NotImplementedError


class McpToolError(_McpAnswer):
    """Fail the tool: a result with ``isError`` and an error text.

    Servers report a tool's exception, wrong arguments and usually an unknown tool in this form. In the
    protocol the call succeeded: clients neither raise nor retry. The model reads the text and may believe it.
    The server does not see the call, unless ``executed``.
    """

    name = "tool_error"

    text: str = Field(
        "Error executing tool: the service is unavailable", min_length=1, description="text of the result"
    )

    def _answer(self, tried: Try, asked: McpMessage) -> Act:
        content = [{"type": "text", "text": self.text}]
        message = result_message(asked, {"content": content, "isError": True})
        return self.answer_with(json_reply(200, message))


class RpcError(_McpAnswer):
    """Return a JSON-RPC error, by default with status 200.

    Clients raise an exception (``McpError``); frameworks turn it into a text for the model, a crash, or
    another call (CrewAI sends up to three). Codes: -32000 to -32099 server-defined, -32601 unknown method,
    -32602 wrong parameters, -32603 internal error; -32020 with status 400 means that headers and body
    differ, whereupon a client of the stateless protocol lists the tools and sends the request again. The
    server does not see the call, unless ``executed``.
    """

    name = "rpc_error"
    can_cause = HTTP_ERRORS

    code: int = Field(-32603, ge=-33000, le=-1, description="error code")
    message: str = Field("Internal error", min_length=1, description="error message")
    data: Any = Field(None, description="error data")
    status: int = Field(200, ge=200, le=599, description="HTTP status")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        kind = status_kind(self.status)
        return frozenset({kind}) if kind else frozenset()

    def _answer(self, tried: Try, asked: McpMessage) -> Act:
        error = error_message(asked.id, self.code, self.message, self.data)
        return self.answer_with(json_reply(self.status, error), code=self.code)


class UnknownSession(_McpAnswer):
    """Report an unknown session, as after a server restart: 404 (some servers: 400).

    The server does not see the message. The protocol requires the client to start a new session; hardly any
    does so. With ``when: {persistent: true}`` all sessions that existed then are lost for the rest of the
    episode; a new session works. Messages without a session (stateless protocol, stdio) pass.
    """

    name = "unknown_session"
    session_header = SESSION_HEADER
    can_cause = frozenset({"http_4xx"})

    status: Literal[400, 404] = Field(404, description="404 as specified, or 400 as some servers send")

    def _answer(self, tried: Try, asked: McpMessage) -> Act | Miss:
        if not tried.request.header(SESSION_HEADER):
            return Miss("nothing_to_change")
        if self.status == 404:
            error = error_message(asked.id, INVALID_REQUEST, "Session not found")
        else:
            error = error_message(asked.id, SERVER_ERROR, "Bad Request: No valid session ID provided")
            del error["id"]  # servers with this wording send no id
        return self.answer_with(json_reply(self.status, error))
