"""An intercepted connection as it arrives: its destination, and its first bytes parsed.

Parses requests to a proxy (``CONNECT`` and absolute form) and a TLS ClientHello. Proxy credentials are
dropped: the ingress asks for none.
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto

from wirefault.core.sockets import Address
from wirefault.gateway.http1.framing import (
    NO_BODY,
    BadBody,
    Body,
    ChunkedBody,
    ReplyReader,
    SizedBody,
)
from wirefault.gateway.http1.heads import BadHead, RequestHead, find_head
from wirefault.gateway.intercept.splice import TLS_RECORD, readable
from wirefault.history.events import TapKind

_CLIENT_HELLO = 1
_SERVER_NAME, _HOST_NAME = 0, 0
_ALPN = 16
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_PREFACE_START = b"PRI * HTTP/2"
_RECORD_HEADER = 5
_MAX_START = 16 * 1024
_MAX_PIPELINED = 256 * 1024
# a method, and a target as a client sends it to a server, to a proxy, or to begin HTTP/2 (``PRI *``)
_HTTP = re.compile(rb"[A-Z][A-Z-]{2,19} (?:/|\*|https?://)")
_CONNECT = re.compile(rb"CONNECT [^ \r\n/]{1,300} ")
_HTTP_PREFIX = re.compile(
    rb"[A-Z][A-Z-]{0,19}(?: (?:h(?:t(?:t(?:p(?:s?(?::/?)?)?)?)?)?)?)?|CONNECT [^ \r\n/]{1,300}"
)


class ClientProtocol(Enum):
    """A client's protocol. ``UNDECIDED``: too few bytes. ``CONNECT``: the client takes its server for a
    proxy. ``OTHER``: a protocol that a link cannot carry.
    """

    UNDECIDED = auto()
    TLS = auto()
    HTTP = auto()
    CONNECT = auto()
    OTHER = auto()


def client_protocol(start: bytes) -> ClientProtocol:
    """Return the protocol. ``TLS`` needs the whole ClientHello, which has the host's name."""
    if start[:1] == TLS_RECORD:
        whole = len(start) >= _MAX_START or len(start) >= _RECORD_HEADER + _record_length(start)
        return ClientProtocol.TLS if whole and len(start) > _RECORD_HEADER else ClientProtocol.UNDECIDED
    if _HTTP.match(start):
        return ClientProtocol.HTTP
    if _CONNECT.match(start):
        return ClientProtocol.CONNECT
    return ClientProtocol.UNDECIDED if not start or _HTTP_PREFIX.fullmatch(start) else ClientProtocol.OTHER


def _record_length(start: bytes) -> int:
    return int.from_bytes(start[3:5], "big")


def server_name(client_hello: bytes) -> str:
    """Return the host that a ClientHello names by SNI, else "". Only the first record is read."""
    try:
        return _server_name(_Reader(client_hello[_RECORD_HEADER:]))
    except (IndexError, UnicodeDecodeError):
        return ""


def _server_name(record: _Reader) -> str:
    for kind, extension in _extensions(record):
        if kind == _SERVER_NAME:
            names = _Reader(_Reader(extension).block(2))
            return names.block(2).decode("ascii").lower() if names.number(1) == _HOST_NAME else ""
    return ""


def _extensions(record: _Reader) -> Iterator[tuple[int, bytes]]:
    """Yield the extensions of a ClientHello, each with its kind."""
    if record.number(1) != _CLIENT_HELLO:
        return
    hello = _Reader(record.block(3))
    hello.skip(2 + 32)  # the version and the random bytes
    hello.block(1)  # the session
    hello.block(2)  # the ciphers
    hello.block(1)  # the compressions
    extensions = _Reader(hello.block(2))
    while extensions.left:
        yield extensions.number(2), extensions.block(2)


def speaks_only_http2(start: bytes) -> bool:
    """Whether a client's first bytes show that it speaks HTTP/2 and no HTTP/1, as gRPC does.

    Over TLS it offers ``h2`` by ALPN without any HTTP/1; in the clear it begins with the preface of HTTP/2.
    """
    if start[:1] != TLS_RECORD:
        return start.startswith(_PREFACE_START)
    try:
        offered = _protocols(_Reader(start[_RECORD_HEADER:]))
    except IndexError:
        return False
    return b"h2" in offered and not any(name.startswith(b"http/1") for name in offered)


