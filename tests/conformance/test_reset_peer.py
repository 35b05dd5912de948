"""reset_peer"""

import select
import time

import pytest

from tests.conformance.wire import both_streams, elapsed_ms
from tests.support import until


@both_streams
@pytest.mark.parametrize("timeout", [0, 60])
def test_reset_peer_resets_both_ends_after_first_data(rig, stream, timeout):
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


def test_writing_client_gets_reset_on_write_and_eof_on_read(rig):
    rig.add("reset_peer", "upstream", timeout=0)
    connection = rig.dial()
    connection.sendall(b"POST / HTTP/1.1\r\n")
    until(lambda: select.select([connection], [], [], 0)[0])
    with pytest.raises(ConnectionResetError):
        connection.sendall(b"the body")
    assert connection.ending() == "closed"


@both_streams
def test_reset_peer_only_closes_already_open_connection(rig, stream):
    connection = rig.dial_and_talk()
    rig.add("reset_peer", stream, timeout=0)
    connection.sendall(b"x")
    assert connection.ending() == "closed"


@both_streams
def test_removing_unused_reset_peer_leaves_later_close_reset(rig, stream):
    rig.add("reset_peer", stream, timeout=0)
    connection = rig.dial()
    assert connection.see() == "silence"
    rig.remove()
    connection.sendall(b"hi")
    assert connection.read(2) == b"hi"
    connection.close()
    until(lambda: rig.upstream.ends)
    assert rig.upstream.ends == ["reset"]
