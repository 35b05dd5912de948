"""latency"""

import socket
import time

from tests.conformance.wire import LONG_MS, STREAMS, both_streams, elapsed_ms
from tests.support import until


@both_streams
def test_latency_delays_each_direction_and_delivers(rig, stream):
    rig.add("latency", stream, latency=60)
    connection = rig.dial()
    for message in (b"first", b"second"):
        start = time.monotonic()
        connection.sendall(message)
        assert connection.read(len(message)) == message
        assert elapsed_ms(start) >= 60


@both_streams
def test_latency_applies_to_open_connection(rig, stream):
    connection = rig.dial_and_talk()
    rig.add("latency", stream, latency=60)
    start = time.monotonic()
    connection.sendall(b"x")
    assert connection.read(1) == b"x"
    assert elapsed_ms(start) >= 60


def test_latencies_on_both_streams_add_up(rig):
    for stream in STREAMS:
        for name in ("one", "two"):
            rig.add("latency", stream, f"{name}_{stream}", latency=20)
    start = time.monotonic()
    rig.dial_and_talk()
    assert elapsed_ms(start) >= 80


@both_streams
def test_jitter_stays_within_bounds(rig, stream):
    rig.add("latency", stream, latency=15, jitter=10)
    connection = rig.dial()
    for _ in range(10):
        start = time.monotonic()
        connection.sendall(b"x")
        connection.read(1)
        assert elapsed_ms(start) >= 5


@both_streams
def test_jitter_keeps_chunks_in_order(rig, stream):
    rig.add("latency", stream, latency=3, jitter=3)
    connection = rig.dial()
    message = b"".join(b"%04d" % number for number in range(64))
    for start in range(0, len(message), 4):
        connection.sendall(message[start : start + 4])
    assert connection.read(len(message)) == message


@both_streams
def test_removing_latency_releases_held_data_in_order(rig, stream):
    rig.add("latency", stream, latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"one ")
    if stream == "downstream":
        until(lambda: rig.upstream.received)
    assert connection.see() == "silence"
    connection.sendall(b"two ")
    rig.remove()
    connection.sendall(b"three")
    assert connection.read(13) == b"one two three"


@both_streams
def test_updating_latency_releases_current_chunk_and_delays_next(rig, api, stream):
    rig.add("latency", stream, latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"one")
    if stream == "downstream":
        until(lambda: rig.upstream.received)
    assert connection.see() == "silence"
    path = f"/proxies/{rig.name}/toxics/toxic"
    assert api("PATCH", path, {"attributes": {"latency": LONG_MS + 1}})[0] == 200
    assert connection.read(3) == b"one"
    connection.sendall(b"two")
    assert connection.see() == "silence"


@both_streams
def test_latency_update_applies_to_open_connections(rig, api, stream):
    rig.add("latency", stream, latency=LONG_MS)
    connection = rig.dial()
    api("PATCH", f"/proxies/{rig.name}/toxics/toxic", {"attributes": {"latency": 1}})
    connection.sendall(b"hi")
    assert connection.read(2) == b"hi"


@both_streams
def test_adding_toxic_after_latency_releases_current_chunk(rig, stream):
    rig.add("latency", stream, latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"one")
    if stream == "downstream":
        until(lambda: rig.upstream.received)
    assert connection.see() == "silence"
    rig.add("latency", stream, "second", latency=LONG_MS)
    assert connection.read(3) == b"one"


def test_client_timeout_under_upstream_latency_does_not_stop_execution(rig):
    rig.add("latency", "upstream", latency=100)
    connection = rig.dial()
    connection.sendall(b"write")
    connection.close()
    until(lambda: rig.upstream.ends)
    assert rig.upstream.all_received == b"write"


def test_client_timeout_under_downstream_latency_comes_after_execution(rig):
    rig.add("latency", "downstream", latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"write")
    until(lambda: rig.upstream.all_received == b"write")
    connection.close()
    until(lambda: rig.upstream.ends)


def test_upstream_close_under_latency_delivers_pending_data_first(rig):
    def answer_and_close(piece, connection):
        connection.sendall(b"reply")
        connection.shutdown(socket.SHUT_WR)

    rig.upstream.answer = answer_and_close
    rig.add("latency", "downstream", latency=60)
    connection = rig.dial()
    connection.sendall(b"hi")
    assert connection.read(6) == b"reply"
