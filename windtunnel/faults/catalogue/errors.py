"""Errors as the answer to a try, in the form of its link. Pure."""

from __future__ import annotations

from windtunnel.dialects.errors import error_reply, model_of
from windtunnel.dialects.http import Reply
from windtunnel.faults.base import Try


def error_for(this: Try, kind: str, *, retry_after: float | None = None) -> Reply:
    """The same as an answer to that try, which names its model and has an id of its own."""
    return error_reply(
        this.dialect, kind, model=model_of(this.request), id=request_id(this), retry_after=retry_after
    )


def request_id(this: Try) -> str:
    """An id as a provider gives each request: fixed by the seed."""
    return f"req_{int(this.chance('request-id') * 2**48):012x}"
