"""slow_close"""

import socket
import time

from tests.conformance.wire import LONG_MS, both_streams, elapsed_ms


@both_streams
def test_slow_close_delays_eof_only(line, stream):
    sender, receiver = line.flow(stream)
    line.add("slow_close", stream, delay=250)
    start = time.monotonic()
    sender.sendall(b"data")
    assert receiver.read(4) == b"data"
    sender.close()
    assert receiver.see() == "silence"
    assert receiver.ending() == "closed"
    assert elapsed_ms(start) >= 250


@both_streams
def test_removing_slow_close_closes_pending_connections(line, stream):
    sender, receiver = line.flow(stream)
    line.add("slow_close", stream, delay=LONG_MS)
    sender.close()
    assert receiver.see() == "silence"
    line.remove()
    assert receiver.ending() == "closed"


@both_streams
def test_changing_slow_close_restarts_delay(line, stream):
    sender, receiver = line.flow(stream)
    line.add("slow_close", stream, delay=LONG_MS)
    sender.close()
    assert receiver.see() == "silence"
    start = time.monotonic()
    line.update(delay=150)
    assert receiver.ending() == "closed"
    assert elapsed_ms(start) >= 150


def test_upstream_slow_close_lets_half_closed_client_get_reply(line):
    line.add("slow_close", "upstream", delay=300)
    client, server = line.open()
    client.sendall(b"request")
    client.shutdown(socket.SHUT_WR)
    assert server.read(7) == b"request"
    server.sendall(b"reply")
    assert client.read(6) == b"reply"
    assert server.ending() == "closed"
