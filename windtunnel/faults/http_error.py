"""http_error: a tool answers 500, 503 or 429 and never sees the request (``ERROR_PROB``)."""

from __future__ import annotations

import json

from windtunnel.catalog import MODEL_LINK
from windtunnel.faults.base import Fault, Reply, RequestView
from windtunnel.schedule import plan_error
from windtunnel.settings import Settings

_REASONS = {500: "Internal Server Error", 503: "Service Unavailable", 429: "Too Many Requests"}
_MESSAGES = {
    "server_error": "the service failed",
    "unavailable": "the service is unavailable",
    "rate_limit": "too many requests, try again later",
}


class HttpError(Fault):
    """Drawn anew for every try, so that a retry can get past it."""

    name = "http_error"

    def applies(self, link: str, settings: Settings) -> bool:
        return settings.error_prob > 0 and link != MODEL_LINK.name

    def act(self, request: RequestView, settings: Settings) -> Reply | None:
        error = plan_error(
            settings.seed,
            settings.error_prob,
            request.episode,
            request.attempt,
            request.link,
            request.fingerprint,
            request.call,
            request.try_,
        )
        if error is None:
            return None
        body = json.dumps({"error": {"code": error.kind, "message": _MESSAGES[error.kind]}}).encode()
        return Reply(
            status=error.status,
            reason=_REASONS[error.status],
            body=body,
            record={"kind": error.kind, "status": error.status},
            headers={"Retry-After": f"{settings.retry_after:g}"} if error.status == 429 else {},
        )
