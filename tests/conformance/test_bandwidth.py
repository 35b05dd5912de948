"""bandwidth"""

import time

from tests.conformance.wire import both_streams, elapsed_ms


@both_streams
def test_bandwidth_takes_size_divided_by_rate(line, stream):
    sender, receiver = line.flow(stream)
    line.add("bandwidth", stream, rate=100)
    start = time.monotonic()
    sender.sendall(b"x" * 30_000)
    assert len(receiver.read(30_000)) == 30_000
    assert elapsed_ms(start) >= 300


@both_streams
def test_bandwidth_adds_up_small_chunks(line, stream):
    sender, receiver = line.flow(stream)
    line.add("bandwidth", stream, rate=1)
    start = time.monotonic()
    for number in range(10):
        sender.sendall(b"%d" % number * 15)
        receiver.read(15)
    assert elapsed_ms(start) >= 150


@both_streams
def test_bandwidth_splits_large_chunk_into_100_ms_parts(line, stream):
    sender, receiver = line.flow(stream)
    line.add("bandwidth", stream, rate=1)
    start = time.monotonic()
    sender.sendall(b"x" * 350)
    assert receiver.cuts(b"x" * 350) <= {100, 200, 300, 350}
    assert elapsed_ms(start) >= 350


@both_streams
def test_bandwidth_zero_blocks_until_removed(line, stream):
    sender, receiver = line.flow(stream)
    line.add("bandwidth", stream, rate=0)
    sender.sendall(b"held")
    assert receiver.see() == "silence"
    line.remove()
    assert receiver.read(4) == b"held"


@both_streams
def test_removing_bandwidth_mid_transfer_releases_rest_at_once(line, stream):
    sender, receiver = line.flow(stream)
    line.add("bandwidth", stream, rate=1)
    sender.sendall(b"x" * 50_000)  # 50 s at that rate
    assert receiver.read(100) == b"x" * 100
    line.remove()
    assert receiver.read(49_900) == b"x" * 49_900


@both_streams
def test_changing_bandwidth_releases_current_chunk_and_applies_new_rate(line, stream):
    sender, receiver = line.flow(stream)
    line.add("bandwidth", stream, rate=1)
    sender.sendall(b"x" * 10_000)
    assert receiver.read(100) == b"x" * 100
    line.update(rate=0)
    assert receiver.read(9_900) == b"x" * 9_900
    sender.sendall(b"y")
    assert receiver.see() == "silence"


@both_streams
def test_bandwidth_delays_eof_behind_data(line, stream):
    sender, receiver = line.flow(stream)
    line.add("bandwidth", stream, rate=1)
    sender.sendall(b"x" * 150)
    sender.close()
    assert receiver.read(151) == b"x" * 150


def test_bandwidth_limits_each_connection_separately(line):
    line.add("bandwidth", "upstream", rate=1)
    lines = [line.open() for _ in range(40)]
    start = time.monotonic()
    for client, _ in lines:
        client.sendall(b"x" * 500)  # half a second at that rate
    assert {server.read(500) for _, server in lines} == {b"x" * 500}
    shared_ms = len(lines) * 500  # the least that one rate for all of them would take
    assert elapsed_ms(start) < shared_ms
