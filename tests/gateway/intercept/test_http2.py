"""Clients that speak only HTTP/2 on a link's own address are passed on unread, recorded and reported."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.intercept.test_arrival import hello_offering
from tests.gateway.lab import Lab, dial, gateway
from tests.gateway.secure_socket import trusting
from tests.support import PATIENCE_S, until
from tests.upstream import Upstream, read_all
from wirefault.core.sockets import Address
from wirefault.gateway.intercept.certificate_authority import Authority
from wirefault.history.events import InterceptionFailed, WentPastLab
from wirefault.wiring.links import Link, Links

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes.fromhex("000000040000000000")
START = PREFACE + SETTINGS
INTERCEPTS = pytest.mark.parametrize("intercepts", [False, True])
FAULTS = "{faults: [{fault: lose_reply, links: shop}]}"
_NODE_SERVER = """
const http2 = require("http2"), fs = require("fs");
const answer = (request, response) => response.end(request.httpVersion + " " + request.url);
const [key, cert] = process.argv.slice(1).map(file => fs.readFileSync(file));
const server = key ? http2.createSecureServer({key, cert}, answer) : http2.createServer(answer);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""


def settings(connection: socket.socket) -> None:
    """A server that greets each client of HTTP/2 and reads to the end."""
    assert read_all(connection, len(START), exactly=True) == START
    connection.sendall(SETTINGS)
    read_all(connection)


@contextmanager
def lab_before(folder: Path, upstream: str, *, intercepts: bool, **run: Any) -> Iterator[Lab]:
    links = Links([Link("shop", upstream)])
    with gateway(folder, links=links, intercepts=intercepts) as lab:
        lab.begin(**run)
        yield lab


def past_lab(lab: Lab) -> list[WentPastLab]:
    assert lab.settle()["settled"]
    return [event for event in lab.recorded() if isinstance(event, WentPastLab)]


@INTERCEPTS
@pytest.mark.parametrize("in_pieces", [False, True])
def test_preface_is_passed_on_and_recorded_by_bytes(
    tmp_path: Path, intercepts: bool, in_pieces: bool
) -> None:
    with (
        Upstream(settings) as upstream,
        lab_before(tmp_path, upstream.address.url, intercepts=intercepts) as lab,
    ):
        with dial(lab.topology.gateways["shop"]) as client:
            for piece in [START[:2], START[2:30], START[30:]] if in_pieces else [START]:
                client.sendall(piece)
            assert read_all(client, len(SETTINGS)) == SETTINGS
        [past] = past_lab(lab)
    assert (past.link, past.only_http2, past.episode, past.attempt) == ("shop", True, "e1", 1)
    assert (past.sent, past.received) == (len(START), len(SETTINGS))
    assert (past.host, past.port) == (upstream.address.host, upstream.address.port)
    assert "only HTTP/2" in past.sentence and "make it speak HTTP/1.1" in past.sentence


@INTERCEPTS
def test_always_on_fault_does_not_act(tmp_path: Path, intercepts: bool) -> None:
    with (
        Upstream(settings) as upstream,
        lab_before(tmp_path, upstream.address.url, intercepts=intercepts, faults=FAULTS) as lab,
        dial(lab.topology.gateways["shop"]) as client,
    ):
        client.sendall(START)
        assert read_all(client, len(SETTINGS)) == SETTINGS
        client.close()
        assert len(past_lab(lab)) == 1


def test_tunnel_ends_with_its_attempt(tmp_path: Path) -> None:
    with (
        Upstream(settings) as upstream,
        lab_before(tmp_path, upstream.address.url, intercepts=False) as lab,
        dial(lab.topology.gateways["shop"]) as client,
    ):
        client.sendall(START)
        assert read_all(client, len(SETTINGS)) == SETTINGS
        assert lab.settle(PATIENCE_S) == {"settled": True, "open": 0}
        with suppress(ConnectionResetError):
            assert read_all(client) == b""
        assert len(past_lab(lab)) == 1


def test_megabytes_pass_to_slow_client(tmp_path: Path) -> None:
    size = 8 << 20

    def flood(connection: socket.socket) -> None:
        read_all(connection, len(START), exactly=True)
        connection.sendall(b"x" * size)
        read_all(connection)

    with (
        Upstream(flood) as upstream,
        lab_before(tmp_path, upstream.address.url, intercepts=False) as lab,
        dial(lab.topology.gateways["shop"]) as client,
    ):
        client.sendall(START)
        assert len(read_all(client, size)) == size
        client.close()
        assert [past.received for past in past_lab(lab)] == [size]


def test_end_of_server_reaches_client(tmp_path: Path) -> None:
    with (
        Upstream(lambda connection: read_all(connection, len(START))) as upstream,
        lab_before(tmp_path, upstream.address.url, intercepts=False) as lab,
        dial(lab.topology.gateways["shop"]) as client,
    ):
        client.sendall(START)
        assert read_all(client) == b""


def test_unreachable_server_resets_client(tmp_path: Path) -> None:
    with Upstream(settings) as upstream:
        address = upstream.address
    with (
        lab_before(tmp_path, address.url, intercepts=False) as lab,
        dial(lab.topology.gateways["shop"]) as client,
    ):
        client.sendall(START)
        with pytest.raises(ConnectionResetError):
            read_all(client)


