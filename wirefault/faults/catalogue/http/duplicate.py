"""duplicate_request: delivered more than once, answered once."""

from __future__ import annotations

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, HTTP_ERRORS, TIMEOUT
from wirefault.faults.base import Act, Fault, Try


class DuplicateRequest(Fault):
    """The upstream gets the request several times, one after the other; the client gets the last answer.

    Proxies that retry by themselves do this, and queues that deliver at least once. The client sees nothing
    unusual. A service without idempotency keys does a write each time that it is delivered.
    """

    name = "duplicate_request"
    family = "http"
    can_cause = HTTP_ERRORS | CLOSED | TIMEOUT

    n: int = Field(2, ge=2, le=10, description="how often it is delivered")

    def act(self, tried: Try) -> Act:
        return Act(copies=self.n, evidence={"copies": self.n})
