"""A tool service: plain JSON over HTTP, with errors in the lab's one shape. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wirefault.dialects import Dialect
from wirefault.dialects.base import ErrorForm


class ToolService:
    """Implements ``LinkDialect``; an error's ``type`` is its ``code`` here."""

    name: Dialect = "tool"
    id_header = ""
    errors: Mapping[str, ErrorForm] = {
        "rate_limit": ErrorForm(429, "too many requests, try again later", "rate_limit"),
        "quota": ErrorForm(429, "the quota of this key is used up", "quota"),
        "auth_error": ErrorForm(401, "the key is missing or not valid", "auth_error"),
        "forbidden": ErrorForm(403, "this key may not do that", "forbidden"),
        "not_found": ErrorForm(404, "there is nothing here", "not_found"),
        "server_error": ErrorForm(500, "the service failed", "server_error"),
        "bad_gateway": ErrorForm(502, "the service behind this one did not answer", "bad_gateway"),
        "unavailable": ErrorForm(503, "the service is unavailable", "unavailable"),
        "overloaded": ErrorForm(503, "the service has too much to do, try again later", "overloaded"),
    }

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        return {"error": {"code": type, "message": message}}


TOOL = ToolService()
