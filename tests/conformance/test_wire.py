"""What the two ends of a connection see, without toxics and with those of this issue.

Durations are only held against lower bounds: a toxic must not be early; how late is the machine's affair.
"""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.servers import until

STREAMS = ["upstream", "downstream"]
both_streams = pytest.mark.parametrize("stream", STREAMS)
LONG_MS = 60_000


def elapsed_ms(start):
    return (time.monotonic() - start) * 1000


# the clean path


def test_bytes_arrive_whole_and_in_order_both_ways(rig):
    data = bytes(range(256)) * 8192
    connection = rig.dial()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(connection.read, len(data))
        connection.sendall(data)
        assert reading.result() == data
    assert rig.upstream.all_received == data


def test_many_connections_at_once(rig):
    def talk(number):
        message = b"%d" % number * 100
        connection = rig.dial()
        connection.sendall(message)
        return connection.read(len(message)) == message

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(talk, range(64)))


def test_a_client_that_closes_closes_the_upstream(rig):
    rig.dial_and_talk().close()
    until(lambda: rig.upstream.ends == ["closed"])


def test_an_upstream_that_closes_delivers_all_before(rig):
    def answer_and_close(piece, connection):
        connection.sendall(b"x" * 500_000)
        connection.shutdown(socket.SHUT_WR)

    rig.upstream.answer = answer_and_close
    connection = rig.dial()
    connection.sendall(b"hi")
    assert connection.read(500_001) == b"x" * 500_000


def test_a_client_that_shuts_down_its_sending_side_loses_a_later_reply(rig):
    rig.upstream.answer = lambda piece, connection: None if piece else connection.sendall(b"too late")
    connection = rig.dial()
    connection.sendall(b"hi")
    connection.shutdown(socket.SHUT_WR)
    assert connection.ending() == "closed"
    until(lambda: rig.upstream.all_received == b"hi")


def test_without_an_upstream_the_client_is_closed(rig):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    state = rig.client.ensure_proxy(rig.name, rig.state.listen, address)
    assert state.upstream == address
    assert rig.dial().ending() in ("closed", "reset")


