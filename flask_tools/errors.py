"""The error of the services, and how every error is rendered.

    Exception
    ├── ToolError             what the caller is told: status, code, message
    ├── sqlite3.Error         503 state_unavailable
    └── werkzeug HTTPException  404 not_found, 405 method_not_allowed, 413 payload_too_large, 500 ...

Each becomes ``{"error": {"code", "message"}}`` as JSON.
"""

from __future__ import annotations

import sqlite3

from flask import Flask, Response, jsonify
from werkzeug.exceptions import HTTPException

_CODES = {413: "payload_too_large", 500: "internal_error"}
_INTERNAL = "The service failed on this request; its log says why."


class ToolError(Exception):
    """A request that the service does not carry out, and the reason for it.

    ``status`` is the HTTP status, ``code`` a stable word for programs, ``message`` a sentence for people.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def bad_value(message: str) -> ToolError:
    """A value that is present and cannot be used (400)."""
    return ToolError(400, "bad_value", message)


def body_of(code: str, message: str) -> dict[str, dict[str, str]]:
    """The JSON form of every error."""
    return {"error": {"code": code, "message": message}}


def register(app: Flask) -> None:
    """Renders every error of the app as JSON."""
    for kind in (ToolError, HTTPException, sqlite3.Error):
        app.register_error_handler(kind, _render)


def _render(error: Exception) -> Response:
    status, code, message, headers = _describe(error)
    response = jsonify(body_of(code, message))
    response.status_code = status
    response.headers.extend(headers)
    return response


def _describe(error: Exception) -> tuple[int, str, str, dict[str, str]]:
    if isinstance(error, ToolError):
        return error.status, error.code, error.message, {}
    if isinstance(error, HTTPException):
        status = error.code or 500
        code = _CODES.get(status) or (error.name or "error").lower().replace(" ", "_")
        allowed = getattr(error, "valid_methods", None)
        headers = {"Allow": ", ".join(sorted(allowed))} if allowed else {}
        return status, code, _INTERNAL if status == 500 else error.description or code, headers
    return 503, "state_unavailable", f"The database of the tools (EFFECTS_DB) cannot be used: {error}.", {}
