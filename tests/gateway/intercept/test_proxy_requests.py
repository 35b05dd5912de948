from __future__ import annotations

import pytest

from wirefault.core.sockets import Address
from wirefault.gateway.http1.heads import BadHead
from wirefault.gateway.intercept.arrival import RequestKind, RequestRewriter, read_proxy_request


def asked(block: bytes):
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
    request, rest = asked(b"CONNECT a.example:8443 HTTP/1.1\r\n" + header + b"\r\n\x16\x03\x01")
    assert (request.kind, request.target, rest) == (kind, Address("a.example", 8443), b"\x16\x03\x01")


def test_a_tunnel_may_lead_to_an_address_of_ipv6() -> None:
    assert asked(b"CONNECT [::1]:80 HTTP/1.1\r\n\r\n")[0].target == Address("::1", 80)


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
def test_a_request_is_put_into_the_form_that_a_server_gets(
    target: bytes, address: Address, origin: bytes, host: bytes
) -> None:
    request, _ = asked(
        b"GET " + target + b" HTTP/1.1\r\nhost:  other\r\nProxy-Connection: keep-alive\r\n"
        b"Proxy-Authorization: Basic eDp5\r\nX-Own:  as it is \r\n\r\n"
    )
    assert (request.kind, request.target) == (RequestKind.REQUEST, address)
    assert request.head == b"GET " + origin + b" HTTP/1.1\r\nhost: " + host + b"\r\nX-Own:  as it is \r\n\r\n"


def test_a_host_header_that_says_the_same_stays_as_it_is() -> None:
    request, _ = asked(b"GET http://a.b/ HTTP/1.0\r\nHOST:a.b\r\n\r\n")
    assert request.head == b"GET / HTTP/1.0\r\nHOST:a.b\r\n\r\n"


def test_options_for_a_whole_server_keep_their_star() -> None:
    assert asked(b"OPTIONS http://a.b HTTP/1.1\r\n\r\n")[0].head.startswith(b"OPTIONS * ")


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
def test_what_no_proxy_is_asked_for_is_refused(block: bytes) -> None:
    with pytest.raises(BadHead):
        read_proxy_request(block)


class Elsewhere:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def rewriter(data: bytes) -> tuple[RequestRewriter, Elsewhere]:
    first, rest = asked(data)
    elsewhere = Elsewhere()
    return RequestRewriter(first, rest, elsewhere), elsewhere


REQUESTS = (
    b"POST http://a.b/1 HTTP/1.1\r\nHost: a.b\r\nContent-Length: 3\r\n\r\nabc"
    b"POST http://a.b/2 HTTP/1.1\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nGE\r\n0\r\n\r\n"
    b"GET http://a.b/3 HTTP/1.1\r\nHost: a.b\r\n\r\n"
)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_all_requests_of_a_connection_are_rewritten_however_they_come(size: int) -> None:
    first, rest = asked(REQUESTS)
    rewriting = RequestRewriter(first, b"", Elsewhere())
    out = rewriting.begin() + b"".join(
        rewriting.feed(rest[at : at + size]) for at in range(0, len(rest), size)
    )
    assert out == REQUESTS.replace(b"http://a.b", b"")


def test_a_request_for_another_server_waits_for_it_with_all_that_follows() -> None:
    more = b"GET http://c.d/ HTTP/1.1\r\nHost: c.d\r\n\r\nGET http://c.d/2 HTTP/1.1\r\nHost: c.d\r\n\r\n"
    rewriting, elsewhere = rewriter(REQUESTS + more)
    assert rewriting.begin() == REQUESTS.replace(b"http://a.b", b"")
    assert elsewhere.calls == 1 and rewriting.next is not None
    assert rewriting.feed(b"GET http://c.d/3 HTTP/1.1\r\n") == b""
    assert rewriting.next.target == Address("c.d", 80)
    assert rewriting.begin() == more.replace(b"http://c.d", b"")
    assert rewriting.feed(b"\r\n") == b"GET /3 HTTP/1.1\r\n\r\n"


def test_from_an_upgrade_on_nothing_is_rewritten() -> None:
    upgrade = b"GET http://a.b/ HTTP/1.1\r\nHost: a.b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    rewriting, _ = rewriter(upgrade + b"\x81\x00GET http://a.b/ HTTP/1.1\r\n\r\n")
    assert rewriting.begin().endswith(b"\r\n\r\n\x81\x00GET http://a.b/ HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("bad", [b"nonsense\r\n\r\n", b"CONNECT a.b:1 HTTP/1.1\r\n\r\n"])
def test_a_bad_request_ends_what_can_be_sent_on(bad: bytes) -> None:
    rewriting, elsewhere = rewriter(REQUESTS + bad)
    assert rewriting.begin() == REQUESTS.replace(b"http://a.b", b"")
    assert rewriting.bad is not None and elsewhere.calls == 1
