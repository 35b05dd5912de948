"""One connection of a subject's as it comes: where it was to go, and what has been read of it."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto

from wirefault.core.sockets import Address
from wirefault.gateway.http1.framing import NO_BODY, BadBody, Body, ChunkedBody, SizedBody
from wirefault.gateway.http1.heads import BadHead, RequestHead, find_head
from wirefault.gateway.intercept.splice import TLS_RECORD, readable
from wirefault.history.events import TapKind

_CLIENT_HELLO = 1
_SERVER_NAME, _HOST_NAME = 0, 0
_RECORD_HEADER = 5
_LONGEST_START = 16 * 1024
# a method, and a target as a client sends it to a server, to a proxy, or to begin HTTP/2 (``PRI *``)
_HTTP = re.compile(rb"[A-Z][A-Z-]{2,19} (?:/|\*|https?://)")
_HTTP_PREFIX = re.compile(rb"[A-Z][A-Z-]{0,19}(?: (?:h(?:t(?:t(?:p(?:s?(?::/?)?)?)?)?)?)?)?")


class Spoken(Enum):
    """``UNDECIDED``: too few bytes to tell. ``OTHER`` is neither of the two that a link can speak."""

    UNDECIDED = auto()
    TLS = auto()
    HTTP = auto()
    OTHER = auto()


def spoken(start: bytes) -> Spoken:
    """What the client speaks. A TLS client is only told when its whole ClientHello is there, for its name."""
    if start[:1] == TLS_RECORD:
        whole = len(start) >= _LONGEST_START or len(start) >= _RECORD_HEADER + _record_length(start)
        return Spoken.TLS if whole and len(start) > _RECORD_HEADER else Spoken.UNDECIDED
    if _HTTP.match(start):
        return Spoken.HTTP
    return Spoken.UNDECIDED if not start or _HTTP_PREFIX.fullmatch(start) else Spoken.OTHER


def _record_length(start: bytes) -> int:
    return int.from_bytes(start[3:5], "big")


def server_name(client_hello: bytes) -> str:
    """The host that a TLS client asks for by SNI; empty if it names none.

    Bytes that are no ClientHello name none. Only the first record is read, where the name stands.
    """
    try:
        return _server_name(_Reader(client_hello[_RECORD_HEADER:]))
    except (IndexError, UnicodeDecodeError):
        return ""


def _server_name(record: _Reader) -> str:
    if record.number(1) != _CLIENT_HELLO:
        return ""
    hello = _Reader(record.block(3))
    hello.skip(2 + 32)  # the version and the random bytes
    hello.block(1)  # the session
    hello.block(2)  # the ciphers
    hello.block(1)  # the compressions
    extensions = _Reader(hello.block(2))
    while extensions.left:
        kind, extension = extensions.number(2), extensions.block(2)
        if kind == _SERVER_NAME:
            names = _Reader(_Reader(extension).block(2))
            return names.block(2).decode("ascii").lower() if names.number(1) == _HOST_NAME else ""
    return ""


class _Reader:
    """Reads a TLS message from its start. Raises ``IndexError`` where it is too short."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def skip(self, size: int) -> bytes:
        if len(self.left) < size:
            raise IndexError
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.skip(size), "big")

    def block(self, length_size: int) -> bytes:
        """What follows its own length."""
        return self.skip(self.number(length_size))


_ONE_WAY = (b"x-tap", b"oneway")
_FOR_THE_PROXY = (b"proxy-connection", b"proxy-authorization", b"x-tap")
_HAS_PORT = re.compile(r":[0-9]+$")
_NO_SERVER = "this is a proxy, and no server: it takes CONNECT host:port, or a request for http://host"
_SETTLE = b"POST /settle "
SETTLED = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
TUNNEL_OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Asked(Enum):
    """``ONE_WAY`` is a tunnel whose client expects no reply to its ``CONNECT``: the bytes follow at once.

    ``SETTLE`` is the one request that is for the ingress itself (``POST /settle``): the attempt is over.
    """

    TUNNEL = auto()
    ONE_WAY = auto()
    REQUEST = auto()
    SETTLE = auto()


@dataclass(frozen=True)
class ProxyRequest:
    """``rest``: what came behind a tunnel's header block. ``head`` is that of a request in origin form."""

    asked: Asked
    target: Address
    head: bytes = b""
    body: Body = NO_BODY
    upgrade: bool = False


def read_proxy_request(pending: bytes) -> tuple[ProxyRequest | None, bytes]:
    """The next request, None if it is not whole yet, and the bytes after it. Raises ``BadHead``."""
    head, rest = find_head(pending)
    if head is None:
        return None, rest
    if head.method == "CONNECT":
        asked = Asked.ONE_WAY if _has_line(head, *_ONE_WAY) else Asked.TUNNEL
        return ProxyRequest(asked, _address(head.target)), rest
    if head.lines[0].startswith(_SETTLE):
        return ProxyRequest(Asked.SETTLE, Address("", 0)), rest
    return _request(head), rest


def _has_line(head: RequestHead, name: bytes, value: bytes) -> bool:
    lines = (line.partition(b":") for line in head.lines[1:])
    return any(there.lower() == name and said.strip() == value for there, _, said in lines)


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError:
        raise BadHead(f"{text[:200]!r} is no host:port") from None