def _protocols(record: _Reader) -> list[bytes]:
    """Return the protocols that a ClientHello offers by ALPN."""
    names: list[bytes] = []
    for kind, extension in _extensions(record):
        if kind == _ALPN:
            offered = _Reader(_Reader(extension).block(2))
            while offered.left:
                names.append(offered.block(1))
    return names


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
        """Read a block that follows its own length."""
        return self.skip(self.number(length_size))


_ONE_WAY = (b"x-tap", b"oneway")
_FOR_THE_PROXY = (b"proxy-connection", b"proxy-authorization", b"x-tap")
_HAS_PORT = re.compile(r":[0-9]+$")
_NO_SERVER = "this is a proxy, not a server: send CONNECT host:port, or a request for http://host"
_SETTLE = b"POST /settle "
SETTLED_REPLY = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
TUNNEL_OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"


class RequestKind(Enum):
    """``ONE_WAY``: a tunnel whose client expects no reply to ``CONNECT`` and sends on at once.

    ``SETTLE`` (``POST /settle``) is for the ingress itself: the attempt is over.
    """

    TUNNEL = auto()
    ONE_WAY = auto()
    REQUEST = auto()
    SETTLE = auto()


@dataclass(frozen=True)
class ProxyRequest:
    """A request to the proxy; ``head`` is in origin form, for ``SETTLE`` its ``Authorization`` alone."""

    kind: RequestKind
    target: Address
    head: bytes = b""
    body: Body = NO_BODY
    method: str = ""
    upgrade: bool = False


def read_proxy_request(pending: bytes) -> tuple[ProxyRequest | None, bytes]:
    """Return the next request, None if it is incomplete, and the bytes after it. Raises ``BadHead``."""
    head, rest = find_head(pending)
    if head is None:
        return None, rest
    if head.method == "CONNECT":
        kind = RequestKind.ONE_WAY if _has_line(head, *_ONE_WAY) else RequestKind.TUNNEL
        return ProxyRequest(kind, _address(head.target)), rest
    if head.lines[0].startswith(_SETTLE):
        authorization = head.noted.get(b"authorization", "").encode()
        return ProxyRequest(RequestKind.SETTLE, Address("", 0), authorization), rest
    return _request(head), rest


def _has_line(head: RequestHead, name: bytes, value: bytes) -> bool:
    lines = (line.partition(b":") for line in head.lines[1:])
    return any(header.lower() == name and text.strip() == value for header, _, text in lines)


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError:
        raise BadHead(f"{text[:200]!r} is not host:port") from None


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
    return ProxyRequest(
        RequestKind.REQUEST, _address(with_port), in_origin_form, body, head.method, head.upgrade
    )


