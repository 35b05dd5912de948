"""shared_bandwidth: all connections of a proxy share one rate."""

import socket
import time

import pytest

from tests.conformance.servers import Line, embedded_server
from tests.toxiproxy.toxics.test_signatures import FRESH, NEVER_ARRIVED, failed, seen
from wirefault.toxiproxy.client import ToxiproxyClient


@pytest.fixture
def line():
    with (
        embedded_server() as url,
        ToxiproxyClient(url) as client,
        socket.create_server(("127.0.0.1", 0)) as end,
    ):
        upstream = f"127.0.0.1:{end.getsockname()[1]}"
        line = Line(client, client.ensure_proxy("narrow", "127.0.0.1:0", upstream), listener=end)
        yield line
        line.close()


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_two_connections_share_bandwidth(line, stream):
    line.add("shared_bandwidth", stream, rate=10)
    flows = [line.flow(stream), line.flow(stream)]
    start = time.monotonic()
    for sender, _ in flows:
        sender.sendall(b"x" * 2500)
    for _, receiver in flows:
        assert len(receiver.read(2500)) == 2500
    assert time.monotonic() - start >= 0.49


def test_connections_alternate(line):
    line.add("shared_bandwidth", "downstream", rate=10)
    (long_sender, _), (short_sender, short) = line.flow("downstream"), line.flow("downstream")
    long_sender.sendall(b"x" * 1_000_000)
    short_sender.sendall(b"short")
    assert short.read(5) == b"short"  # it does not wait for all of the long one, which takes 100 s


def test_data_passes_at_once_after_removal(line):
    line.add("shared_bandwidth", "downstream", rate=1)
    sender, receiver = line.flow("downstream")
    sender.sendall(b"x" * 100_000)
    line.remove()
    assert len(receiver.read(100_000)) == 100_000


@pytest.mark.parametrize(
    ("text", "stream", "changes", "expected"),
    [
        ("shared_bandwidth:rate=1", "downstream", {"client_ms": 510}, True),
        ("shared_bandwidth:rate=1", "downstream", {"client_ms": 5000}, True),
        ("shared_bandwidth:rate=1", "downstream", {"client_ms": 400}, False),
        ("shared_bandwidth:rate=100", "downstream", {"client_ms": 20}, False),
        ("shared_bandwidth:rate=1", "upstream", failed("read_timeout", 1001, **NEVER_ARRIVED), True),
        (
            "shared_bandwidth:rate=1",
            "downstream",
            failed("connect_timeout", 1001, **NEVER_ARRIVED, **FRESH),
            True,
        ),
    ],
)
def test_share_is_recognised_by_time_for_own_reply(text, stream, changes, expected):
    assert seen(text, stream, **changes) is expected
