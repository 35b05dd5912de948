"""limit_data"""

import pytest

from tests.conformance.wire import both_streams
from tests.support import until


@both_streams
@pytest.mark.parametrize("limit", [0, 1, 5])
def test_limit_data_passes_limit_and_closes_both_ends(line, stream, limit):
    sender, receiver = line.flow(stream)
    line.add("limit_data", stream, bytes=limit)
    sender.sendall(b"0123456789")
    assert receiver.read(11) == b"0123456789"[:limit]
    assert sender.ending() in ("closed", "reset")


@both_streams
def test_limit_data_counts_across_chunks_and_closes_at_limit(line, stream):
    sender, receiver = line.flow(stream)
    line.add("limit_data", stream, bytes=6)
    for data in (b"ab", b"cd", b"ef"):
        assert receiver.see() == "silence"
        sender.sendall(data)
        assert receiver.read(2) == data
    assert receiver.ending() == "closed"


@both_streams
def test_limit_data_counts_each_connection_separately(line, stream):
    line.add("limit_data", stream, bytes=4)
    flows = [line.flow(stream) for _ in range(8)]
    for sender, _ in flows:
        sender.sendall(b"xyz!!")
    # the byte with which each flow was opened counts
    assert [receiver.read(9) for _, receiver in flows] == [b"xyz"] * 8


@both_streams
def test_raising_limit_data_keeps_count(line, stream):
    sender, receiver = line.flow(stream)
    line.add("limit_data", stream, bytes=10)
    sender.sendall(b"012345")
    assert receiver.read(6) == b"012345"
    line.update(bytes=12)
    sender.sendall(b"6789abcdef")
    assert receiver.read(11) == b"6789ab"


@both_streams
def test_lowering_limit_data_below_count_closes_at_next_data(line, stream):
    sender, receiver = line.flow(stream)
    line.add("limit_data", stream, bytes=10)
    sender.sendall(b"012345")
    assert receiver.read(6) == b"012345"
    line.update(bytes=3)
    assert receiver.see() == "silence"
    sender.sendall(b"x")
    assert receiver.ending() == "closed"


@both_streams
def test_limit_data_removed_early_passes_all_data(line, stream):
    sender, receiver = line.flow(stream)
    line.add("limit_data", stream, bytes=4)
    sender.sendall(b"012")
    assert receiver.read(3) == b"012"
    line.remove()
    sender.sendall(b"3456789")
    assert receiver.read(7) == b"3456789"


def test_downstream_limit_data_cuts_reply_of_executed_request(rig):
    rig.add("limit_data", "downstream", bytes=3)
    connection = rig.dial()
    connection.sendall(b"write")
    assert connection.read(6) == b"wri"
    until(lambda: rig.upstream.all_received == b"write")
