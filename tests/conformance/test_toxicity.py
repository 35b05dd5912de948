"""toxicity: the share of connections that a toxic meets"""

import math

import pytest

from tests.conformance.wire import both_streams

CONNECTIONS = 160


def affected(line, stream, flows):
    """How many flows end after 2 bytes of 4 messages; each other one must pass all."""
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
def test_toxicity_0_meets_no_connection_and_1_meets_all(line, stream, toxicity, share):
    line.add("limit_data", stream, toxicity=toxicity, bytes=3)
    flows = [line.flow(stream) for _ in range(20)]
    assert affected(line, stream, flows) == 20 * share


@both_streams
@pytest.mark.parametrize("when", ["before", "after"])
def test_toxicity_meets_about_its_share_of_connections_and_these_wholly(line, stream, when):
    if when == "before":
        line.add("limit_data", stream, toxicity=0.3, bytes=3)
    flows = [line.flow(stream) for _ in range(CONNECTIONS)]
    if when == "after":
        line.add("limit_data", stream, toxicity=0.3, bytes=2)
    # six standard deviations: one failure in about 10^9
    bound = 6 * math.sqrt(CONNECTIONS * 0.3 * 0.7)
    assert abs(affected(line, stream, flows) - CONNECTIONS * 0.3) <= bound


@both_streams
def test_toxicity_is_drawn_anew_when_it_changes(line, stream):
    line.add("timeout", stream, toxicity=0, timeout=0)
    sender, receiver = line.flow(stream)
    line.update(toxicity=1)
    sender.sendall(b"lost")
    assert receiver.see() == "silence"
    line.update(toxicity=0)
    sender.sendall(b"found")
    assert receiver.read(5) == b"found"


@both_streams
def test_a_toxic_that_meets_no_connection_still_closes_them_as_it_would_at_its_removal(line, stream):
    """A `timeout` that is removed closes the connections that it did not meet, too."""
    line.add("timeout", stream, toxicity=0, timeout=0)
    _sender, receiver = line.flow(stream)
    line.remove()
    assert receiver.ending() == "closed"
