"""A tool's call is answered by an error: of the tool, of the protocol, of the session."""

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
    """Answers a request of MCP in the server's place."""

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
    """The tool fails: a result with ``isError``, and why as its text.

    It is how servers report a tool's exception, wrong arguments and (most of them) an unknown tool. To the
    protocol the call went well: no client raises or asks again. The model reads the text, and may believe it.
    The server does not see the call, unless it is ``executed``.
    """

    name = "tool_error"

    text: str = Field(
        "Error executing tool: the service is unavailable", min_length=1, description="what the result says"
    )

    def _answer(self, tried: Try, asked: McpMessage) -> Act:
        content = [{"type": "text", "text": self.text}]
        message = result_message(asked, {"content": content, "isError": True})
        return self.answer_with(json_reply(200, message))


class RpcError(_McpAnswer):
    """The call is answered by a JSON-RPC error, with status 200 unless another is given.

    Clients raise it as their own exception (``McpError``); what a framework makes of that is its own affair:
    a text for the model, a crash, or another call (CrewAI sends up to three). Codes: -32000 to -32099 of
    servers, -32601 unknown method, -32602 wrong parameters, -32603 internal error; -32020 with status 400
    says that headers and body differ, on which a client of the stateless era lists the tools and sends once
    more.
    The server does not see the call, unless it is ``executed``.
    """

    name = "rpc_error"
    can_cause = HTTP_ERRORS

    code: int = Field(-32603, ge=-33000, le=-1, description="the code of the error")
    message: str = Field("Internal error", min_length=1, description="its message")
    data: Any = Field(None, description="its data")
    status: int = Field(200, ge=200, le=599, description="the HTTP status that it comes with")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        kind = status_kind(self.status)
        return frozenset({kind}) if kind else frozenset()

    def _answer(self, tried: Try, asked: McpMessage) -> Act:
        error = error_message(asked.id, self.code, self.message, self.data)
        return self.answer_with(json_reply(self.status, error), code=self.code)


class UnknownSession(_McpAnswer):
    """The server does not know the session any more, as after a restart: 404 (or 400, as some servers say).

    The server does not see the message. The protocol wants the client to begin a new session; hardly one does
    by itself. With ``when: {persistent: true}`` it is lost for the rest of the episode. A message that names
    no session (stateless era, stdio) is left alone.
    """

    name = "unknown_session"
    can_cause = frozenset({"http_4xx"})

    status: Literal[400, 404] = Field(404, description="as the protocol has it, or as some servers do")

    def _answer(self, tried: Try, asked: McpMessage) -> Act | Miss:
        if not tried.request.header(SESSION_HEADER):
            return Miss("nothing_to_change")
        if self.status == 404:
            error = error_message(asked.id, INVALID_REQUEST, "Session not found")
        else:
            error = error_message(asked.id, SERVER_ERROR, "Bad Request: No valid session ID provided")
            del error["id"]  # the servers that say it so name no id
        return self.answer_with(json_reply(self.status, error))
