"""Start and end of connections whose TLS the gateway terminates."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gateway.lab import Lab, dial, gateway
from tests.gateway.scripted import GET, ScriptedUpstream, armed, sized
from tests.gateway.secure_socket import SecureSocket, trusting
from tests.support import PATIENCE_S, until
from tests.upstream import read_all
from wirefault.core.sockets import Address
from wirefault.history.events import InterceptionFailed

CLOSES = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end"
pytestmark = pytest.mark.usefixtures("scripted_faults")


@pytest.fixture
def lab(tmp_path: Path, service: ScriptedUpstream) -> Iterator[Lab]:
    with gateway(tmp_path, search=service.upstream.address, intercepts=True) as lab:
        lab.begin()
        yield lab


def plain_address(lab: Lab) -> Address:
    return lab.topology.gateways["search"]


def secure(lab: Lab) -> SecureSocket:
    return SecureSocket(dial(plain_address(lab)), lab.pem)


def warnings_of(lab: Lab) -> list[str]:
    """The warnings in info.log."""
    path = lab.folder / "logs" / "info.log"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line["message"] for line in map(json.loads, lines) if line["event"] == "warning"]


@pytest.mark.parametrize("reply", [CLOSES, sized(b"whole", b"Connection: close")])
def test_complete_reply_has_close_notify(lab: Lab, service: ScriptedUpstream, reply: bytes) -> None:
    service.reply = reply
    with secure(lab) as client:
        client.sendall(GET)
        assert read_all(client) == reply
        assert client.has_close_notify


@pytest.mark.parametrize("does", ["cut", "lose reply", "garbage"])
def test_cut_reply_has_no_close_notify(lab: Lab, does: str) -> None:
    lab.begin(faults=armed(does))
    with secure(lab) as client:
        client.sendall(GET)
        read_all(client)
        assert not client.has_close_notify


def test_reply_cut_by_upstream_has_no_close_notify(lab: Lab, service: ScriptedUpstream) -> None:
    service.reply = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 99\r\n\r\npart"
    with secure(lab) as client:
        client.sendall(GET)
        assert read_all(client) == service.reply
        assert not client.has_close_notify


def test_reset_follows_written_data(lab: Lab) -> None:
    lab.begin(faults=armed("reset"))
    with secure(lab) as client:
        client.sendall(GET)
        with pytest.raises(ConnectionResetError):
            read_all(client)


@pytest.mark.parametrize("by_tcp", [False, True])
def test_half_closed_client_still_gets_reply(lab: Lab, service: ScriptedUpstream, by_tcp: bool) -> None:
    with secure(lab) as client:
        client.sendall(GET)
        client.plain.shutdown(socket.SHUT_WR) if by_tcp else client.end_by_tls()
        assert read_all(client) == service.reply
        assert client.has_close_notify


@pytest.mark.parametrize("by_tcp", [False, True])
def test_half_closed_client_with_reply_gets_end(lab: Lab, service: ScriptedUpstream, by_tcp: bool) -> None:
    with secure(lab) as client:
        client.sendall(GET)
        assert read_all(client, len(service.reply)) == service.reply
        client.plain.shutdown(socket.SHUT_WR) if by_tcp else client.end_by_tls()
        assert read_all(client) == b""
        assert client.has_close_notify


@pytest.mark.parametrize("by_tcp", [False, True])
def test_abandoned_reply_is_not_closed_cleanly(lab: Lab, by_tcp: bool) -> None:
    lab.begin(faults=armed("hang"))
    with secure(lab) as client:
        client.sendall(GET)
        client.plain.shutdown(socket.SHUT_WR) if by_tcp else client.end_by_tls()
        assert read_all(client) == b""
        assert not client.has_close_notify


def test_handshake_byte_by_byte(lab: Lab, service: ScriptedUpstream) -> None:
    class Slow(socket.socket):
        def sendall(self, data: bytes, flags: int = 0) -> None:
            for at in range(len(data)):
                super().sendall(data[at : at + 1], flags)

    address = plain_address(lab)
    with Slow() as plain:
        plain.settimeout(PATIENCE_S)
        plain.connect((address.host, address.port))
        client = SecureSocket(plain, lab.pem)
        client.sendall(GET)
        assert read_all(client, len(service.reply)) == service.reply


def test_plain_http_on_tls_link(lab: Lab, service: ScriptedUpstream) -> None:
    with dial(plain_address(lab)) as client:
        for piece in (b"P", b"R", b"OPFIND / HTTP/1.1\r\nHost: x\r\n\r\n"):
            client.sendall(piece)
        assert read_all(client, len(service.reply)) == service.reply
    assert lab.exchange().method == "PROPFIND"


def test_record_shows_fresh_and_kept_alive_connections(lab: Lab, service: ScriptedUpstream) -> None:
    with secure(lab) as client:
        for _ in range(2):
            client.sendall(GET)
            read_all(client, len(service.reply))
    with dial(plain_address(lab)) as client:
        client.sendall(GET)
        read_all(client, len(service.reply))
    assert [exchange.tls for exchange in lab.exchanges(3)] == ["fresh", "kept", ""]


@pytest.mark.parametrize("by_tls", [True, False])
def test_http_2_is_refused_with_http_1_1_required(lab: Lab, by_tls: bool) -> None:
    for _ in range(2):
        with secure(lab) if by_tls else dial(plain_address(lab)) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            frames = read_all(client)
    assert frames[:9] == b"\0\0\0\x04\0\0\0\0\0"  # SETTINGS
    assert frames[9:] == b"\0\0\x08\x07\0\0\0\0\0" + bytes(4) + b"\0\0\0\x0d"  # GOAWAY, HTTP_1_1_REQUIRED
    (message,) = until(lambda: warnings_of(lab))
    assert "HTTP/2" in message and "search" in message


def test_untrusting_client_is_reported_once(lab: Lab) -> None:
    for _ in range(2):
        with pytest.raises(ssl.SSLCertVerificationError), dial(plain_address(lab)) as plain:
            ssl.create_default_context().wrap_socket(plain, server_hostname="a.example")
    (message,) = until(lambda: warnings_of(lab))
    assert "unknown ca" in message and "search" in message


def test_untrusting_client_is_recorded_as_failed_interception(lab: Lab) -> None:
    lab.begin()
    with pytest.raises(ssl.SSLCertVerificationError), dial(plain_address(lab)) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname="a.example")
    failed = lab.exchanges()[-1]
    assert isinstance(failed, InterceptionFailed)
    assert (failed.link, failed.why, failed.episode) == ("search", "authority_refused", "e1")
    assert "unknown ca" in failed.text and f"--pass {failed.host}" in failed.text


def failures_of(lab: Lab) -> list[str]:
    assert lab.settle()["settled"]
    return [event.why for event in lab.recorded() if isinstance(event, InterceptionFailed)]


def test_close_at_certificate_is_failed_interception(lab: Lab) -> None:
    lab.begin()
    secure(lab).close()
    failed = lab.exchanges()[-1]
    assert isinstance(failed, InterceptionFailed) and failed.why == "closed_at_certificate"
    assert f"--pass {failed.host}" in failed.text


def test_close_during_handshake_is_failed_interception(lab: Lab) -> None:
    lab.begin()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting(lab.pem).wrap_bio(incoming, outgoing, server_hostname="search.test").do_handshake()
    with dial(plain_address(lab)) as client:
        client.sendall(outgoing.read())
        assert client.recv(1)
    assert lab.exchanges()[-1].event == "interception_failed"


@pytest.mark.parametrize("by_tcp", [False, True])
def test_close_after_request_is_not_failed_interception(
    lab: Lab, service: ScriptedUpstream, by_tcp: bool
) -> None:
    lab.begin()
    with secure(lab) as client:
        client.sendall(GET)
        read_all(client, len(service.reply))
        client.plain.shutdown(socket.SHUT_WR) if by_tcp else client.end_by_tls()
    assert failures_of(lab) == []


def test_client_staying_until_attempt_end_is_not_failed_interception(lab: Lab) -> None:
    lab.begin()
    with secure(lab) as client:
        assert failures_of(lab) == []
        read_all(client)
    assert failures_of(lab) == []


def test_broken_handshake_is_not_failed_interception(lab: Lab) -> None:
    lab.begin()
    with dial(plain_address(lab)) as client:
        client.sendall(b"\x16\x03\x01\x00\x05nonsense")
        read_all(client)
    until(lambda: warnings_of(lab))
    assert lab.settle()["settled"] and not lab.recorded()


def test_delayed_handshake_ends_with_attempt(lab: Lab) -> None:
    with dial(plain_address(lab)) as client:
        client.sendall(b"\x16\x03\x01")
        until(lambda: lab.control("GET", "/lanes/0").json()["open"])
        assert lab.settle(60) == {"settled": True, "open": 0}
        assert read_all(client) == b""


def test_broken_tls_ends_with_alert(lab: Lab) -> None:
    with dial(plain_address(lab)) as client:
        client.sendall(b"\x16\x03\x01\x00\x05nonsense")
        assert read_all(client)[:1] == b"\x15"


def test_session_resumption(lab: Lab, service: ScriptedUpstream) -> None:
    context, reused, session = trusting(lab.pem), [], None
    for _ in range(2):
        with (
            dial(plain_address(lab)) as plain,
            context.wrap_socket(plain, server_hostname="a.example", session=session) as client,
        ):
            client.sendall(GET)
            assert read_all(client, len(service.reply)) == service.reply
            session = client.session
            reused.append(client.session_reused)
    assert reused == [False, True]


def test_no_authority_without_interception(tmp_path: Path) -> None:
    with gateway(tmp_path) as lab:
        assert lab.control("GET", "/authority").status_code == 404


def test_handshake_after_gateway_end_gets_no_answer(lab: Lab) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting(lab.pem).wrap_bio(incoming, outgoing, server_hostname="search.test").do_handshake()
    hello = outgoing.read()
    with dial(plain_address(lab)) as client, ThreadPoolExecutor() as pool:
        client.sendall(hello[:1])
        settling = pool.submit(lab.settle, 60)
        assert client.recv(1) == b""  # it is being settled
        client.sendall(hello[1:])
        client.shutdown(socket.SHUT_WR)
        assert settling.result()["settled"]
