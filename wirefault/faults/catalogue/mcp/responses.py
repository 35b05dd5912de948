"""The response comes late, twice, or with an id that nobody asked for."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, TIMEOUT, ErrorKind
from wirefault.dialects.mcp import McpMessage
from wirefault.faults.base import Miss, Try
from wirefault.faults.catalogue.mcp.base import Replacement, ResponseFault

_Kind = Literal["other", "text", "none"]


class LateResponse(ResponseFault):
    """The server has done it, and its response comes later: with luck after the client has given up.

    Unlike ``delay`` it holds back the answer and not the request, so that the work is done at once.
    """

    name = "late_response"
    can_cause = TIMEOUT

    ms: float = Field(30_000, ge=0, le=600_000, description="milliseconds")

    def sent(self, tried: Try, asked: McpMessage, response: McpMessage) -> Replacement:
        return Replacement([self.ms / 1000, response.value], {"delay_ms": self.ms})


class DuplicateResponse(ResponseFault):
    """The response comes twice, under one id; over HTTP as two events of one stream.

    A correct client takes the first and drops the second.
    """

    name = "duplicate_response"

    n: int = Field(2, ge=2, le=10, description="how often it comes")

    def sent(self, tried: Try, asked: McpMessage, response: McpMessage) -> Replacement:
        return Replacement([response.value] * self.n, {"responses": self.n})


class WrongId(ResponseFault):
    """The response answers an id that is not the request's.

    ``other``: one that the client never used. ``text``: the number as a text. ``none``: null. A correct
    client takes it for no answer and waits until its time limit, if it has one; some take it all the same.
    """

    name = "wrong_id"
    can_cause = CLOSED | TIMEOUT | frozenset[ErrorKind]({"bad_reply"})

    kind: _Kind = Field("other", description="which id it has")

    def sent(self, tried: Try, asked: McpMessage, response: McpMessage) -> Replacement | Miss:
        wrong = self._wrong(response.id)
        if wrong == response.id:
            return Miss("nothing_to_change")
        return Replacement([{**response.value, "id": wrong}], {"original": response.id, "changed": wrong})

    def _wrong(self, id: Any) -> Any:
        if self.kind == "none":
            return None
        if self.kind == "text":
            return str(id)
        return id + 1_000_000 if isinstance(id, int) else f"{id}-other"
