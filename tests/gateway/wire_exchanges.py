"""Generated exchanges over one connection: requests as clients send them, replies as upstreams do."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

MIB = 1 << 20
HOST = b"hOsT: proxy:6000"
NOISE = Random(0).randbytes(MIB - 9) + b"\r\n\r\n0\r\n\r\n"
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "PROPFIND", "BREW"]
TARGETS = [
    "/",
    "/v1/models?x=%20",
    "/openai/v1/chat/completions",
    "/v1beta",
    "//a/../b;c?d=e&&f",
    "*",
    "http://h/p",
]
ASKED = [
    b"Accept: */*", b"ACCEPT-encoding:gzip , br\t", b"Cookie: a=b; c=\"d\"", b"X-Empty:", b"X-Latin: caf\xe9",
    b"X-Twice: 1", b"x-twice: 2", b"Authorization: Bearer k", b"baggage: other=1", b"TraceParent: 00-ab",
    b"Idempotency-Key: k", b"X-Long: " + b"y" * 9000, b"Keep-Alive: timeout=5", b"Te: trailers",
    b"Wirefault-World: mine", b"WIREFAULT-note: n",
]  # fmt: skip
OWN_LINES = [
    b"Server: s", b"Set-Cookie: a", b"set-cookie:b", b"X-Empty:", b"Date: now ", b"ETag: W/\"x\"",
    b"X: \xff\x80", b"Retry-After: 0.2", b"Vary:*", b"X-Long: " + b"z" * 30_000, b"Connection: Keep-Alive",
    b"Content-Type: a/b",
]  # fmt: skip
STATUSES = [
    b"200 OK",
    b"200 OK",
    b"200",
    b"404 ",
    b"204 No Content",
    b"304 Not Modified",
    b"500 \xe9",
    b"299 A:B",
]
INTERIM = [b"", b"", b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"]
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, repr=False)
class WireExchange:
    """``lines`` is the request's header block with its first line. ``waits``: its body follows the 100 only.

    The reply arrives in ``pieces``; ``ends`` if the upstream closes after it. ``raw`` is what each side sends
    after a change of protocol, None without one.
    """

    lines: tuple[bytes, ...]
    body: bytes
    pieces: tuple[bytes, ...]
    waits: bool = False
    ends: bool = False
    raw: bytes | None = None

    def __repr__(self) -> str:
        """Short enough to read: sizes instead of bodies."""
        lines = [line[:60] for line in self.lines]
        sizes = [len(piece) for piece in self.pieces]
        flags = f"waits={self.waits}, ends={self.ends}, raw={self.raw and len(self.raw)}"
        return f"WireExchange({lines}, {len(self.body)} B, {self.pieces[0][:300]!r} in {sizes} B, {flags})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # hypothesis would print a dataclass field by field

    @property
    def reply(self) -> bytes:
        return (CONTINUE if self.waits else b"") + b"".join(self.pieces)


def block(lines: tuple[bytes, ...] | list[bytes]) -> bytes:
    return b"\r\n".join([*lines, b"", b""])


def content(size: int) -> bytes:
    return NOISE[-size:] if size < MIB else (NOISE * (size // MIB + 1))[:size]


def sizes(largest: int) -> st.SearchStrategy[int]:
    """Mostly small, often at a limit of the gateway's, seldom ``largest``."""
    limits = [64 * 1024, 256 * 1024]
    edges = st.sampled_from([limit + by for limit in limits for by in (-1, 0, 1)])
    small = st.integers(0, 400)
    return st.one_of(*[small] * 8, edges, st.integers(0, 99).map(lambda n: largest if n == 50 else 7000))


def chunked(data: bytes, piece: int, extension: bytes, trailer: bytes) -> bytes:
    parts = [data[at : at + piece] for at in range(0, len(data), piece)]
    chunks = [b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts]
    return b"".join([*chunks, b"000", extension, b"\r\n", trailer, b"\r\n"])


@st.composite
def framed(draw: st.DrawFn, largest: int) -> tuple[list[bytes], bytes]:
    """The header lines that frame a body, and the body on the wire."""
    data = content(draw(sizes(largest)))
    lines = []
    if draw(st.integers(0, 3)) == 0:
        lines, data = [b"Content-Encoding: gzip"], gzip.compress(data, 1, mtime=0)
    if draw(st.booleans()):
        return [
            *lines,
            draw(st.sampled_from([b"Content-Length: %d", b"content-LENGTH:%d"])) % len(data),
        ], data
    piece = draw(st.sampled_from([max(1, len(data) // 7), 1000 + len(data) // 90, max(1, len(data))]))
    extension = draw(st.sampled_from([b"", b";a=b", b' ;n="v;w"']))
    trailer = draw(st.sampled_from([b"", b"X-Check: 1\r\n", b"A:b\r\nDigest: sha-256=\xff\r\n"]))
    return [*lines, b"Transfer-Encoding: chunked"], chunked(data, piece, extension, trailer)


@st.composite
def wire_exchanges(draw: st.DrawFn, largest: int, *, last: bool = False) -> WireExchange:
    """One request and its reply; the ``last`` on its connection may also end it or change its protocol."""
    method = draw(st.sampled_from(METHODS))
    lines = [f"{method} {draw(st.sampled_from(TARGETS))} HTTP/1.1".encode(), HOST]
    lines += draw(st.lists(st.sampled_from(ASKED), max_size=4))
    framing, body = draw(framed(largest)) if method in ("POST", "PUT", "PATCH", "BREW") else ([], b"")
    waits = bool(body) and draw(st.integers(0, 3)) == 0
    lines += [*framing, *([b"Expect: 100-Continue"] if waits else [])]
    how = draw(st.sampled_from(["stays", "ends", "old", "upgrade"])) if last else "stays"
    if how == "upgrade":
        lines = [b"GET /chat HTTP/1.1", *lines[1:2], b"Connection: keep-alive, Upgrade", b"Upgrade: other"]
        reply = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n"
        return WireExchange(tuple(lines), b"", (reply,), raw=content(draw(sizes(largest)) + 1))
    if how == "old" and not waits and b"Transfer-Encoding: chunked" not in lines:
        lines[0] = lines[0][:-1] + b"0"
        how = "ends"
    return WireExchange(
        tuple(lines), body, draw(replies(method, largest, how == "ends")), waits, how == "ends"
    )


@st.composite
def replies(draw: st.DrawFn, method: str, largest: int, ends: bool) -> tuple[bytes, ...]:
    """The pieces in which it is sent: an event stream event by event, else a few."""
    status = draw(st.sampled_from(STATUSES))
    own_lines = draw(st.lists(st.sampled_from(OWN_LINES), max_size=4))
    framing, body = draw(framed(largest))
    if draw(st.integers(0, 5)) == 0:
        own_lines, events = [*own_lines, b"content-type: text/event-stream"], draw(st.integers(1, 9))
        framing, body = [b"transfer-encoding:chunked"], chunked(b"data: {}\n\n" * events, 10, b"", b"")
    if ends:
        framing = [*draw(st.sampled_from([[], framing])), b"connection: close"]
    if method == "HEAD" or status[:3] in (b"204", b"304"):
        body = b""
    head = draw(st.sampled_from(INTERIM)) + block([b"HTTP/1.1 " + status, *own_lines, *framing])
    cut = draw(st.sampled_from([1, 3, 100])) if len(body) < MIB else 1
    size = max(1, -(-len(body) // cut))
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return (head, *pieces) if draw(st.booleans()) else (head + b"".join(pieces[:1]), *pieces[1:])
