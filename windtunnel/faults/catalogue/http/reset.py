"""reset: the connection is reset, by a real RST."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.dialects.http import RawReply, Reply
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try
from windtunnel.faults.catalogue.http.edit import cut_reply, has_body


class Reset(Fault):
    """The connection is reset: a real RST, not an orderly end.

    ``connect``: as soon as the request is known; it is not forwarded. ``after_request``: the upstream has
    executed it, and the answer is lost. ``mid_body``: half of the body has been sent. The client sees
    "connection reset by peer"; through Toxiproxy, which stands before the gateway in the lab, an
    RST becomes a plain close, which clients report in other words ("closed without response").
    """

    name = "reset"
    family = "http"

    at: Literal["connect", "after_request", "mid_body"] = Field("after_request", description="when")

    def act(self, tried: Try) -> Act:
        if self.at == "connect":
            return Act(answer=RawReply(ending="reset"), evidence={"at": self.at, "sent": 0})
        return Act(reply=lambda reply: self._reset(tried, reply))

    def _reset(self, tried: Try, reply: Reply) -> Changed | Miss:
        evidence = {"at": self.at, "of": len(reply.body), "upstream_status": reply.status}
        if self.at == "after_request":
            return Changed(RawReply(ending="reset"), {**evidence, "sent": 0})
        if not has_body(tried, reply):
            return Miss("nothing_to_change")
        sent = len(reply.body) // 2
        return Changed(cut_reply(reply, sent, "reset"), {**evidence, "sent": sent})
