"""Without toxics"""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.wire import still
from tests.support import until


def test_bytes_arrive_complete_and_in_order_both_ways(rig):
    data = bytes(range(256)) * 8192
    connection = rig.dial()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(connection.read, len(data))
        connection.sendall(data)
        assert reading.result() == data
    assert rig.upstream.all_received == data


def test_many_concurrent_connections(rig):
    def talk(number):
        message = b"%d" % number * 100
        connection = rig.dial()
        connection.sendall(message)
        return connection.read(len(message)) == message

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(talk, range(64)))


def test_client_close_closes_upstream(rig):
    rig.dial_and_talk().close()
    until(lambda: rig.upstream.ends == ["closed"])


def test_upstream_close_delivers_pending_data_first(rig):
    def answer_and_close(piece, connection):
        connection.sendall(b"x" * 500_000)
        connection.shutdown(socket.SHUT_WR)

    rig.upstream.answer = answer_and_close
    connection = rig.dial()
    connection.sendall(b"hi")
    assert connection.read(500_001) == b"x" * 500_000


def test_half_closed_client_loses_later_reply(rig):
    rig.upstream.answer = lambda piece, connection: None if piece else connection.sendall(b"too late")
    connection = rig.dial()
    connection.sendall(b"hi")
    connection.shutdown(socket.SHUT_WR)
    assert connection.ending() == "closed"
    until(lambda: rig.upstream.all_received == b"hi")


def test_unreachable_upstream_closes_client(rig):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    state = rig.client.ensure_proxy(rig.name, rig.state.listen, address)
    assert state.upstream == address
    assert rig.dial().ending() in ("closed", "reset")


@pytest.mark.parametrize("toxics", [(), ("latency",)])
def test_stalled_reader_stalls_writer(rig, toxics):
    total = 192 * 2**20  # more than two receive buffers of 32 MiB and the 1024 chunks before a latency hold
    requests = []

    def pour(piece, connection):
        for _ in range(total // 2**20):
            connection.sendall(b"x" * 2**20)
            requests.append(2**20)

    rig.upstream.answer = pour
    for kind in toxics:
        rig.add(kind, "downstream", latency=1)
    connection = rig.dial()
    connection.sendall(b"go")
    stopped = still(lambda: len(requests))
    assert 0 < stopped < total // 2**20
    received = 0
    while received < total:
        piece = connection.recv(2**20)
        assert piece, f"closed after {received} bytes"
        received += len(piece)