def test_http1_on_same_link_is_read(tmp_path: Path) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with (
        Upstream(answer) as upstream,
        lab_before(tmp_path, upstream.address.url, intercepts=False) as lab,
        dial(lab.topology.gateways["shop"]) as client,
    ):
        for piece in (b"PR", b"OPFIND / HTTP/1.1\r\nHost: x\r\n\r\n"):
            client.sendall(piece)
        assert read_all(client).startswith(b"HTTP/1.1 200 ")
        assert lab.exchange().method == "PROPFIND"


def test_incomplete_preface_is_refused_in_time(tmp_path: Path) -> None:
    links = Links([Link("shop", "http://127.0.0.1:9")])
    with (
        gateway(tmp_path, links=links, head_timeout=0.1) as lab,
        dial(lab.topology.gateways["shop"]) as client,
    ):
        client.sendall(b"PRI")
        assert read_all(client).startswith(b"HTTP/1.1 408 ")


def test_end_to_end_tls_passes_through_plain_link(tmp_path: Path) -> None:
    hello = hello_offering("h2")

    def serve(connection: socket.socket) -> None:
        assert read_all(connection, len(hello), exactly=True) == hello
        connection.sendall(b"server hello")
        read_all(connection)

    with (
        Upstream(serve) as upstream,
        lab_before(tmp_path, f"https://{upstream.address}", intercepts=False) as lab,
    ):
        with dial(lab.topology.gateways["shop"]) as client:
            for piece in (hello[:7], hello[7:]):
                client.sendall(piece)
            assert read_all(client, 12) == b"server hello"
        [past] = past_lab(lab)
        assert (past.sent, past.received) == (len(hello), 12)


def test_terminated_tls_offers_http2_to_http2_only_client(tmp_path: Path) -> None:
    with (
        Upstream(settings) as upstream,
        lab_before(tmp_path, upstream.address.url, intercepts=True) as lab,
    ):
        context = trusting(lab.pem)
        context.set_alpn_protocols(["h2"])
        with (
            dial(lab.topology.gateways["shop"]) as plain,
            context.wrap_socket(plain, server_hostname="grpc.example") as client,
        ):
            assert client.selected_alpn_protocol() == "h2"
            client.sendall(START)
            assert read_all(client, len(SETTINGS)) == SETTINGS
        [past] = past_lab(lab)
        assert (past.sent, past.received) == (len(START), len(SETTINGS))


def test_untrusted_server_is_lab_failure(tmp_path: Path) -> None:
    of_upstream = Authority(lambda: datetime.now(UTC))

    def serve(connection: socket.socket) -> None:
        of_upstream.context("127.0.0.1").wrap_socket(connection, server_side=True)

    with (
        Upstream(serve) as upstream,
        lab_before(tmp_path, f"https://{upstream.address}", intercepts=False) as lab,
        dial(lab.topology.gateways["shop"]) as client,
    ):
        client.sendall(START)
        with pytest.raises(ConnectionResetError):
            read_all(client)
        until(lambda: [e.why for e in lab.recorded() if isinstance(e, InterceptionFailed)])
        assert [e.why for e in lab.recorded() if isinstance(e, InterceptionFailed)] == ["upstream_untrusted"]


@contextmanager
def node_server(folder: Path, authority: Authority | None = None) -> Iterator[Address]:
    """A real server of HTTP/2, with TLS if there is an authority."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    files = []
    if authority is not None:
        for name, data in zip(("cert.pem", "key.pem"), authority.mint("127.0.0.1"), strict=True):
            (folder / name).write_bytes(data)
        files = [str(folder / "key.pem"), str(folder / "cert.pem")]
    with subprocess.Popen([node, "-e", _NODE_SERVER, *files], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield Address("127.0.0.1", int(server.stdout.readline()))
        finally:
            server.kill()


def curl(*arguments: str) -> str:
    program = shutil.which("curl")
    if (
        program is None
        or "HTTP2"
        not in subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    ):
        pytest.skip("needs curl with HTTP/2")
    done = subprocess.run(
        [program, "--silent", "--show-error", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
@INTERCEPTS
def test_real_h2c_client_and_server(tmp_path: Path, intercepts: bool) -> None:
    with (
        node_server(tmp_path) as address,
        lab_before(tmp_path, address.url, intercepts=intercepts, faults=FAULTS) as lab,
    ):
        url = f"http://{lab.topology.gateways['shop']}/one"
        assert curl("--http2-prior-knowledge", url) == "2.0 /one"
        [past] = past_lab(lab)
    assert past.sent and past.received


@pytest.mark.slow
def test_real_http2_server_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(lambda: datetime.now(UTC))
    (tmp_path / "ca.pem").write_text(authority.pem, encoding="ascii")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with (
        node_server(tmp_path, authority) as address,
        lab_before(tmp_path, f"https://{address}", intercepts=False) as lab,
    ):
        url = f"http://{lab.topology.gateways['shop']}/one"
        assert curl("--http2-prior-knowledge", url) == "2.0 /one"
        assert len(past_lab(lab)) == 1
