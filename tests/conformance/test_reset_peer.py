"""reset_peer"""

import select
import time

import pytest

from tests.conformance.wire import both_streams, elapsed_ms
from tests.support import until


@both_streams
@pytest.mark.parametrize("timeout", [0, 60])
def test_reset_peer_resets_both_ends_after_the_first_data(rig, stream, timeout):
    rig.add("reset_peer", stream, timeout=timeout)
    connection = rig.dial()
    assert connection.see() == "silence"
    start = time.monotonic()
    connection.sendall(b"write")
    assert connection.ending() == "reset"
    assert elapsed_ms(start) >= timeout
    until(lambda: rig.upstream.ends)
    assert rig.upstream.ends == ["reset"]
    assert rig.upstream.all_received == (b"" if stream == "upstream" else b"write")


def test_a_client_that_is_still_sending_is_told_of_the_reset_there_and_then_reads_a_plain_end(rig):
    rig.add("reset_peer", "upstream", timeout=0)
    connection = rig.dial()
    connection.sendall(b"POST / HTTP/1.1\r\n")
    until(lambda: select.select([connection], [], [], 0)[0])
    with pytest.raises(ConnectionResetError):
        connection.sendall(b"the body")
    assert connection.ending() == "closed"


@both_streams
def test_reset_peer_only_closes_a_connection_that_was_open_before(rig, stream):
    connection = rig.dial_and_talk()
    rig.add("reset_peer", stream, timeout=0)
    connection.sendall(b"x")
    assert connection.ending() == "closed"


@both_streams
def test_a_removed_reset_peer_that_saw_no_data_does_nothing_but_the_close_stays_a_reset(rig, stream):
    rig.add("reset_peer", stream, timeout=0)
    connection = rig.dial()
    assert connection.see() == "silence"
    rig.remove()
    connection.sendall(b"hi")
    assert connection.read(2) == b"hi"
    connection.close()
    until(lambda: rig.upstream.ends)
    assert rig.upstream.ends == ["reset"]
