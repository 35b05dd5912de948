"""Realtime APIs: a conversation with a model over one WebSocket connection, in events of JSON. Pure.

Client and server send events with a ``type``, such as ``response.create`` and ``response.done``. A connection
is one model request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wirefault.dialects import Dialect
from wirefault.dialects.base import ErrorForm
from wirefault.dialects.http import dump_json
from wirefault.dialects.json_values import as_object, as_text, parsed

_EXPIRED = "Your session hit the maximum duration of 60 minutes."


class Realtime:
    """Implements ``LinkDialect``: its errors answer the request that opens the connection, or are events."""

    name: Dialect = "realtime"
    id_header = "x-request-id"
    path_end = "/realtime"
    errors: Mapping[str, ErrorForm] = {
        "rate_limit": ErrorForm(
            429, "Rate limit reached for {model}.", "rate_limit_error", "rate_limit_exceeded"
        ),
        "quota": ErrorForm(
            429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"
        ),
        "auth_error": ErrorForm(
            401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key"
        ),
        "forbidden": ErrorForm(403, "This key may not use the Realtime API.", "invalid_request_error"),
        "not_found": ErrorForm(404, "The model does not exist.", "invalid_request_error", "model_not_found"),
        "server_error": ErrorForm(
            500, "The server had an error while processing your request.", "server_error"
        ),
        "bad_gateway": ErrorForm(502, "Bad gateway"),
        "unavailable": ErrorForm(503, "Service unavailable"),
        "overloaded": ErrorForm(503, "The engine is currently overloaded.", "server_error", "overloaded"),
        "session_expired": ErrorForm(400, _EXPIRED, "invalid_request_error", "session_expired"),
        "invalid_event": ErrorForm(
            400, "Invalid value: the event cannot be processed.", "invalid_request_error", "invalid_value"
        ),
    }

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        return {"error": {"type": type, "code": code, "message": message, "param": None, **fields}}

    def error_event(self, type: str, code: str | None, message: str, *, id: str, cause: str) -> bytes:
        """The error as a server event with that id. ``cause``: id of the client event that caused it."""
        body = self.error_body(type, message, code=code, event_id=cause or None)
        return dump_json({"type": "error", "event_id": id, **body})


REALTIME = Realtime()


def event_of(data: bytes) -> dict[str, Any]:
    """The JSON object of a message; empty if it is something else."""
    try:
        return as_object(parsed(data))
    except ValueError:
        return {}


def type_of(event: Mapping[str, Any]) -> str:
    """Its type; empty without one."""
    return as_text(event.get("type"))
