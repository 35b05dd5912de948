"""timeout"""

import socket
import time

from tests.conformance.wire import LONG_MS, both_streams, elapsed_ms
from tests.support import until


@both_streams
def test_timeout_closes_and_loses_request_or_reply(rig, stream):
    rig.add("timeout", stream, timeout=60)
    start = time.monotonic()
    connection = rig.dial()
    connection.sendall(b"write")
    assert connection.ending() == "closed"
    assert elapsed_ms(start) >= 60
    until(lambda: rig.upstream.ends)
    assert rig.upstream.all_received == (b"" if stream == "upstream" else b"write")


@both_streams
def test_timeout_restarts_at_each_data(rig, stream):
    rig.add("timeout", stream, timeout=1000)
    start, connection = kept_alive(rig, 1500)
    assert connection.ending() == "closed"
    assert elapsed_ms(start) >= 1000


def kept_alive(rig, duration_ms):
    """A connection with data every 100 ms for that time, and the time of its last data.

    On a busy machine a pause may last beyond the timeout; that shows nothing, and another connection is made.
    """
    while True:
        connection, first, longest_ms = rig.dial(), time.monotonic(), 0
        while elapsed_ms(first) < duration_ms:
            start = time.monotonic()
            connection.sendall(b"x")
            seen = connection.see()
            longest_ms = max(longest_ms, elapsed_ms(start))
            if seen != "silence":
                break
        if longest_ms < 500:
            assert seen == "silence"
            return start, connection


@both_streams
def test_timeout_zero_blocks_until_removal_closes(rig, stream):
    rig.add("timeout", stream, timeout=0)
    connection = rig.dial()
    connection.sendall(b"write")
    if stream == "downstream":
        until(lambda: rig.upstream.received)
    assert connection.see() == "silence"
    rig.remove()
    assert connection.ending() == "closed"
    assert rig.upstream.all_received == (b"" if stream == "upstream" else b"write")
    rig.dial_and_talk()


@both_streams
def test_timeout_applies_to_open_connections_and_removal_closes_them(rig, stream):
    connections = [rig.dial_and_talk() for _ in range(20)]
    rig.add("timeout", stream, timeout=0)
    for connection in connections:
        connection.sendall(b"lost")
    assert connections[0].see() == "silence"
    rig.remove()
    assert [connection.ending() for connection in connections] == ["closed"] * 20


@both_streams
def test_timeout_starts_on_idle_open_connection(rig, stream):
    connection = rig.dial_and_talk()
    start = time.monotonic()
    rig.add("timeout", stream, timeout=60)
    assert connection.ending() == "closed"
    assert elapsed_ms(start) >= 60


def test_upstream_close_ends_downstream_timeout_at_once(rig):
    rig.upstream.answer = lambda piece, connection: connection.shutdown(socket.SHUT_WR)
    rig.add("timeout", "downstream", timeout=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"hi")
    assert connection.ending() == "closed"


@both_streams
def test_client_close_under_timeout_closes_upstream(rig, stream):
    rig.add("timeout", stream, timeout=0)
    connection = rig.dial()
    connection.sendall(b"hi")
    connection.close()
    until(lambda: rig.upstream.ends)
