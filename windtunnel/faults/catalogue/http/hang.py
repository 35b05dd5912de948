"""hang: the answer does not come, or stops on its way."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from windtunnel.dialects.http import RawReply, Reply
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try
from windtunnel.faults.catalogue.http.edit import cut_reply, has_body


class Hang(Fault):
    """Nothing more comes, and the connection stays open until the client gives up.

    ``before_headers``: no byte of a reply. ``after_headers``: the headers, but no body. ``mid_body``: half
    of the body. The upstream has executed the request, unless ``forwarded`` is false: then it never sees
    the request. A client without a timeout waits for ever; a client with a timeout for each read
    (``requests``) reports each place by another error.
    """

    name = "hang"
    family = "http"

    at: Literal["before_headers", "after_headers", "mid_body"] = Field(
        "before_headers", description="where it stops"
    )
    forwarded: bool = Field(True, description="whether the upstream gets the request")

    @model_validator(mode="after")
    def _has_a_reply(self) -> Hang:
        if not self.forwarded and self.at != "before_headers":
            raise ValueError("without `forwarded` there is no reply: it can hang only before_headers")
        return self

    def act(self, tried: Try) -> Act:
        if not self.forwarded:
            return Act(answer=RawReply(ending="hang"), evidence={"at": self.at, "sent": 0})
        return Act(reply=lambda reply: self._hung(tried, reply))

    def _hung(self, tried: Try, reply: Reply) -> Changed | Miss:
        evidence = {"at": self.at, "of": len(reply.body), "upstream_status": reply.status}
        if self.at == "before_headers":
            return Changed(RawReply(ending="hang"), {**evidence, "sent": 0})
        if not has_body(tried, reply):
            return Miss("nothing_to_change")
        sent = len(reply.body) // 2 if self.at == "mid_body" else 0
        return Changed(cut_reply(reply, sent, "hang"), {**evidence, "sent": sent})