@pytest.mark.parametrize("toxics", [(), ("latency",)])
def test_a_reader_that_stops_stops_the_writer(rig, toxics):
    total = 64 * 2**20
    sent = []

    def pour(piece, connection):
        for _ in range(total // 2**20):
            connection.sendall(b"x" * 2**20)
            sent.append(2**20)

    rig.upstream.answer = pour
    for kind in toxics:
        rig.add(kind, "downstream", latency=1)
    connection = rig.dial()
    connection.sendall(b"go")
    stopped = still(lambda: len(sent))
    assert 0 < stopped < total // 2**20
    while len(connection.recv(2**20)):
        if len(sent) == total // 2**20:
            break


def still(value):
    """The value once it has not changed for a while."""
    seen, since = value(), time.monotonic()
    while seen == 0 or time.monotonic() - since < 0.2:
        time.sleep(0.005)
        if value() != seen:
            seen, since = value(), time.monotonic()
    return seen


# latency


@both_streams
def test_latency_delays_each_way_and_delivers(rig, stream):
    rig.add("latency", stream, latency=60)
    connection = rig.dial()
    for message in (b"first", b"second"):
        start = time.monotonic()
        connection.sendall(message)
        assert connection.read(len(message)) == message
        assert elapsed_ms(start) >= 60


@both_streams
def test_latency_reaches_an_open_connection(rig, stream):
    connection = rig.dial_and_talk()
    rig.add("latency", stream, latency=60)
    start = time.monotonic()
    connection.sendall(b"x")
    assert connection.read(1) == b"x"
    assert elapsed_ms(start) >= 60


def test_latency_on_both_streams_and_twice_adds_up(rig):
    for stream in STREAMS:
        for name in ("one", "two"):
            rig.add("latency", stream, f"{name}_{stream}", latency=20)
    start = time.monotonic()
    rig.dial_and_talk()
    assert elapsed_ms(start) >= 80


@both_streams
def test_jitter_stays_within_its_bounds(rig, stream):
    rig.add("latency", stream, latency=15, jitter=10)
    connection = rig.dial()
    for _ in range(10):
        start = time.monotonic()
        connection.sendall(b"x")
        connection.read(1)
        assert elapsed_ms(start) >= 5


@both_streams
def test_chunks_under_jitter_stay_in_order(rig, stream):
    rig.add("latency", stream, latency=3, jitter=3)
    connection = rig.dial()
    message = b"".join(b"%04d" % number for number in range(64))
    for start in range(0, len(message), 4):
        connection.sendall(message[start : start + 4])
    assert connection.read(len(message)) == message


@both_streams
def test_a_removed_latency_lets_go_of_what_it_held_in_order(rig, stream):
    rig.add("latency", stream, latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"one ")
    if stream == "downstream":
        until(lambda: rig.upstream.received)
    assert connection.see() == "silence"
    connection.sendall(b"two ")
    rig.remove()
    connection.sendall(b"three")
    assert connection.read(13) == b"one two three"


@both_streams
def test_an_updated_latency_lets_the_chunk_in_hand_go_and_holds_the_next(rig, api, stream):
    rig.add("latency", stream, latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"one")
    if stream == "downstream":
        until(lambda: rig.upstream.received)
    assert connection.see() == "silence"
    path = f"/proxies/{rig.name}/toxics/toxic"
    assert api("PATCH", path, {"attributes": {"latency": LONG_MS + 1}})[0] == 200
    assert connection.read(3) == b"one"
    connection.sendall(b"two")
    assert connection.see() == "silence"


@both_streams
def test_an_update_applies_to_open_connections(rig, api, stream):
    rig.add("latency", stream, latency=LONG_MS)
    connection = rig.dial()
    api("PATCH", f"/proxies/{rig.name}/toxics/toxic", {"attributes": {"latency": 1}})
    connection.sendall(b"hi")
    assert connection.read(2) == b"hi"


@both_streams
def test_another_toxic_after_a_latency_lets_the_chunk_in_hand_go(rig, stream):
    rig.add("latency", stream, latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"one")
    if stream == "downstream":
        until(lambda: rig.upstream.received)
    assert connection.see() == "silence"
    rig.add("latency", stream, "second", latency=LONG_MS)
    assert connection.read(3) == b"one"


def test_a_client_that_gives_up_under_upstream_latency_is_executed_all_the_same(rig):
    rig.add("latency", "upstream", latency=100)
    connection = rig.dial()
    connection.sendall(b"write")
    connection.close()
    until(lambda: rig.upstream.ends)
    assert rig.upstream.all_received == b"write"


def test_a_client_that_gives_up_under_downstream_latency_was_executed(rig):
    rig.add("latency", "downstream", latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"write")
    until(lambda: rig.upstream.all_received == b"write")
    connection.close()
    until(lambda: rig.upstream.ends)


def test_an_upstream_that_closes_under_latency_delivers_all_first(rig):
    def answer_and_close(piece, connection):
        connection.sendall(b"reply")
        connection.shutdown(socket.SHUT_WR)

    rig.upstream.answer = answer_and_close
    rig.add("latency", "downstream", latency=60)
    connection = rig.dial()
    connection.sendall(b"hi")
    assert connection.read(6) == b"reply"


# timeout


@both_streams
def test_timeout_closes_and_loses_the_request_or_the_reply(rig, stream):
    rig.add("timeout", stream, timeout=60)
    start = time.monotonic()
    connection = rig.dial()
    connection.sendall(b"write")
    assert connection.ending() == "closed"
    assert elapsed_ms(start) >= 60
    until(lambda: rig.upstream.ends)
    assert rig.upstream.all_received == (b"" if stream == "upstream" else b"write")


@both_streams
def test_timeout_counts_anew_from_the_last_data(rig, stream):
    rig.add("timeout", stream, timeout=350)
    connection = rig.dial()
    for _ in range(3):
        assert connection.see() == "silence"
        start = time.monotonic()
        connection.sendall(b"x")
    assert connection.ending() == "closed"
    assert elapsed_ms(start) >= 350


@both_streams
def test_timeout_zero_is_silent_until_its_removal_closes(rig, stream):
    rig.add("timeout", stream, timeout=0)
    connection = rig.dial()
    connection.sendall(b"write")
    if stream == "downstream":
        until(lambda: rig.upstream.received)
    assert connection.see() == "silence"
    rig.remove()
    assert connection.ending() == "closed"
    assert rig.upstream.all_received == (b"" if stream == "upstream" else b"write")
    rig.dial_and_talk()


@both_streams
def test_timeout_on_open_connections_and_its_removal(rig, stream):
    connections = [rig.dial_and_talk() for _ in range(20)]
    rig.add("timeout", stream, timeout=0)
    for connection in connections:
        connection.sendall(b"lost")
    assert connections[0].see() == "silence"
    rig.remove()
    assert [connection.ending() for connection in connections] == ["closed"] * 20


@both_streams
def test_timeout_starts_on_an_idle_open_connection(rig, stream):
    connection = rig.dial_and_talk()
    start = time.monotonic()
    rig.add("timeout", stream, timeout=60)
    assert connection.ending() == "closed"
    assert elapsed_ms(start) >= 60


def test_an_upstream_that_closes_ends_a_downstream_timeout_at_once(rig):
    rig.upstream.answer = lambda piece, connection: connection.shutdown(socket.SHUT_WR)
    rig.add("timeout", "downstream", timeout=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"hi")
    assert connection.ending() == "closed"


@both_streams
def test_a_client_that_leaves_under_a_timeout_closes_the_upstream(rig, stream):
    rig.add("timeout", stream, timeout=0)
    connection = rig.dial()
    connection.sendall(b"hi")
    connection.close()
    until(lambda: rig.upstream.ends)


# reset_peer


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


# the state down


def test_down_refuses_and_closes_and_comes_back(rig):
    connection = rig.dial_and_talk()
    assert rig.client.set_enabled(rig.name, False).enabled is False
    assert connection.ending() in ("closed", "reset")
    with pytest.raises(ConnectionRefusedError):
        rig.dial()
    assert rig.client.set_enabled(rig.name, True).listen == rig.state.listen
    rig.dial_and_talk()


def test_down_drops_what_a_latency_holds(rig):
    rig.add("latency", "upstream", latency=LONG_MS)
    connection = rig.dial()
    connection.sendall(b"write")
    assert connection.see() == "silence"
    rig.client.set_enabled(rig.name, False)
    until(lambda: rig.upstream.ends)
    assert rig.upstream.all_received == b""


def test_toxics_survive_down(rig):
    rig.add("timeout", "upstream", timeout=0)
    rig.client.set_enabled(rig.name, False)
    rig.client.set_enabled(rig.name, True)
    connection = rig.dial()
    connection.sendall(b"hi")
    assert connection.see() == "silence"


def test_deleting_a_proxy_closes_its_connections(rig):
    connection = rig.dial_and_talk()
    rig.client.delete_proxy(rig.name)
    assert connection.ending() in ("closed", "reset")
    with pytest.raises(ConnectionRefusedError):
        rig.dial()


def test_a_new_upstream_closes_the_connections_to_the_old_one(rig):
    connection = rig.dial_and_talk()
    rig.client.ensure_proxy(rig.name, rig.state.listen, "127.0.0.1:9")
    assert connection.ending() in ("closed", "reset")


def test_two_toxics_of_both_streams_live_and_die_apart(rig):
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
