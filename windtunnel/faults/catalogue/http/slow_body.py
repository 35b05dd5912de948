"""slow_body: the body trickles."""

from __future__ import annotations

import math

from pydantic import Field

from windtunnel.dialects.http import RawReply, Reply, Step, whole
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try
from windtunnel.faults.catalogue.http.edit import has_body

_PIECE_S = 0.05
_MAX_PIECES = 1000


class SlowBody(Fault):
    """The headers come at once, the body in pieces at so many bytes a second.

    All of it arrives in the end. A timeout per read (``requests``, ``httpx``) never fires while pieces keep
    coming; only a deadline for the whole call helps. The upstream has executed the request.
    """

    name = "slow_body"
    family = "http"

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
