"""truncate: the reply's body ends early."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.dialects.http import RawReply, Reply, whole
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try


class Truncate(Fault):
    """The reply's body ends early, at a byte or at a fraction of it.

    With ``content_length: kept`` the header still claims the whole length and the connection closes, which
    most clients report (old ones take the part that came); with ``corrected`` the cut body is a clean
    reply, and only a parser can notice. The upstream has executed the request.
    """

    name = "truncate"
    family = "http"

    fraction: float = Field(0.5, ge=0, lt=1, description="share of the body that is sent")
    at_byte: int | None = Field(None, ge=0, description="bytes that are sent; instead of fraction")
    content_length: Literal["kept", "corrected"] = Field("kept", description="what the header claims")

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
