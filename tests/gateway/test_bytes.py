"""Bytes pass the gateway unchanged in both directions."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.lab import Lab, dial, gateway
from tests.support import examples
from tests.upstream import Upstream, read_all
from wirefault.core.sockets import Address

METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "PROPFIND", "BREW"]
text = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=12)
payloads = st.one_of(st.binary(max_size=200), st.integers(1, 300_000).map(lambda size: b"\r\n0" * size))


@dataclass
class WireExchange:
    """One request and its reply; ``ends``: the upstream closes after it."""

    request: bytes
    reply: bytes
    ends: bool = False


def chunked(data: bytes, size: int, trailer: bytes) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    body = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(part), part) for part in parts)
    return body + b"0\r\n" + trailer + b"\r\n"


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """The framing header and the body on the wire."""
    data = draw(payloads)
    if draw(st.booleans()):
        return b"Content-Length: %d\r\n" % len(data), data
    trailer = draw(st.sampled_from([b"", b"X-Check: 1\r\n"]))
    return b"transfer-encoding: chunked\r\n", chunked(data, draw(st.integers(1000, 90_000)), trailer)


@st.composite
def wire_exchanges(draw: st.DrawFn) -> WireExchange:
    method = draw(st.sampled_from(METHODS))
    headers = "".join(
        f"X-{name.encode().hex()}:{value} \r\n"
        for name, value in draw(st.lists(st.tuples(text, text), max_size=3))
    )
    framing, body = draw(bodies()) if method in ("POST", "PUT", "BREW") else (b"", b"")
    path = draw(st.from_regex(r"[a-z0-9%&=?/.~-]{0,20}", fullmatch=True))
    request = f"{method} /{path} HTTP/1.1\r\nhOsT: @\r\n{headers}".encode()
    return WireExchange(request + framing + b"\r\n" + body, *draw(replies(method)))


@st.composite
def replies(draw: st.DrawFn, method: str) -> tuple[bytes, bool]:
    status = draw(st.sampled_from([b"200 OK", b"204 No Content", b"304 Not Modified", b"500 ", b"404"]))
    interim = draw(st.sampled_from([b"", b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"]))
    framing, body = draw(bodies())
    ends = draw(st.integers(0, 9)) == 0
    if ends:  # in order, with or without framing
        framing = draw(st.sampled_from([b"", framing])) + b"Connection: close\r\n"
    if method == "HEAD" or status[:3] in (b"204", b"304"):
        body = b""
    return (
        interim + b"HTTP/1.1 " + status + b"\r\nSet-Cookie: a\r\nset-cookie:b\r\n" + framing + b"\r\n" + body,
        ends,
    )


class Scripted:
    """An upstream that reads as many bytes as each request has and gives its reply."""

    def __init__(self) -> None:
        self.exchanges: list[WireExchange] = []
        self.pieces = 1 << 20
        self.heard = b""
        self.upstream = Upstream(self.serve)

    def serve(self, connection: socket.socket) -> None:
        for exchange in self.exchanges:
            self.heard += read_all(connection, len(exchange.request), exactly=True)
            for at in range(0, len(exchange.reply), self.pieces):
                connection.sendall(exchange.reply[at : at + self.pieces])
            if exchange.ends:
                return
        connection.recv(1)

    def hold(self, address: Address, pipelined: bool) -> tuple[bytes, bytes]:
        """Return the bytes that the upstream and the client got on the connection."""
        self.heard, got = b"", b""
        with dial(address) as client:
            if pipelined:
                client.sendall(b"".join(exchange.request for exchange in self.exchanges))
            for exchange in self.exchanges:
                if not pipelined:
                    client.sendall(exchange.request)
                got += read_all(client, len(exchange.reply))
            if self.exchanges[-1].ends:
                got += client.recv(1)
        return self.heard, got


@pytest.fixture(scope="module")
def scripted() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.upstream.close()


@pytest.fixture(scope="module", params=["plain", "tls"])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, scripted: Scripted
) -> Iterator[Lab]:
    folder, intercepts = tmp_path_factory.mktemp("bytes"), request.param == "tls"
    with gateway(folder, weather=scripted.upstream.address, intercepts=intercepts) as lab:
        yield lab


@settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(wire_exchanges(), min_size=1, max_size=4), st.sampled_from([7000, 1 << 20]), st.booleans())
def test_relayed_connection_equals_direct_connection(
    lab: Lab, scripted: Scripted, whole: list[WireExchange], pieces: int, pipelined: bool
) -> None:
    end = next((at for at, exchange in enumerate(whole) if exchange.ends), len(whole))
    authority = str(scripted.upstream.address).encode()
    scripted.exchanges = [
        WireExchange(t.request.replace(b"@", authority, 1), t.reply, t.ends) for t in whole[: end + 1]
    ]
    scripted.pieces = pieces
    direct = scripted.hold(scripted.upstream.address, pipelined)
    assert scripted.hold(lab.address("weather"), pipelined) == direct
