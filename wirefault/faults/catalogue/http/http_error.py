"""http_error: a tool answers 500, 503 or 429 and never sees the request (``ERROR_PROB``)."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from wirefault.core.draws import choose
from wirefault.dialects.base import error_reply
from wirefault.dialects.tool import TOOL
from wirefault.faults.base import Act, Fault, Try

ERROR_KINDS: tuple[tuple[str, int], ...] = (("server_error", 500), ("unavailable", 503), ("rate_limit", 429))


class HttpError(Fault):
    """A tool answers 500, 503 or 429, drawn for each try, so that a retry can get past it (``ERROR_PROB``).

    The request is not forwarded. ``ERROR_PROB`` arms this fault on every tool link.
    """

    name = "http_error"
    family = "http"
    where = "tool"
    chooses = True
    can_cause = frozenset({"http_429", "http_5xx"})

    chance: float = Field(0.1, ge=0, le=1, description="chance per try")
    retry_after: float = Field(0.2, ge=0, le=60, description="seconds in Retry-After of a 429")

    def wants(self, chance: Callable[[str], float]) -> bool:
        return chance("error") < self.chance

    def act(self, tried: Try) -> Act | None:
        if not self.wants(tried.chance):
            return None
        kind, status = choose(tried.chance("error-kind"), ERROR_KINDS)
        retry_after = self.retry_after if status == 429 else None
        evidence = {"kind": kind, "status": status}
        return Act(answer=error_reply(TOOL, kind, retry_after=retry_after), evidence=evidence)
