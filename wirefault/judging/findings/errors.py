"""Detect errors in replies with a 2xx status: JSON-RPC errors, tool errors and error bodies. Pure."""

from __future__ import annotations

from typing import Any

from wirefault.dialects.http import data_of
from wirefault.dialects.json_values import as_object, parsed
from wirefault.dialects.stream_forms import recorded_events
from wirefault.judging.requests import Request

_ERROR_KEYS = frozenset({"error", "message", "code", "status", "success", "ok"})


def has_error(request: Request) -> bool:
    """Whether the caller got a reply that is certainly an error, whatever its status.

    An MCP tool's own error does not count: its text may be the result that the user wanted. A fault's does.
    """
    if (request.status or 0) >= 400:
        return True
    exchange = request.exchange
    if exchange is None or exchange.reply_cut or not request.succeeded or request.of_model:
        return False
    body = _last_object(exchange.reply_body or "")
    if exchange.message:
        is_error = as_object(body.get("result")).get("isError") is True and bool(request.injected)
        return bool(body.get("error")) or is_error
    return is_only_error(body)


def is_only_error(body: dict[str, Any]) -> bool:
    """Whether a JSON object has an error and nothing else."""
    return bool(body.get("error")) and not set(body) - _ERROR_KEYS


def _last_object(body: str) -> dict[str, Any]:
    events = recorded_events(body)
    text = data_of(events[-1]).decode(errors="replace") if events else body
    try:
        return as_object(parsed(text))
    except ValueError:
        return {}
