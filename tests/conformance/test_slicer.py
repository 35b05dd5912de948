"""slicer"""

import time

from tests.conformance.wire import LONG_MS, both_streams, elapsed_ms, unread
from tests.support import until

LONG_US = LONG_MS * 1000


@both_streams
def test_slicer_halves_data_down_to_average_size(line, stream):
    sender, receiver = line.flow(stream)
    line.add("slicer", stream, average_size=12, delay=60_000)
    sender.sendall(bytes(range(40)))
    assert receiver.cuts(bytes(range(40))) <= {10, 20, 30, 40}


@both_streams
def test_slicer_varies_size_within_bounds(line, stream):
    flows = [line.flow(stream) for _ in range(20)]
    line.add("slicer", stream, average_size=20, size_variation=10, delay=LONG_US)
    for sender, _ in flows:
        sender.sendall(bytes(100))
    sizes = {len(receiver.recv(100)) for _, receiver in flows}
    assert len(sizes) > 1
    assert all(5 <= size <= 30 for size in sizes)


@both_streams
def test_slicer_pauses_after_each_packet_including_last(line, stream):
    sender, receiver = line.flow(stream)
    line.add("slicer", stream, average_size=10, delay=50_000)
    start = time.monotonic()
    sender.sendall(b"x" * 20)
    assert receiver.read(20) == b"x" * 20
    sender.sendall(b"y")
    assert receiver.read(1) == b"y"
    assert elapsed_ms(start) >= 100


@both_streams
def test_removing_slicer_releases_rest_at_once(line, stream):
    sender, receiver = line.flow(stream)
    line.add("slicer", stream, average_size=10, delay=LONG_US)
    sender.sendall(bytes(range(80)))
    assert receiver.read(10) == bytes(range(10))
    assert receiver.see() == "silence"
    line.remove()
    assert receiver.read(70) == bytes(range(10, 80))


@both_streams
def test_changing_slicer_releases_rest_and_slices_later_data(line, stream):
    sender, receiver = line.flow(stream)
    line.add("slicer", stream, average_size=10, delay=LONG_US)
    sender.sendall(bytes(range(80)))
    assert receiver.read(10) == bytes(range(10))
    line.update(average_size=5)
    assert receiver.read(70) == bytes(range(10, 80))
    sender.sendall(b"0123456789")
    assert receiver.read(5) == b"01234"
    assert receiver.see() == "silence"


def test_slicer_joins_data_that_arrives_during_pauses(line):
    sender, receiver = line.flow("upstream")
    line.add("slicer", "upstream", average_size=40, delay=LONG_US)
    for data in (b"1", b"2", b"3"):  # the first is cut and delayed; the others wait in the proxy
        sender.sendall(data)
        until(lambda: unread(sender) == 0, "the proxy to read it")
    for data in (b"four", b"five"):  # these it has no room for
        sender.sendall(data)
    until(lambda: unread(sender) == 8, "the rest to arrive")
    line.update(delay=50_000)
    assert receiver.cuts(b"123fourfive") <= {1, 2, 3, 11}