def _request(head: RequestHead) -> ProxyRequest:
    scheme, _, rest = head.target.partition("://")
    end = next((at for at, letter in enumerate(rest) if letter in "/?"), len(rest))
    authority, path = rest[:end].rpartition("@")[2], rest[end:]
    if scheme.lower() != "http" or not authority:
        raise BadHead(_NO_SERVER)
    with_port = authority if _HAS_PORT.search(authority) else f"{authority.removesuffix(':')}:80"
    body: Body = ChunkedBody() if head.chunked else SizedBody(head.length)
    if not path.startswith("/"):
        path = "*" if head.method == "OPTIONS" and not path else f"/{path}"
    in_origin_form = _in_origin_form(head, path.encode("latin-1"), authority.encode("latin-1"))
    return ProxyRequest(Asked.REQUEST, _address(with_port), in_origin_form, body, head.upgrade)


def _in_origin_form(head: RequestHead, path: bytes, authority: bytes) -> bytes:
    """As a client writes it that knows of no proxy; all other bytes stay."""
    method, _, version = head.lines[0].split(b" ")
    lines = [b" ".join((method, path, version))]
    for at, line in enumerate(head.lines[1:], start=1):
        name, _, value = line.partition(b":")
        if at == head.host_at and value.strip() != authority:
            line = name + b": " + authority
        if name.lower() not in _FOR_THE_PROXY:
            lines.append(line)
    return b"\r\n".join(lines) + b"\r\n\r\n"


class RequestRewriter:
    """The requests on a client's connection to a proxy, put into origin form as they come, for one server.

    A request for another server is kept as ``next``, one that is bad as ``bad``; either calls ``elsewhere``,
    and what comes after it waits.
    """

    def __init__(self, first: ProxyRequest, pending: bytes, elsewhere: Callable[[], None]) -> None:
        self.next: ProxyRequest | None = first
        self.bad: BadHead | None = None
        self._pending = pending
        self._elsewhere = elsewhere
        self._target = first.target
        self._body: Body = NO_BODY
        self._passes = False

    def begin(self) -> bytes:
        """The first bytes for the server of ``next``."""
        assert self.next is not None
        request, self.next = self.next, None
        self._target = request.target
        return self._start(request) + self.feed(b"")

    def _start(self, request: ProxyRequest) -> bytes:
        """From an upgrade on nothing is read any more: what is spoken then is no HTTP."""
        self._body, self._passes = request.body, request.upgrade
        return request.head

    def feed(self, data: bytes) -> bytes:
        """What the server gets of it."""
        self._pending += data
        out = []
        try:
            while self._pending and self.next is None and self.bad is None:
                out.append(self._take())
                if not out[-1]:
                    break
        except (BadHead, BadBody) as error:
            self.bad = error if isinstance(error, BadHead) else BadHead(str(error))
            self._elsewhere()
        return b"".join(out)

    def _take(self) -> bytes:
        """The next part of what waits: of a body, or a header block; empty if it does not go on."""
        if self._passes or not self._body.done:
            used = len(self._pending) if self._passes else self._body.feed(self._pending)
            taken, self._pending = self._pending[:used], self._pending[used:]
            return taken
        request, self._pending = read_proxy_request(self._pending)
        if request is None:
            return b""
        if request.asked is not Asked.REQUEST:
            raise BadHead("a CONNECT on a connection that has had another request")
        if request.target == self._target:
            return self._start(request)
        self.next = request
        self._elsewhere()
        return b""


def proxy_refusal(status: int, reason: str) -> bytes:
    """A reply of the ingress's own, after which it closes."""
    phrase = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}.get(status, "Refused")
    body = f"wirefault: {reason}\n".encode()
    return (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


_SILENCE_S = 0.5
_REST_S = 10.0
_PIECE = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Arrival:
    """``early``: what has been read of it already. ``asked`` of a proxy, None where it took the ingress for
    its server. ``opened`` is in seconds since the epoch, other times are ``time.perf_counter``'s.
    ``said_all``: it has ended its side.
    """

    client: socket.socket
    host: str
    port: int
    way: TapKind
    asked: Asked | None = None
    early: bytes = b""
    opened: float = field(default_factory=time.time)
    began: float = field(default_factory=time.perf_counter)
    first_sent: float | None = None
    said_all: bool = False
    _answered: bool = False

    async def accept(self) -> None:
        """Tells a client that asked for a tunnel that it is open, once. Raises ``OSError`` if it has left."""
        if self.asked is Asked.TUNNEL and not self._answered:
            self._answered = True
            await asyncio.get_running_loop().sock_sendall(self.client, TUNNEL_OPEN)

    async def refuse(self, status: int, reason: str) -> None:
        """Ends it: by a reply where the client awaits one, else by a reset."""
        with self.client, suppress(OSError):  # it has left by itself
            if self.asked is Asked.TUNNEL and not self._answered:
                await asyncio.get_running_loop().sock_sendall(self.client, proxy_refusal(status, reason))
            else:
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    async def what_is_spoken(self) -> Spoken:
        """Reads until it can be told; ``UNDECIDED`` of a client that says nothing, or says no more."""
        with suppress(TimeoutError):
            while (kind := spoken(self.early)) is Spoken.UNDECIDED:
                async with asyncio.timeout(_REST_S if self.early else _SILENCE_S):
                    await readable(self.client)
                data = self.client.recv(_PIECE)
                if not data:
                    self.said_all = True
                    return kind
                self.first_sent = self.first_sent or time.perf_counter()
                self.early += data
        return kind
