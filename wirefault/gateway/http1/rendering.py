"""The replies that the gateway gives in an upstream's place. Pure."""

from __future__ import annotations

from wirefault.dialects.base import typed_error
from wirefault.dialects.http import Reply, head_bytes
from wirefault.dialects.tool import TOOL

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_WITHOUT_BODY = (204, 304)


def refusal(status: int, code: str, message: str) -> Reply:
    """The gateway's own error, in the lab's one shape."""
    return typed_error(TOOL, status, code, message)


def render(reply: Reply, *, keep_alive: bool, head_only: bool) -> bytes:
    """The whole reply in one piece, to be written in one go. ``head_only`` for the answer to a HEAD."""
    bodiless = reply.status < 200 or reply.status in _WITHOUT_BODY
    head = header_block(reply, len(reply.body), keep_alive=keep_alive)
    return head if head_only or bodiless else head + reply.body


def header_block(reply: Reply, length: int | None, *, keep_alive: bool) -> bytes:
    """Its header block with that Content-Length, or chunked without one."""
    lines = head_bytes(reply, length)[:-4].split(b"\r\n")
    if reply.status < 200 or reply.status in _WITHOUT_BODY:
        lines.pop()  # its framing: such a reply has none
    if not keep_alive:
        lines.append(b"Connection: close")
    return b"\r\n".join((*lines, b"", b""))
