"""Bytes of requests that wait, and their heads."""

from __future__ import annotations

import pytest

from wirefault.gateway.exchange.connection import RequestQueue
from wirefault.gateway.http1.heads import BadHead


def queue(*pieces: bytes) -> RequestQueue:
    filled = RequestQueue()
    for at, piece in enumerate(pieces):
        filled.add(piece, float(at))
    return filled


def test_head_in_pieces_is_taken_once_whole() -> None:
    pieces = queue(b"GET /a HTTP/1.1\r\nHost", b": x\r\n")
    assert pieces.next_head() is None and pieces.arrived == 0.0
    pieces.add(b"\r\nGET /b", 2.0)
    head = pieces.next_head()
    assert head is not None and head.target == "/a"
    assert pieces.take_all() == b"GET /b" and pieces.take_all() == b""


def test_invalid_request_is_refused() -> None:
    with pytest.raises(BadHead):
        queue(b"\x00\x01").next_head()


def test_long_queue_is_reported() -> None:
    assert not queue(bytes(64 * 1024)).is_long
    assert queue(bytes(64 * 1024), b"x").is_long
