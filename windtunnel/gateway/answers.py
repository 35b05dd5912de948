"""The replies that the gateway gives itself. Pure."""

from __future__ import annotations

from http import HTTPStatus

from windtunnel.faults import Reply

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def render(reply: Reply, *, keep_alive: bool, head_only: bool) -> bytes:
    """The whole reply in one piece, to be written in one go. ``head_only`` for the answer to a HEAD."""
    lines = [
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(reply.body)}",
        *(f"{name}: {value}" for name, value in reply.headers.items()),
        *([] if keep_alive else ["Connection: close"]),
    ]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if head_only else head + reply.body
