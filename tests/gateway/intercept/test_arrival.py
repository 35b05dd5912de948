from __future__ import annotations

import ssl

import pytest

from wirefault.core.sockets import Address
from wirefault.gateway.http1.heads import BadHead
from wirefault.gateway.intercept.arrival import (
    ClientProtocol,
    RequestKind,
    RequestRewriter,
    client_protocol,
    read_proxy_request,
    server_name,
    speaks_only_http2,
)


def client_hello(name: str | None) -> bytes:
    """The first bytes of Python's TLS client."""
    context = ssl.create_default_context()
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_client_hello_has_server_name():
    hello = client_hello("API.example.com")
    assert client_protocol(hello) is ClientProtocol.TLS
    assert server_name(hello) == "api.example.com"
    assert {client_protocol(hello[:end]) for end in range(len(hello))} == {ClientProtocol.UNDECIDED}


def test_client_hello_without_server_name():
    assert client_protocol(client_hello(None)) is ClientProtocol.TLS
    assert server_name(client_hello(None)) == ""


def hello_offering(*protocols: str) -> bytes:
    context, outgoing = ssl.create_default_context(), ssl.MemoryBIO()
    if protocols:
        context.set_alpn_protocols(list(protocols))
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def test_http2_only_client_hello():
    assert speaks_only_http2(hello_offering("h2"))
    assert speaks_only_http2(hello_offering("grpc-exp", "h2"))
    assert speaks_only_http2(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


@pytest.mark.parametrize(
    "start",
    [
        hello_offering("h2", "http/1.1"),
        hello_offering("http/1.1"),
        hello_offering(),
        hello_offering("h2")[:100],
        b"GET / HTTP/1.1\r\n\r\n",
        b"",
    ],
    ids=["both", "old", "none", "cut", "plain", "empty"],
)
def test_http1_capable_client_hello(start):
    assert not speaks_only_http2(start)


@pytest.mark.parametrize("end", [6, 20, 44, 60, 100])
def test_broken_client_hello_has_no_server_name(end):
    hello = client_hello("example.com")
    assert server_name(hello[:end]) == ""
    assert server_name(hello[:end] + b"\xff" * 400) == ""


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\n",
        b"POST http://a.b/ HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"M-SEARCH /x",
        b"PRI * HTTP/2.0",
        b"GET /",
    ],
)
def test_http_request_is_recognised(start):
    assert client_protocol(start) is ClientProtocol.HTTP


@pytest.mark.parametrize(
    "start", [b"", b"G", b"GET", b"GET ", b"GET ht", b"GET http:/", b"CONNECT a.b:4", b"\x16\x03\x01"]
)
def test_undecided_prefixes(start):
    assert client_protocol(start) is ClientProtocol.UNDECIDED


def test_connect_is_recognised():
    assert client_protocol(b"CONNECT a.b:443 HTTP/1.1\r\n") is ClientProtocol.CONNECT
    assert client_protocol(b"CONNECT") is ClientProtocol.UNDECIDED


@pytest.mark.parametrize(
    "start",
    [
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
        b"*1\r\n$4\r\nPING\r\n",
        b"PING\r\n",
        b"get key\r\n",
        b"EHLO me\r\n",
    ],
)
def test_other_protocols(start):
    assert client_protocol(start) is ClientProtocol.OTHER


def parsed(block: bytes):
    request, rest = read_proxy_request(block)
    assert request is not None
    return request, rest


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (b"", RequestKind.TUNNEL),
        (b"X-Tap: oneway\r\n", RequestKind.ONE_WAY),
        (b"X-Tap: x\r\n", RequestKind.TUNNEL),
    ],
)
def test_connect_names_host_and_port(header: bytes, kind: RequestKind) -> None:
    request, rest = parsed(b"CONNECT a.example:8443 HTTP/1.1\r\n" + header + b"\r\n\x16\x03\x01")
    assert (request.kind, request.target, rest) == (kind, Address("a.example", 8443), b"\x16\x03\x01")


def test_tunnel_to_ipv6() -> None:
    assert parsed(b"CONNECT [::1]:80 HTTP/1.1\r\n\r\n")[0].target == Address("::1", 80)


@pytest.mark.parametrize(
    ("target", "address", "origin", "host"),
    [
        (b"http://a.b/x?y=1", Address("a.b", 80), b"/x?y=1", b"a.b"),
        (b"http://a.b:81", Address("a.b", 81), b"/", b"a.b:81"),
        (b"HTTP://u:p@a.b/x", Address("a.b", 80), b"/x", b"a.b"),
        (b"http://a.b?y=/", Address("a.b", 80), b"/?y=/", b"a.b"),
        (b"http://[::1]:82/", Address("::1", 82), b"/", b"[::1]:82"),
    ],
)
def test_request_becomes_origin_form(target: bytes, address: Address, origin: bytes, host: bytes) -> None:
    request, _ = parsed(
        b"GET " + target + b" HTTP/1.1\r\nhost:  other\r\nProxy-Connection: keep-alive\r\n"
        b"Proxy-Authorization: Basic eDp5\r\nX-Own:  as it is \r\n\r\n"
    )
    assert (request.kind, request.target) == (RequestKind.REQUEST, address)
    assert request.head == b"GET " + origin + b" HTTP/1.1\r\nhost: " + host + b"\r\nX-Own:  as it is \r\n\r\n"


