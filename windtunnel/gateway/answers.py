"""The replies that the gateway gives itself. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from windtunnel.faults import Reply

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def render(reply: Reply, *, keep_alive: bool, head_only: bool) -> bytes:
    """The whole reply in one piece, to be written in one go. ``head_only`` for the answer to a HEAD."""
    lines = [f"HTTP/1.1 {reply.status} {reply.reason}", "Content-Type: application/json"]
    lines.append(f"Content-Length: {len(reply.body)}")
    lines.extend(f"{name}: {value}" for name, value in reply.headers.items())
    if not keep_alive:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if head_only else head + reply.body


def error_reply(status: int, code: str, message: str, record: Mapping[str, object] | None = None) -> Reply:
    """The lab's one shape of an error."""
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    return Reply(status, HTTPStatus(status).phrase, body, record or {})
