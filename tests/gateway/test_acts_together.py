"""Any faults, on any requests, for clients that behave in any way: the gateway keeps its promises."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.lab import Lab, dial, read_all, until
from tests.gateway.scripted import DOES, EVENTS, GET, NATURAL, Service, armed, sized, stream

pytestmark = pytest.mark.usefixtures("scripted_faults")

REQUESTS = [
    GET,
    b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /a HTTP/1.0\r\nHost: x\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi",
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
    b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + bytes(300_000),
    b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
    b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nbad\r\n",
    b"no request at all\r\n\r\n",
]
REPLIES = [
    sized(NATURAL),
    sized(NATURAL, b"Connection: close"),
    sized(b"", b"Content-Encoding: gzip"),
    stream(*EVENTS),
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: 1\n\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf",
    b"\r\n\r\nConnection: close",
]
LEAVES = ["reads", "says all", "closes", "resets"]
ANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def leave(client: socket.socket, how: str) -> None:
    if how == "says all":
        client.shutdown(socket.SHUT_WR)
    elif how == "resets":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how in ("reads", "says all"):
        client.settimeout(0.1)
        with suppress(OSError):  # a fault may reset it, or let it wait
            read_all(client)


@ANY
@given(
    st.lists(st.sampled_from(sorted(DOES)), min_size=1, max_size=3),
    st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=3),
    st.sampled_from(REPLIES),
    st.sampled_from(LEAVES),
    st.sampled_from(["scripted", "reads"]),
)
def test_every_exchange_ends_and_is_recorded_once_and_no_other_is_harmed(
    lab_of_service: Lab,
    service: Service,
    does: list[str],
    sent: list[bytes],
    reply: bytes,
    how: str,
    fault: str,
) -> None:
    lab = lab_of_service
    service.reply = reply
    lab.begin(faults=armed(*does, links="search", fault=fault))
    with dial(lab.address("search")) as client:
        client.sendall(b"".join(sent))
        leave(client, how)
    until(lambda: lab.settle(5) == {"settled": True, "open": 0})
    service.reply = sized(NATURAL)
    lab.begin()
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        assert read_all(client, len(service.reply)) == service.reply
    (record,) = lab.exchanges()
    assert (record.faults, record.reply_complete) == ([], True)
