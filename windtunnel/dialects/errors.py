"""The named errors, each in its link's form: a tool's, OpenAI's (and Groq's) or Anthropic's. Pure.

Statuses, types and codes are those of the providers' error references; messages are their usual ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.dialects import Dialect
from windtunnel.dialects.http import Reply, Request, json_reply


@dataclass(frozen=True)
class _Form:
    """One error in one dialect. Without a ``type`` it is a proxy's HTML page: no API made it."""

    status: int
    message: str
    type: str | None = None
    code: str | None = None


def _forms(tool: _Form, openai: _Form, anthropic: _Form) -> Mapping[Dialect, _Form]:
    return {"tool": tool, "openai": openai, "anthropic": anthropic}


ERRORS: Mapping[str, Mapping[Dialect, _Form]] = {
    "rate_limit": _forms(
        _Form(429, "too many requests, try again later", "rate_limit"),
        _Form(429, "Rate limit reached for model `{model}`.", "tokens", "rate_limit_exceeded"),
        _Form(429, "This request would exceed your account's rate limit.", "rate_limit_error"),
    ),
    "quota": _forms(
        _Form(429, "the quota of this key is used up", "quota"),
        _Form(
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "insufficient_quota",
        ),
        _Form(402, "Your credit balance is too low to access the API.", "billing_error"),
    ),
    "auth_error": _forms(
        _Form(401, "the key is missing or not valid", "auth_error"),
        _Form(401, "Invalid API Key", "invalid_request_error", "invalid_api_key"),
        _Form(401, "invalid x-api-key", "authentication_error"),
    ),
    "forbidden": _forms(
        _Form(403, "this key may not do that", "forbidden"),
        _Form(
            403,
            "Country, region, or territory not supported",
            "request_forbidden",
            "unsupported_country_region_territory",
        ),
        _Form(403, "Your API key has no permission to use this resource.", "permission_error"),
    ),
    "not_found": _forms(
        _Form(404, "there is nothing here", "not_found"),
        _Form(
            404,
            "The model `{model}` does not exist or you do not have access to it.",
            "invalid_request_error",
            "model_not_found",
        ),
        _Form(404, "model: {model}", "not_found_error"),
    ),
    "server_error": _forms(
        _Form(500, "the service failed", "server_error"),
        _Form(500, "The server had an error while processing your request.", "server_error"),
        _Form(500, "Internal server error", "api_error"),
    ),
    "bad_gateway": _forms(
        _Form(502, "the service behind this one did not answer", "bad_gateway"),
        _Form(502, "Bad Gateway"),
        _Form(502, "Bad Gateway"),
    ),
    "unavailable": _forms(
        _Form(503, "the service is unavailable", "unavailable"),
        _Form(503, "Service Unavailable", "internal_server_error", "service_unavailable"),
        _Form(503, "Service unavailable", "api_error"),
    ),
    "overloaded": _forms(
        _Form(503, "the service has too much to do, try again later", "overloaded"),
        _Form(503, "{model} is over capacity. Please try again later.", "server_error", "overloaded"),
        _Form(529, "Overloaded", "overloaded_error"),
    ),
}


def error_reply(
    dialect: Dialect, kind: str, *, model: str = "the model", id: str = "", retry_after: float | None = None
) -> Reply:
    """The error ``kind`` of ``ERRORS`` in that dialect. ``id``: the request's; ``retry_after``: seconds."""
    form = ERRORS[kind][dialect]
    headers = {} if retry_after is None else {"Retry-After": seconds(retry_after)}
    if form.type is None:
        return html_reply(form.status, form.message, headers)
    message = form.message.format(model=model)
    return typed_error(dialect, form.status, form.type, message, code=form.code, id=id, headers=headers)


def typed_error(
    dialect: Dialect,
    status: int,
    type: str,
    message: str,
    *,
    code: str | None = None,
    id: str = "",
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Reply:
    """Any error in the dialect's form; ``more`` are further fields of the ``error`` object."""
    given = dict(headers or {})
    if dialect == "tool":
        return json_reply(status, error_value(type, message), given)
    if dialect == "anthropic":
        value = {"type": "error", "error": {"type": type, "message": message, **more}, "request_id": id}
        return json_reply(status, value, {**given, "request-id": id} if id else given)
    error = {"message": message, "type": type, "param": None, "code": code, **more}
    return json_reply(status, {"error": error}, {**given, "x-request-id": id} if id else given)


def html_reply(status: int, title: str, headers: Mapping[str, str] | None = None) -> Reply:
    """The page of a proxy that stands before an API."""
    head, body = f"<head><title>{status} {title}</title></head>", f"<body><h1>{status} {title}</h1></body>"
    page = f"<html>\r\n{head}\r\n{body}\r\n</html>\r\n".encode()
    return Reply((("Content-Type", "text/html"), *(headers or {}).items()), page, status)


def model_of(request: Request) -> str:
    """The model that a request asks for; a word for it where none can be read."""
    try:
        value = request.json()
    except ValueError:
        return "the model"
    name = value.get("model") if isinstance(value, dict) else None
    return name if isinstance(name, str) and name else "the model"


def error_value(code: str, message: str) -> dict[str, Any]:
    """The lab's one JSON shape of an error."""
    return {"error": {"code": code, "message": message}}


def seconds(value: float) -> str:
    """``0.2``, ``3``: fractions are allowed, exponents are not."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
