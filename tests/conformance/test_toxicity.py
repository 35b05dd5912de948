"""toxicity: the share of connections that a toxic affects"""

import math

import pytest

from tests.conformance.wire import both_streams

CONNECTIONS = 160


def affected(line, stream, flows):
    """The number of flows that end after 2 bytes of 4 messages; the others must pass everything."""
    replies = []
    for sender, receiver in flows:
        sender.sendall(b"0123")
        replies.append(receiver.recv(9))
    assert set(replies) <= {b"01", b"0123"}
    for (sender, receiver), first in zip(flows, replies, strict=True):
        if first == b"0123":
            sender.sendall(b"4567")
            assert receiver.read(4) == b"4567"
    return replies.count(b"01")


@both_streams
@pytest.mark.parametrize(("toxicity", "share"), [(0, 0), (-1, 0), (1, 1), (2, 1)])
def test_toxicity_0_affects_no_connection_and_1_affects_all(line, stream, toxicity, share):
    line.add("limit_data", stream, toxicity=toxicity, bytes=3)
    flows = [line.flow(stream) for _ in range(20)]
    assert affected(line, stream, flows) == 20 * share


@both_streams
@pytest.mark.parametrize("when", ["before", "after"])
def test_toxicity_affects_its_share_of_connections_completely(line, stream, when):
    if when == "before":
        line.add("limit_data", stream, toxicity=0.3, bytes=3)
    flows = [line.flow(stream) for _ in range(CONNECTIONS)]
    if when == "after":
        line.add("limit_data", stream, toxicity=0.3, bytes=2)
    # six standard deviations: one failure in about 10^9
    bound = 6 * math.sqrt(CONNECTIONS * 0.3 * 0.7)
    assert abs(affected(line, stream, flows) - CONNECTIONS * 0.3) <= bound


@both_streams
def test_toxicity_is_drawn_again_when_changed(line, stream):
    line.add("timeout", stream, toxicity=0, timeout=0)
    sender, receiver = line.flow(stream)
    line.update(toxicity=1)
    sender.sendall(b"lost")
    assert receiver.see() == "silence"
    line.update(toxicity=0)
    sender.sendall(b"found")
    assert receiver.read(5) == b"found"


@both_streams
def test_removing_timeout_closes_unaffected_connections_too(line, stream):
    """Removing a `timeout` also closes the connections that it did not affect"""
    line.add("timeout", stream, toxicity=0, timeout=0)
    _sender, receiver = line.flow(stream)
    line.remove()
    assert receiver.ending() == "closed"
