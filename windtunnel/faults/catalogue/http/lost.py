"""lose_request and lose_reply: the two halves of what "no answer" can mean."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.dialects.http import RawReply, Reply
from windtunnel.faults.base import Act, Changed, Fault, Try

_Then = Literal["close", "hang"]


class LoseRequest(Fault):
    """The request is lost: the upstream never sees it, and no answer comes.

    To the client it looks exactly like ``lose_reply``. A retry is safe, but the client cannot know that.
    """

    name = "lose_request"
    family = "http"

    then: _Then = Field("close", description="the connection closes, or hangs until the client gives up")

    def act(self, tried: Try) -> Act:
        return Act(answer=RawReply(ending=self.then), evidence={"then": self.then})


class LoseReply(Fault):
    """The reply is lost: the upstream has executed the request, and no answer comes.

    To the client it looks exactly like ``lose_request``. A client that retries a write without an
    idempotency key does it twice; a client that does not retry may report a failure although it succeeded.
    """

    name = "lose_reply"
    family = "http"

    then: _Then = Field("close", description="the connection closes, or hangs until the client gives up")

    def act(self, tried: Try) -> Act:
        return Act(reply=self._lost)

    def _lost(self, reply: Reply) -> Changed:
        evidence = {"then": self.then, "upstream_status": reply.status, "lost_bytes": len(reply.body)}
        return Changed(RawReply(ending=self.then), evidence)
