"""http_error: a tool answers 500, 503 or 429 and never sees the request (``ERROR_PROB``)."""

from __future__ import annotations

from windtunnel.catalog import MODEL_LINK
from windtunnel.faults.base import Fault, Reply, RequestView, error_body
from windtunnel.schedule import plan_error
from windtunnel.settings import Settings

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
        return Reply(
            status=error.status,
            body=error_body(error.kind, _MESSAGES[error.kind]),
            headers={"Retry-After": _seconds(settings.retry_after)} if error.status == 429 else {},
            record={"kind": error.kind, "status": error.status},
        )


def _seconds(value: float) -> str:
    """``0.2``, ``3``: fractions are allowed, exponents are not."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