def _in_origin_form(head: RequestHead, path: bytes, authority: bytes) -> bytes:
    """Return the head as a client without a proxy writes it; all other bytes stay."""
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
    """Rewrites a client's requests to a proxy into origin form, for one server at a time.

    A request for another server is kept as ``next``, a bad one as ``bad``; what follows it waits. Once the
    server has answered all requests before it, ``elsewhere`` is called. ``hold`` is called when so many bytes
    wait that the client should stop sending.
    """

    def __init__(
        self,
        first: ProxyRequest,
        pending: bytes,
        elsewhere: Callable[[], None],
        hold: Callable[[], None] = lambda: None,
    ) -> None:
        self.next: ProxyRequest | None = first
        self.bad: BadHead | None = None
        self._pending = pending
        self._elsewhere = elsewhere
        self._hold = hold
        self._target = first.target
        self._body: Body = NO_BODY
        self._passes = False
        self._replies: deque[ReplyReader] = deque()

    def begin(self) -> bytes:
        """Return the first bytes for the server of ``next``."""
        assert self.next is not None
        request, self.next = self.next, None
        self._target = request.target
        self._replies.clear()
        return self._start(request) + self.feed(b"")

    def _start(self, request: ProxyRequest) -> bytes:
        """After an upgrade nothing is parsed any more, since it need not be HTTP."""
        self._body, self._passes = request.body, request.upgrade
        self._replies.append(ReplyReader(request.method, request.upgrade, False))
        return request.head

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that the server gets of ``data``."""
        self._pending += data
        if self.next is not None or self.bad is not None:
            if len(self._pending) > _MAX_PIPELINED:
                self._hold()
            return b""
        out = []
        try:
            while self._pending and self.next is None and self.bad is None:
                out.append(self._take())
                if not out[-1]:
                    break
        except (BadHead, BadBody) as error:
            self.bad = error if isinstance(error, BadHead) else BadHead(str(error))
        self._leave_if_answered()
        return b"".join(out)

    def follow_replies(self, data: bytes) -> None:
        """Note what the server has answered."""
        while data and self._replies:
            reply = self._replies[0]
            _, data = reply.feed(data)
            if reply.tunnel:
                break
            if reply.done:
                self._replies.popleft()
        self._leave_if_answered()

    def _leave_if_answered(self) -> None:
        if (self.next is not None or self.bad is not None) and not self._replies:
            self._elsewhere()

    def _take(self) -> bytes:
        """Return the next part of a body, or a whole header block; empty if it is incomplete."""
        if self._passes or not self._body.done:
            used = len(self._pending) if self._passes else self._body.feed(self._pending)
            taken, self._pending = self._pending[:used], self._pending[used:]
            return taken
        request, self._pending = read_proxy_request(self._pending)
        if request is None:
            return b""
        if request.kind is not RequestKind.REQUEST:
            raise BadHead("a CONNECT on a connection that has had another request")
        if request.target == self._target:
            return self._start(request)
        self.next = request
        return b""


def proxy_refusal(status: int, reason: str) -> bytes:
    """Return the ingress's own reply, after which it closes."""
    phrase = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}.get(status, "Refused")
    body = f"wirefault: {reason}\n".encode()
    return (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


_SILENCE_S = 0.5
_REST_S = 10.0
_HOST_LINE = re.compile(rb"\r\nhost:[ \t]*([^\r\n]*?)[ \t]*\r\n", re.IGNORECASE)
_PIECE = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class Arrival:
    """A new connection. Times are of ``time.perf_counter``, except ``opened`` (seconds since the epoch)."""

    client: socket.socket
    host: str
    port: int
    tap: TapKind
    # None if the client took the ingress for its server
    request_kind: RequestKind | None = None
    # bytes read so far
    early: bytes = b""
    opened: float = field(default_factory=time.time)
    began: float = field(default_factory=time.perf_counter)
    first_sent: float | None = None
    # the client has ended its side
    at_eof: bool = False
    # it has sent nothing for a while
    silent: bool = False
    # this machine's addresses that the hosts file gives ``host``
    addresses: tuple[str, ...] = ()
    _answered: bool = False

    @property
    def has_left(self) -> bool:
        """Whether the client has closed its side, even if data of it is still unread."""
        if self.client.fileno() < 0:
            return True
        ended = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
        poll = select.poll()
        poll.register(self.client, ended)
        return bool(poll.poll(0))

    async def accept(self) -> None:
        """Tell a client that asked for a tunnel that it is open, once. Raises ``OSError`` if it
        disconnected.
        """
        if self.request_kind is RequestKind.TUNNEL and not self._answered:
            self._answered = True
            await asyncio.get_running_loop().sock_sendall(self.client, TUNNEL_OPEN)

    async def refuse(self, status: int, reason: str) -> None:
        """End the connection with a reply if the client awaits one, else with a reset."""
        with self.client, suppress(OSError):  # the client disconnected
            if self.request_kind is RequestKind.TUNNEL and not self._answered:
                await asyncio.get_running_loop().sock_sendall(self.client, proxy_refusal(status, reason))
            else:
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    async def read_protocol(self) -> ClientProtocol:
        """Read until the protocol is known; ``UNDECIDED`` for a silent client or one at its end."""
        self.silent = False
        with suppress(TimeoutError):
            while (kind := client_protocol(self.early)) is ClientProtocol.UNDECIDED:
                if not await self._read_more(_REST_S if self.early else _SILENCE_S):
                    return kind
        self.silent = kind is ClientProtocol.UNDECIDED
        return kind

    async def read_name(self) -> str:
        """Return the server's name by TLS or by the first request's Host; "" without one, or if silent."""
        kind = await self.read_protocol()
        if kind is ClientProtocol.TLS:
            return server_name(self.early)
        if kind is not ClientProtocol.HTTP:
            return ""
        with suppress(TimeoutError):
            while b"\r\n\r\n" not in self.early and len(self.early) < _MAX_START:
                if not await self._read_more(_REST_S):
                    break
        host = _HOST_LINE.search(self.early.partition(b"\r\n\r\n")[0] + b"\r\n")
        return _HAS_PORT.sub("", host[1].decode("latin-1")) if host else ""

    async def _read_more(self, bound_s: float) -> bool:
        """Read once; False at the client's end. Raises ``TimeoutError``."""
        async with asyncio.timeout(bound_s):
            await readable(self.client)
        data = self.client.recv(_PIECE)
        if not data:
            self.at_eof = True
            return False
        self.first_sent = self.first_sent or time.perf_counter()
        self.early += data
        return True
