"""Several toxics on one proxy"""

import time

from tests.conformance.wire import LONG_MS, STREAMS, both_streams, elapsed_ms
from tests.support import until


@both_streams
def test_toxics_act_in_order_of_addition(line, stream):
    line.add("slicer", stream, "first", average_size=10, delay=50_000)
    line.add("limit_data", stream, "second", bytes=26)
    sender, receiver = line.flow(stream)
    sender.sendall(b"x" * 40)
    assert receiver.cuts(b"x" * 25) <= {10, 20, 25}
    assert receiver.ending() in ("closed", "reset")


@both_streams
def test_latency_after_bandwidth_delays_only_recently_read_data(line, stream):
    """Latency counts from the time of reading: after a slow bandwidth toxic it has passed already"""
    sender, receiver = line.flow(stream)
    line.add("bandwidth", stream, "slow", rate=1)
    line.add("latency", stream, "late", latency=100)
    start = time.monotonic()
    sender.sendall(b"x" * 200)
    assert receiver.read(200) == b"x" * 200
    assert elapsed_ms(start) >= 200


@both_streams
def test_slow_close_delays_add_up(line, stream):
    line.add("slow_close", stream, "one", delay=100)
    line.add("slow_close", stream, "two", delay=100)
    sender, receiver = line.flow(stream)
    start = time.monotonic()
    sender.close()
    assert receiver.ending() == "closed"
    assert elapsed_ms(start) >= 200


@both_streams
def test_smallest_of_several_limits_applies(line, stream):
    for number, limit in enumerate((9, 5, 7)):
        line.add("limit_data", stream, f"limit_{number}", bytes=limit)
    sender, receiver = line.flow(stream)
    sender.sendall(b"0123456789")
    assert receiver.read(11) == b"0123"


@both_streams
def test_data_within_limit_passes_later_latency_before_close(line, stream):
    line.add("limit_data", stream, "limit", bytes=3)
    sender, receiver = line.flow(stream)
    line.add("latency", stream, "late", latency=150)
    start = time.monotonic()
    sender.sendall(b"012345")
    assert receiver.read(3) == b"01"
    assert elapsed_ms(start) >= 150


@both_streams
def test_removing_middle_toxic_keeps_others(line, stream):
    for name in ("first", "middle", "last"):
        line.add("latency", stream, name, latency=50)
    sender, receiver = line.flow(stream)
    line.remove("middle")
    start = time.monotonic()
    sender.sendall(b"x")
    assert receiver.read(1) == b"x"
    assert elapsed_ms(start) >= 50


@both_streams
def test_data_in_removed_toxic_passes_to_next(line, stream):
    sender, receiver = line.flow(stream)
    line.add("latency", stream, "first", latency=LONG_MS)
    line.add("limit_data", stream, "second", bytes=6)
    for data in (b"ab", b"cd", b"ef"):
        sender.sendall(data)
    assert receiver.see() == "silence"
    line.remove("first")
    assert receiver.read(7) == b"abcdef"


@both_streams
def test_removing_toxic_does_not_stop_pending_reset(line, stream):
    sender, receiver = line.flow(stream)
    line.add("reset_peer", stream, "reset", timeout=150)
    line.add("latency", stream, "late", latency=LONG_MS)
    start = time.monotonic()
    sender.sendall(b"lost")
    line.remove("late")
    assert receiver.ending() in ("closed", "reset")
    assert elapsed_ms(start) >= 150


@both_streams
def test_noop_changes_nothing(line, stream):
    line.add("noop", stream)
    sender, receiver = line.flow(stream)
    sender.sendall(b"x")
    assert receiver.read(1) == b"x"


def test_toxics_of_both_streams_are_independent(rig):
    connection = rig.dial_and_talk()
    rig.add("latency", "upstream", "up", latency=LONG_MS)
    rig.add("latency", "downstream", "down", latency=LONG_MS)
    connection.sendall(b"x")
    assert connection.see() == "silence"
    rig.remove("up")
    until(lambda: rig.upstream.all_received == b"hellox")
    assert connection.see() == "silence"
    rig.remove("down")
    assert connection.read(1) == b"x"


def test_reset_removes_all_toxics_from_open_connections(line, api):
    client, server = line.open()
    for stream in STREAMS:
        line.add("latency", stream, f"one_{stream}", latency=LONG_MS)
        line.add("bandwidth", stream, f"two_{stream}", rate=0)
    client.sendall(b"up")
    server.sendall(b"down")
    assert client.see() == server.see() == "silence"
    assert api("POST", "/reset")[0] == 204
    assert (client.read(4), server.read(2)) == (b"down", b"up")
