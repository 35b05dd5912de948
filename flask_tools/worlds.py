"""Which world a request acts in."""

from __future__ import annotations

from flask import Request

from flask_tools.inputs import header_text, required_text
from windtunnel.core.worlds import DEFAULT_WORLD, WORLD_HEADER

MAX_WORLD_LENGTH = 200


def world_of_request(request: Request) -> str:
    """The world of the request's header, else ``default``; raises ``ToolError`` for a malformed one."""
    return header_text(request, WORLD_HEADER, "bad_world", MAX_WORLD_LENGTH) or DEFAULT_WORLD


def world_asked_for(request: Request, values: dict[str, str]) -> str:
    """The world named by the parameter ``world``, else the request's own."""
    if "world" in values:
        return required_text(values, "world", MAX_WORLD_LENGTH)
    return world_of_request(request)
