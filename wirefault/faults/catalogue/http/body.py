"""The reply's body ends early, trickles, or is not there: truncate, slow_body, empty."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, TIMEOUT, ErrorKind
from wirefault.dialects.http import RawReply, Reply, Step, whole
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.catalogue.http.edit import has_body, replace_reply

_PIECE_S = 0.05
_MAX_PIECES = 1000
_EMPTY_BODIES = {"body": b"", "object": b"{}", "array": b"[]", "null": b"null"}


class Truncate(Fault):
    """The reply's body ends early, at a byte or at a fraction of it.

    With ``content_length: kept`` the header still claims the whole length and the connection closes, which
    most clients report (old ones take the part that came); with ``corrected`` the cut body is a clean
    reply, and only a parser can notice. The upstream has executed the request.
    """

    name = "truncate"
    family = "http"
    can_cause = CLOSED | {"bad_reply"}

    fraction: float = Field(0.5, ge=0, lt=1, description="share of the body that is sent")
    at_byte: int | None = Field(None, ge=0, description="bytes that are sent; instead of fraction")
    content_length: Literal["kept", "corrected"] = Field("kept", description="what the header claims")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return self.can_cause if self.content_length == "kept" else self.can_cause - CLOSED

    def act(self, tried: Try) -> Act:
        return Act(reply=self._cut)

    def _cut(self, reply: Reply) -> Changed | Miss:
        size = len(reply.body)
        at = int(size * self.fraction) if self.at_byte is None else self.at_byte
        if at >= size:
            return Miss("nothing_to_change")
        evidence = {"cut_at": at, "of": size}
        if self.content_length == "corrected":
            return Changed(reply.with_body(reply.body[:at]), evidence)
        head, body = whole(reply)
        return Changed(RawReply((head + body[:at],), "close", reply.status), evidence)


class SlowBody(Fault):
    """The headers come at once, the body in pieces at so many bytes a second.

    All of it arrives in the end. A timeout per read (``requests``, ``httpx``) never fires while pieces keep
    coming; only a deadline for the whole call helps. The upstream has executed the request.
    """

    name = "slow_body"
    family = "http"
    can_cause = TIMEOUT

    bytes_per_second: float = Field(500, gt=0, le=1e9, description="bytes of the body per second")

    def act(self, tried: Try) -> Act:
        return Act(reply=lambda reply: self._slowed(tried, reply))

    def _slowed(self, tried: Try, reply: Reply) -> Changed | Miss:
        if not reply.body or not has_body(tried, reply):
            return Miss("nothing_to_change")
        head, body = whole(reply)
        per_piece = max(1, math.ceil(self.bytes_per_second * _PIECE_S), math.ceil(len(body) / _MAX_PIECES))
        steps: list[Step] = [head]
        for start in range(0, len(body), per_piece):
            piece = body[start : start + per_piece]
            steps += (len(piece) / self.bytes_per_second, piece)
        delay_ms = round(len(body) / self.bytes_per_second * 1000, 3)
        evidence = {"bytes": len(body), "pieces": len(steps) // 2, "delay_ms": delay_ms}
        return Changed(RawReply(tuple(steps), "keep", reply.status), evidence)


class Empty(Fault):
    """The reply keeps its status and headers, but holds nothing.

    ``body``: no body at all; ``object``, ``array``, ``null``: that JSON value, empty. The upstream has
    executed the request. Few clients notice before they read the first field.
    """

    name = "empty"
    family = "http"
    can_cause = frozenset({"bad_reply"})

    kind: Literal["body", "object", "array", "null"] = Field("body", description="what is left")

    def act(self, tried: Try) -> Act:
        return Act(reply=self._emptied)

    def _emptied(self, reply: Reply) -> Changed | Miss:
        if not reply.body:
            return Miss("nothing_to_change")
        return replace_reply(reply, reply.with_body(_EMPTY_BODIES[self.kind]), kind=self.kind)
