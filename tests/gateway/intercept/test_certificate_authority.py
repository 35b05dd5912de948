"""Certificates of intercepted hosts: strict clients accept them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest
from cryptography import x509

from wirefault.gateway.intercept.certificate_authority import Authority

HOSTS = ["api.example", "127.0.0.1", "::1", "my_service", "xn--bcher-kva.example", "a" * 60 + ".example"]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority(lambda: datetime.now(UTC))


def handshake(authority: Authority, served: str, requested: str) -> ssl.SSLObject:
    """A client that trusts the authority alone meets the server of ``served``. Raises ``ssl.SSLError``."""
    trusting = ssl.create_default_context(cadata=authority.pem)
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does from 3.13 on
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=requested)
    server = authority.context(served).wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server, client, server):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client


@pytest.mark.parametrize("host", HOSTS)
def test_strict_client_accepts_certificate(authority, host):
    assert handshake(authority, host, host).selected_alpn_protocol() == "http/1.1"


def test_client_gets_certificate_of_named_host(authority):
    client = handshake(authority, "one.example", "Two.Example")
    assert client.getpeercert()["subjectAltName"] == (("DNS", "two.example"),)


def test_uncertifiable_name_is_refused(authority):
    with pytest.raises(ValueError):
        authority.context("b\u00fccher.example")


def test_other_authority_is_not_trusted(authority):
    other = Authority(lambda: datetime.now(UTC))
    trusting = ssl.create_default_context(cadata=other.pem)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname="a.example")
    server = authority.context("a.example").wrap_bio(to_server, to_client, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    with pytest.raises(ssl.SSLCertVerificationError):
        client.do_handshake()


def test_tls_context_is_cached_by_host(authority):
    assert authority.context("once.example") is authority.context("once.example")


def test_certificate_validity_period():
    made = datetime(2026, 1, 2, tzinfo=UTC)
    leaf = x509.load_pem_x509_certificate(Authority(lambda: made).mint("a.example")[0])
    assert leaf.not_valid_before_utc < made < leaf.not_valid_after_utc
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days <= 397
