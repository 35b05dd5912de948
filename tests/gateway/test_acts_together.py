"""Any faults, on any requests, for any clients: every exchange ends and is recorded."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.lab import Lab, dial
from tests.gateway.scripted import DOES, EVENTS, GET, UPSTREAM_REPLY, ScriptedUpstream, armed, sized, stream
from tests.support import examples, until
from tests.upstream import read_all
from wirefault.history.events import Exchange

pytestmark = pytest.mark.usefixtures("scripted_faults")

REQUESTS = {
    "get": GET,
    "head": b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n",
    "old": b"GET /a HTTP/1.0\r\nHost: x\r\n\r\n",
    "post": b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi",
    "chunked": b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "expects": b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
    "large": b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + bytes(300_000),
    "half": b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
    "bad chunk": b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nbad\r\n",
    "garbage": b"no request at all\r\n\r\n",
}
REPLIES = {
    "sized": sized(UPSTREAM_REPLY),
    "close": sized(UPSTREAM_REPLY, b"Connection: close"),
    "empty gzip": sized(b"", b"Content-Encoding: gzip"),
    "stream": stream(*EVENTS),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "stream to the end": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    + EVENTS[0],
    "half": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhalf",
    "none": b"\r\n\r\nConnection: close",
}
LEAVES = ["reads", "says all", "closes", "resets"]
ANY = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def leave(client: socket.socket, how: str) -> None:
    if how == "says all":
        client.shutdown(socket.SHUT_WR)
    elif how == "resets":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how in ("reads", "says all"):
        client.settimeout(0.1)
        read_all(client)


@ANY
@given(
    st.lists(st.sampled_from(sorted(DOES)), min_size=1, max_size=3),
    st.lists(st.sampled_from(sorted(REQUESTS)), min_size=1, max_size=3),
    st.sampled_from(sorted(REPLIES)),
    st.sampled_from(LEAVES),
    st.sampled_from(["scripted", "reads"]),
)
def test_every_exchange_ends_and_is_recorded_once(
    lab_of_service: Lab,
    service: ScriptedUpstream,
    does: list[str],
    targets: list[str],
    reply: str,
    how: str,
    fault: str,
) -> None:
    lab = lab_of_service
    service.reply = REPLIES[reply]
    lab.begin(faults=armed(*does, links="search", fault=fault))
    with dial(lab.address("search")) as client, suppress(OSError):  # it may be reset, or wait forever
        client.sendall(b"".join(REQUESTS[one] for one in targets))
        leave(client, how)
    until(lambda: lab.settle(5) == {"settled": True, "open": 0})
    # over TLS, a reset can also be recorded as a client that leaves after the certificate
    records = [record for record in lab.recorded() if isinstance(record, Exchange)]
    assert len(records) <= len(targets)
    assert all(hit.injected == (hit.why_not is None) for record in records for hit in record.faults)
    service.reply = sized(UPSTREAM_REPLY)
    lab.begin()
    with dial(lab.address("search")) as client:
        client.sendall(GET)
        assert read_all(client, len(service.reply)) == service.reply
    (record,) = lab.exchanges()
    assert (record.faults, record.reply_complete) == ([], True)
