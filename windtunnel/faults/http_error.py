"""http_error: a tool answers 500, 503 or 429 and never sees the request (``ERROR_PROB``)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from windtunnel.faults.base import Act, Fault, Try
from windtunnel.faults.message import json_reply
from windtunnel.schedule import ERROR_KINDS, choose

_MESSAGES = {
    "server_error": "the service failed",
    "unavailable": "the service is unavailable",
    "rate_limit": "too many requests, try again later",
}


class HttpError(Fault):
    """The lab's own error, drawn anew for every try, so that a retry can get past it."""

    name = "http_error"
    family = "http"
    where = "tool"

    chance: float = Field(0.1, ge=0, le=1, description="chance per try")
    retry_after: float = Field(0.2, ge=0, le=60, description="seconds in Retry-After of a 429")

    def act(self, this: Try) -> Act | None:
        if this.chance("error") >= self.chance:
            return None
        kind, status = choose(this.chance("error-kind"), ERROR_KINDS)
        headers = {"Retry-After": seconds(self.retry_after)} if status == 429 else {}
        evidence: dict[str, Any] = {"kind": kind, "status": status}
        return Act(answer=json_reply(status, error_value(kind, _MESSAGES[kind]), headers), evidence=evidence)


def error_value(code: str, message: str) -> dict[str, Any]:
    """The lab's one JSON shape of an error."""
    return {"error": {"code": code, "message": message}}


def seconds(value: float) -> str:
    """``0.2``, ``3``: fractions are allowed, exponents are not."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