def test_equal_host_header_is_unchanged() -> None:
    request, _ = parsed(b"GET http://a.b/ HTTP/1.0\r\nHOST:a.b\r\n\r\n")
    assert request.head == b"GET / HTTP/1.0\r\nHOST:a.b\r\n\r\n"


def test_options_star_form() -> None:
    assert parsed(b"OPTIONS http://a.b HTTP/1.1\r\n\r\n")[0].head.startswith(b"OPTIONS * ")


@pytest.mark.parametrize(
    "block",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET https://a.b/ HTTP/1.1\r\n\r\n",
        b"GET http://a.b:99999/ HTTP/1.1\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\n\r\n",
        b"CONNECT a.b HTTP/1.1\r\n\r\n",
        b"\x00garbage\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
    ],
)
def test_non_proxy_requests_are_refused(block: bytes) -> None:
    with pytest.raises(BadHead):
        read_proxy_request(block)


class Elsewhere:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def rewriter(data: bytes) -> tuple[RequestRewriter, Elsewhere]:
    first, rest = parsed(data)
    elsewhere = Elsewhere()
    return RequestRewriter(first, rest, elsewhere), elsewhere


REQUESTS = (
    b"POST http://a.b/1 HTTP/1.1\r\nHost: a.b\r\nContent-Length: 3\r\n\r\nabc"
    b"POST http://a.b/2 HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nGE\r\n0\r\n\r\n"
    b"GET http://a.b/3 HTTP/1.1\r\nHost: a.b\r\n\r\n"
)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_all_requests_are_rewritten_in_any_pieces(size: int) -> None:
    first, rest = parsed(REQUESTS)
    rewriting = RequestRewriter(first, b"", Elsewhere())
    out = rewriting.begin() + b"".join(
        rewriting.feed(rest[at : at + size]) for at in range(0, len(rest), size)
    )
    assert out == REQUESTS.replace(b"http://a.b", b"")


def answer_all(rewriting: RequestRewriter) -> None:
    """The server's replies to ``REQUESTS``."""
    rewriting.follow_replies(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    rewriting.follow_replies(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nTransfer")
    rewriting.follow_replies(b"-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")


def test_unfinished_reply_keeps_server() -> None:
    other = b"GET http://c.d/ HTTP/1.1\r\nHost: c.d\r\n\r\n"
    rewriting, elsewhere = rewriter(b"GET http://a.b/ HTTP/1.1\r\nHost: a.b\r\n\r\n" + other)
    rewriting.begin()
    rewriting.follow_replies(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhal")
    assert elsewhere.calls == 0
    rewriting.follow_replies(b"f")
    assert elsewhere.calls == 1


def test_client_sending_too_far_ahead_is_paused() -> None:
    holds = []
    first, rest = parsed(
        b"GET http://a.b/ HTTP/1.1\r\nHost: a.b\r\n\r\nGET http://c.d/ HTTP/1.1\r\nHost: c.d\r\n\r\n"
    )
    rewriting = RequestRewriter(first, rest, Elsewhere(), lambda: holds.append(1))
    rewriting.begin()
    rewriting.feed(b"x" * 1000)
    assert not holds
    rewriting.feed(b"x" * 300_000)
    assert holds


def test_request_for_other_server_waits() -> None:
    more = b"GET http://c.d/ HTTP/1.1\r\nHost: c.d\r\n\r\nGET http://c.d/2 HTTP/1.1\r\nHost: c.d\r\n\r\n"
    rewriting, elsewhere = rewriter(REQUESTS + more)
    assert rewriting.begin() == REQUESTS.replace(b"http://a.b", b"")
    assert elsewhere.calls == 0 and rewriting.next is not None
    answer_all(rewriting)
    assert elsewhere.calls == 1
    assert rewriting.feed(b"GET http://c.d/3 HTTP/1.1\r\n") == b""
    assert rewriting.next.target == Address("c.d", 80)
    assert rewriting.begin() == more.replace(b"http://c.d", b"")
    assert rewriting.feed(b"\r\n") == b"GET /3 HTTP/1.1\r\n\r\n"


def test_nothing_is_rewritten_after_upgrade() -> None:
    upgrade = b"GET http://a.b/ HTTP/1.1\r\nHost: a.b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    rewriting, _ = rewriter(upgrade + b"\x81\x00GET http://a.b/ HTTP/1.1\r\n\r\n")
    assert rewriting.begin().endswith(b"\r\n\r\n\x81\x00GET http://a.b/ HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("bad", [b"nonsense\r\n\r\n", b"CONNECT a.b:1 HTTP/1.1\r\n\r\n"])
def test_bad_request_ends_rewriting(bad: bytes) -> None:
    rewriting, elsewhere = rewriter(REQUESTS + bad)
    assert rewriting.begin() == REQUESTS.replace(b"http://a.b", b"")
    assert rewriting.bad is not None and elsewhere.calls == 0
    answer_all(rewriting)
    assert elsewhere.calls == 1
