"""Ends of messages, split into any chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.gateway.http1.framing import BadBody, ChunkedBody, ReplyReader, SizedBody
from wirefault.gateway.http1.heads import BadHead, find_head, read_reply

CHUNKED = b"3;a=b\r\nabc\r\n00A\r\n0123456789\r\n0\r\nX: y\r\n\r\n"


def feed(body: ChunkedBody | SizedBody, data: bytes, cuts: list[int]) -> int:
    """Feed the data in chunks; return the length of the body."""
    taken, at = 0, 0
    for cut in [*sorted(cuts), len(data)]:
        taken += body.feed(data[at:cut]) if not body.done else 0
        at = max(at, cut)
    return taken


@given(st.lists(st.integers(0, len(CHUNKED) + 5), max_size=12))
def test_end_of_chunked_body_is_exact(cuts: list[int]) -> None:
    carried = bytearray()
    body = ChunkedBody(carried.extend)
    assert feed(body, CHUNKED + b"extra", cuts) == len(CHUNKED)
    assert body.done and carried == b"abc0123456789"


@given(st.integers(0, 50), st.lists(st.integers(0, 60), max_size=5))
def test_end_of_sized_body_is_exact(size: int, cuts: list[int]) -> None:
    body = SizedBody(size)
    assert feed(body, b"x" * 60, cuts) == size and body.done


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"g\r\n",
        b"-1\r\n",
        b"0x1\r\n",
        b"1\nab",
        b"1\r\nabc",
        b"1" * 20_000,
        b"0\r\n" + b"a: b\r\n" * 20_000,
    ],
)
def test_invalid_chunked_body(data: bytes) -> None:
    with pytest.raises(BadBody):
        ChunkedBody().feed(data)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_break_request_reader(data: bytes) -> None:
    try:
        head, rest = find_head(data + b"\r\n\r\n")
    except BadHead as error:
        assert error.status == 400
    else:
        assert head is None or len(rest) < len(data) + 4


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_arbitrary_bytes_never_break_reply_reader(data: bytes, cuts: list[int]) -> None:
    reader, passed = ReplyReader("GET", upgrade=False, swallow_continue=False), b""
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        part, surplus = reader.feed(data[at:cut]) if cut > at and not reader.done else (b"", data[at:cut])
        passed, at = passed + part + surplus, max(at, cut)
    assert passed + reader.take_rest() == data


@pytest.mark.parametrize(
    ("head", "length"),
    [
        (b"Content-Length: 5\r\n", 5),
        (b"Content-Length: 5\r\ncontent-length: 5\r\n", 5),
        (b"Content-Length: 5\r\nTransfer-Encoding: gzip\r\n", None),
        (b"", None),
    ],
)
def test_reply_length(head: bytes, length: int | None) -> None:
    assert read_reply(b"HTTP/1.1 200\r\n" + head + b"\r\n").length == length


@pytest.mark.parametrize(
    "head", [b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 20\r\n\r\n", b"HTTP/1.1 200\r\nContent-Length: x\r\n\r\n"]
)
def test_invalid_reply_head(head: bytes) -> None:
    with pytest.raises(BadHead):
        read_reply(head)


def test_blank_lines_before_request_are_skipped_at_once():
    """Copying per line takes quadratic time: megabytes would block the gateway for seconds."""

    class Counting(bytes):
        copies = 0

        def __getitem__(self, key):
            Counting.copies += isinstance(key, slice) and key.stop is None
            return bytes.__getitem__(self, key) if key.stop is not None else Counting(bytes(self)[key])

    head, rest = find_head(Counting(b"\r\n" * 1000 + b"GET / HTTP/1.1\r\n\r\n"))
    assert head is not None and head.method == "GET" and not rest
    assert Counting.copies <= 2
