"""flap: down, up, down, up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, ErrorKind
from wirefault.dialects.http import RawReply
from wirefault.faults.base import Act, Fault, Try
from wirefault.faults.catalogue.errors import error_for


class Flap(Fault):
    """The service goes down and comes back: ``fails`` calls fail, then ``passes`` calls pass, and so on.

    It counts logical calls for each link and episode, so that all tries of one call fail or pass together
    and a retry alone does not get past it. Requests of a call that fails are not forwarded. The client sees
    a 503 that comes and goes, or a closed connection.
    """

    name = "flap"
    family = "http"
    chooses = True
    can_cause = CLOSED | {"http_5xx"}

    fails: int = Field(1, ge=1, le=10_000, description="calls that fail")
    passes: int = Field(1, ge=1, le=10_000, description="calls that pass then")
    kind: Literal["unavailable", "bad_gateway", "server_error", "close"] = Field(
        "unavailable", description="how a call fails"
    )

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return CLOSED if self.kind == "close" else self.can_cause - CLOSED

    @property
    def by_order(self) -> bool:
        return True

    def act(self, tried: Try) -> Act | None:
        place = (tried.ordinal - 1) % (self.fails + self.passes)
        if place >= self.fails:
            return None
        evidence = {"kind": self.kind, "ordinal": tried.ordinal}
        if self.kind == "close":
            return Act(answer=RawReply(ending="close"), evidence=evidence)
        reply = error_for(tried, self.kind)
        return Act(answer=reply, evidence={**evidence, "status": reply.status})
