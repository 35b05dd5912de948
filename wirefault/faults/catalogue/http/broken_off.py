"""The answer does not come, or breaks off on its way: the request or the reply is lost, hang, reset."""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field, model_validator

from wirefault.core.caller_errors import CLOSED, TIMEOUT, ErrorKind
from wirefault.dialects.http import Ending, RawReply, Reply, head_bytes
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.catalogue.http.edit import has_body

_Then = Literal["close", "hang"]
_PARTS_SENT = {"after_headers": 0.0, "mid_body": 0.5}  # by the place at which a reply breaks off


class LoseRequest(Fault):
    """The request is lost: the upstream never sees it, and no answer comes.

    To the client it looks exactly like ``lose_reply``. A retry is safe, but the client cannot know that.
    """

    name = "lose_request"
    family = "http"
    can_cause = CLOSED | TIMEOUT

    then: _Then = Field("close", description="the connection closes, or hangs until the client gives up")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return CLOSED if self.then == "close" else TIMEOUT

    def act(self, tried: Try) -> Act:
        return Act(answer=RawReply(ending=self.then), evidence={"then": self.then})


class LoseReply(Fault):
    """The reply is lost: the upstream has executed the request, and no answer comes.

    To the client it looks exactly like ``lose_request``. A client that retries a write without an
    idempotency key does it twice; a client that does not retry may report a failure although it succeeded.
    """

    name = "lose_reply"
    family = "http"
    can_cause = CLOSED | TIMEOUT

    then: _Then = Field("close", description="the connection closes, or hangs until the client gives up")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return CLOSED if self.then == "close" else TIMEOUT

    def act(self, tried: Try) -> Act:
        return Act(reply=self._lost)

    def _lost(self, reply: Reply) -> Changed:
        evidence = {"then": self.then, "upstream_status": reply.status, "lost_bytes": len(reply.body)}
        return Changed(RawReply(ending=self.then), evidence)


class Hang(Fault):
    """Nothing more comes, and the connection stays open until the client gives up.

    ``before_headers``: no byte of a reply. ``after_headers``: the headers, but no body. ``mid_body``: half
    of the body. The upstream has executed the request, unless ``forwarded`` is false: then it never sees
    the request. A client without a timeout waits for ever; a client with a timeout for each read
    (``requests``) reports each place by another error.
    """

    name = "hang"
    family = "http"
    can_cause = TIMEOUT

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
        return Act(reply=partial(_broken_off, tried, self.at, "hang"))


class Reset(Fault):
    """The connection is reset: a real RST, not an orderly end.

    ``connect``: as soon as the request is known; it is not forwarded. ``after_request``: the upstream has
    executed it, and the answer is lost. ``mid_body``: half of the body has been sent. The client sees
    "connection reset by peer"; through Toxiproxy, which stands before the gateway in the lab, an
    RST becomes a plain close, which clients report in other words ("closed without response").
    """

    name = "reset"
    family = "http"
    can_cause = CLOSED

    at: Literal["connect", "after_request", "mid_body"] = Field("after_request", description="when")

    def act(self, tried: Try) -> Act:
        if self.at == "connect":
            return Act(answer=RawReply(ending="reset"), evidence={"at": self.at, "sent": 0})
        return Act(reply=partial(_broken_off, tried, self.at, "reset"))


def _broken_off(tried: Try, at: str, ending: Ending, reply: Reply) -> Changed | Miss:
    """The reply as far as it comes: nothing, or its headers and a part of its body."""
    evidence = {"at": at, "of": len(reply.body), "upstream_status": reply.status}
    if at not in _PARTS_SENT:
        return Changed(RawReply(ending=ending), {**evidence, "sent": 0})
    if not has_body(tried, reply):
        return Miss("nothing_to_change")
    sent = int(len(reply.body) * _PARTS_SENT[at])
    head = head_bytes(reply, max(len(reply.body), 1))  # it claims the whole length, even of an empty body
    return Changed(RawReply((head + reply.body[:sent],), ending, reply.status), {**evidence, "sent": sent})
