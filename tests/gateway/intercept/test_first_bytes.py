from __future__ import annotations

import ssl

import pytest

from wirefault.gateway.intercept.arrival import ClientProtocol, client_protocol, server_name


def client_hello(name: str | None) -> bytes:
    """As Python's own TLS client begins."""
    context = ssl.create_default_context()
    context.check_hostname = False
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


def test_a_tls_client_is_known_by_its_whole_hello_and_names_its_host():
    hello = client_hello("API.example.com")
    assert client_protocol(hello) is ClientProtocol.TLS
    assert server_name(hello) == "api.example.com"
    assert {client_protocol(hello[:end]) for end in range(len(hello))} == {ClientProtocol.UNDECIDED}


def test_a_tls_client_may_name_no_host():
    assert client_protocol(client_hello(None)) is ClientProtocol.TLS
    assert server_name(client_hello(None)) == ""


@pytest.mark.parametrize("end", [6, 20, 44, 60, 100])
def test_a_hello_that_is_cut_or_mad_names_no_host(end):
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
def test_a_request_is_told_from_all_else(start):
    assert client_protocol(start) is ClientProtocol.HTTP


@pytest.mark.parametrize("start", [b"", b"G", b"GET", b"GET ", b"GET ht", b"GET http:/", b"\x16\x03\x01"])
def test_too_few_bytes_decide_nothing(start):
    assert client_protocol(start) is ClientProtocol.UNDECIDED


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
def test_what_speaks_neither_tls_nor_http_is_other(start):
    assert client_protocol(start) is ClientProtocol.OTHER
