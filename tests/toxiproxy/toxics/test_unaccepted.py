"""unaccepted: new connections wait in a full queue."""

import socket

import pytest

from tests.conformance.servers import Line, embedded_server
from tests.support import PATIENCE_S
from tests.toxiproxy.toxics.test_signatures import (
    FRESH,
    KEPT,
    NEVER_ARRIVED,
    connection_shows,
    failed,
    seen,
)
from wirefault.toxiproxy.client import ToxiproxyClient

SHORT_S = 0.3


@pytest.fixture
def line():
    with (
        embedded_server() as url,
        ToxiproxyClient(url) as client,
        socket.create_server(("127.0.0.1", 0)) as end,
    ):
        upstream = f"127.0.0.1:{end.getsockname()[1]}"
        end.settimeout(PATIENCE_S)
        line = Line(client, client.ensure_proxy("full", "127.0.0.1:0", upstream), listener=end)
        yield line
        line.close()


def address(line):
    host, _, port = line.state.listen.rpartition(":")
    return host, int(port)


def test_connect_limit_ends_each_new_connection(line):
    line.add("unaccepted", "downstream")
    for _ in range(3):
        with pytest.raises(TimeoutError):
            socket.create_connection(address(line), SHORT_S)


def test_open_connection_continues(line):
    client, server = line.open()
    line.add("unaccepted", "downstream")
    client.sendall(b"asked")
    server.sendall(b"answer")
    assert (server.read(5), client.read(6)) == (b"asked", b"answer")


def test_waiting_client_is_accepted_after_removal(line):
    line.add("unaccepted", "downstream")
    with socket.socket() as waiting:
        waiting.setblocking(False)
        assert waiting.connect_ex(address(line))
        line.remove()
        waiting.settimeout(PATIENCE_S)
        waiting.sendall(b"at last")  # waits for the connection
        server, _ = line.listener.accept()
        with server:
            assert server.recv(7) == b"at last"
    line.open()


def test_proxy_can_be_disabled_and_enabled_under_toxic(line):
    line.add("unaccepted", "downstream")
    line.client.set_enabled(line.name, False)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address(line), SHORT_S)
    line.client.set_enabled(line.name, True)
    with pytest.raises(TimeoutError):
        socket.create_connection(address(line), SHORT_S)
    line.remove()
    line.open()


@pytest.mark.parametrize("tls", [{}, FRESH])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (failed("connect_timeout", 1001, **NEVER_ARRIVED), True),
        (failed("connect_timeout", 1001), False),
        (failed("read_timeout", 1001, **NEVER_ARRIVED), False),
        (failed("connection_refused", 1, **NEVER_ARRIVED), False),
    ],
)
def test_connect_limit_without_request_shows_toxic(changes, expected, tls):
    assert seen("unaccepted", "downstream", **changes, **tls) is expected


def test_kept_alive_connection_has_no_signature():
    assert not seen("unaccepted", "downstream", **KEPT)


@pytest.mark.parametrize(("how", "expected"), [("unaccepted", True), ("refused", False), ("open", False)])
def test_ingress_sees_whether_proxy_accepted(how, expected):
    assert connection_shows("unaccepted", "downstream", how=how) is expected
