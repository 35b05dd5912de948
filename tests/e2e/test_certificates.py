"""Certificates on both ways: the subject trusts the gateway's, the gateway the upstream's, for its name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.test_exec import Ran
from tests.upstream import Upstream, requests_of
from wirefault.core.sockets import Address
from wirefault.gateway.intercept.certificate_authority import Authority
from wirefault.history.events import LinkOpened

pytestmark = pytest.mark.slow


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Address]:
    """Has a certificate for ``localhost`` alone."""
    authority = Authority(lambda: datetime.now(UTC))
    (tmp_path / "upstreams.pem").write_text(authority.pem)

    def serve(connection) -> None:
        with authority.context("localhost").wrap_socket(connection, server_side=True) as encrypted:
            for _ in requests_of(encrypted):
                encrypted.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\nhello over TLS")

    with Upstream(serve) as running:
        yield running.address


@pytest.mark.parametrize("tap", ["namespace", "proxy"])
def test_local_server_is_called_by_its_name(
    tmp_path: Path, upstream: Address, tap: str, request: pytest.FixtureRequest
) -> None:
    if tap == "namespace":
        request.getfixturevalue("namespaces")
    url = f"https://localhost:{upstream.port}"
    environ = {"SSL_CERT_FILE": str(tmp_path / "upstreams.pem")}
    ran = Ran(tmp_path, "--tap", tap, "--", "curl", "-sS", f"{url}/", environ=environ)
    assert "hello over TLS" in ran.stdout + ran.stderr
    assert [event.link.upstream for event in ran.events() if isinstance(event, LinkOpened)] == [url]
