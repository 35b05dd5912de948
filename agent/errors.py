"""What can go wrong with a tool call, mapped once from ``requests`` and HTTP.

ToolFailure
├── NoReply            the service may have executed the request
│   ├── TimedOut
│   ├── ConnectionLost
│   └── BadReply
├── NotReached         the request was not sent
├── ServiceFailed      5xx
├── RateLimited        429
└── ServiceRefused     any other 4xx
LimitReached           a limit of the attempt ended it
"""

from __future__ import annotations

import json
from typing import Literal

SideEffect = Literal["none", "unknown"]
_EARLIER = " Whether an earlier try took effect is unknown."


class ToolFailure(Exception):
    """One failed try. The history names it by its ``cause`` (``read_timeout``, ``http_503`` ...).

    The model gets ``code`` and ``reason``, which hold no figures, so that they are the same in every run.
    ``retry_after`` is in seconds; ``executed`` says whether a write may have happened all the same.
    """

    code = "failed"
    reason = "The tool failed."
    retryable = True
    executed = True

    def __init__(self, cause: str, detail: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        self.detail = detail
        self.retry_after = retry_after

    def for_model(self, side_effect: SideEffect) -> str:
        """The text of the ToolMessage that tells the model of the failure, as JSON."""
        message = f"{self.reason} {self.detail}".strip() if isinstance(self, ServiceRefused) else self.reason
        if side_effect == "unknown":
            message += " Whether it took effect is unknown." if self.executed else _EARLIER
        return json.dumps({"error": {"code": self.code, "message": message, "side_effect": side_effect}})


class NoReply(ToolFailure):
    pass


class TimedOut(NoReply):
    code = "timeout"
    reason = "The tool did not answer in time."


class ConnectionLost(NoReply):
    code = "connection_lost"
    reason = "The connection to the tool was lost before it answered."


class BadReply(NoReply):
    code = "bad_reply"
    reason = "The tool's answer was unreadable."


class NotReached(ToolFailure):
    code = "not_reached"
    reason = "The tool could not be reached."
    executed = False


class ServiceFailed(ToolFailure):
    code = "service_failed"
    reason = "The tool reported a failure of its own."


class RateLimited(ToolFailure):
    code = "rate_limited"
    reason = "The tool refuses more requests for now."
    executed = False


class ServiceRefused(ToolFailure):
    code = "refused"
    reason = "The tool refused the request."
    retryable = False
    executed = False


class LimitReached(Exception):
    """A limit of the attempt (model calls, tool calls, time) ended it."""
