"""cut_after: a connection ends at an age, whatever it carried."""

import socket
import time

import pytest

from tests.conformance.servers import Line, embedded_server
from tests.toxiproxy.toxics.test_signatures import FRESH, KEPT, NEVER_ARRIVED, connection_shows, failed, seen
from wirefault.toxiproxy.client import ToxiproxyClient


@pytest.fixture
def line():
    with (
        embedded_server() as url,
        ToxiproxyClient(url) as client,
        socket.create_server(("127.0.0.1", 0)) as end,
    ):
        upstream = f"127.0.0.1:{end.getsockname()[1]}"
        line = Line(client, client.ensure_proxy("aged", "127.0.0.1:0", upstream), listener=end)
        yield line
        line.close()


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_connection_in_use_is_closed_at_its_age(line, stream):
    line.add("cut_after", "downstream", age=300)
    start = time.monotonic()
    sender, receiver = line.flow(stream)
    sender.sendall(b"before")
    assert receiver.read(6) == b"before"
    assert receiver.ending() == "closed"
    assert time.monotonic() - start >= 0.27


def test_both_ends_are_closed_without_data(line):
    line.add("cut_after", "downstream", age=300)
    client, server = line.open()
    assert (client.ending(), server.ending()) == ("closed", "closed")


def test_data_in_other_toxics_is_lost(line):
    line.add("bandwidth", "downstream", "slow", rate=1)
    line.add("cut_after", "downstream", age=300)
    client, server = line.open()
    server.sendall(b"x" * 5000)
    received = client.read(5000)
    assert 0 < len(received) < 5000


def test_age_counts_from_opening_and_survives_other_toxics(line):
    sender, receiver = line.flow("downstream")
    line.add("cut_after", "downstream", age=60_000)
    line.add("latency", "downstream", "other", latency=1)
    sender.sendall(b"alive")
    assert receiver.read(5) == b"alive"
    line.update(age=1)  # the connection is older by now
    assert receiver.ending() == "closed"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (failed("connection_closed", 2001, gateway_client_left=True, gateway_complete_reply=False), True),
        (failed("bad_reply", 2001, gateway_client_left=True, gateway_complete_reply=False), True),
        (failed("connection_closed", 1500, gateway_client_left=False), False),
        (failed("read_timeout", 2001), False),
        ({"client_ms": 2500}, False),
        # the gateway ended the reply itself
        (failed("connection_closed", 2001, gateway_complete_reply=False), False),
        (failed("connection_closed", 2001, **NEVER_ARRIVED, **FRESH), True),
        (failed("connection_closed", 1, **NEVER_ARRIVED, **FRESH), False),
        # a kept-alive connection is older than the try
        (failed("connection_closed", 40, **KEPT), True),
        (failed("connection_reset", 40, gateway_client_left=True, gateway_complete_reply=False), True),
    ],
)
def test_cut_is_recognised_by_age_and_loss(changes, expected):
    assert seen("cut_after:age=2000", "downstream", **changes) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ms": 2001, "by_proxy": True}, True),
        ({"ms": 2001, "by_proxy": True, "gateway_complete_reply": True}, None),
        ({"ms": 2001, "by_proxy": True, "how": "rst"}, False),
        ({"ms": 700, "by_proxy": True}, False),
        ({"ms": 2001}, False),
    ],
)
def test_connection_closed_by_proxy_at_age_shows_toxic(changes, expected):
    assert connection_shows("cut_after:age=2000", "downstream", **changes) is expected
