"""Large and slow transfers, and changes during them"""

import contextlib
import hashlib
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.wire import STREAMS, both_streams

MEGABYTE = 2**20
GENTLE = {
    "latency": {"latency": 20, "jitter": 5},
    "bandwidth": {"rate": 200_000},
    "slicer": {"average_size": 20_000, "size_variation": 5_000},
    "limit_data": {"bytes": 2**40},
    "slow_close": {"delay": 20},
}


def digest_of(receiver):
    """Read until EOF."""
    digest = hashlib.sha256()
    while piece := receiver.recv(MEGABYTE):
        digest.update(piece)
    return digest.hexdigest()


def transfer(sender, receiver, megabytes, meanwhile=contextlib.nullcontext):
    """Send random data and EOF; return whether all of it arrived."""
    block = random.Random(1).randbytes(MEGABYTE)
    source_digest = hashlib.sha256(block * megabytes).hexdigest()
    with ThreadPoolExecutor(1) as pool:
        arrived = pool.submit(digest_of, receiver)
        with meanwhile():
            for _ in range(megabytes):
                sender.sendall(block)
        sender.close()
        return arrived.result() == source_digest


@both_streams
@pytest.mark.parametrize("kind", [None, *GENTLE])
def test_24_megabytes_arrive_unchanged(line, stream, kind):
    if kind:
        line.add(kind, stream, **GENTLE[kind])
    assert transfer(*line.flow(stream), 24)


@both_streams
def test_16_megabytes_arrive_unchanged_through_all_kinds(line, stream):
    for kind, attributes in GENTLE.items():
        line.add(kind, stream, kind, **attributes)
    assert transfer(*line.flow(stream), 16)


@both_streams
def test_data_arrives_unchanged_while_toxics_change(line, stream):
    sender, receiver = line.flow(stream)

    @contextlib.contextmanager
    def unrest():
        done = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            restless = pool.submit(worry, done)
            yield
            done.set()
            assert restless.result() >= 1

    def worry(done):
        rounds = 0
        while not done.is_set() or not rounds:
            for kind, attributes in GENTLE.items():
                line.add(kind, stream, kind, toxicity=0.7, **attributes)
            for kind, attributes in GENTLE.items():
                line.update(kind, **attributes)
            for kind in random.Random(rounds).sample(list(GENTLE), len(GENTLE)):
                line.remove(kind)
            rounds += 1
        return rounds

    assert transfer(sender, receiver, 32, unrest)


def test_both_directions_concurrently(line):
    client, server = line.open()
    for stream in STREAMS:
        line.add("latency", stream, stream, latency=5)
    block = random.Random(2).randbytes(4 * MEGABYTE)
    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(end.read, len(block)) for end in (client, server)]
        for end in (client, server):
            pool.submit(end.sendall, block)
        assert all(read.result() == block for read in reading)


@both_streams
def test_32_concurrent_connections_through_toxic(line, stream):
    line.add("slicer", stream, average_size=1_000, delay=100)
    flows = [line.flow(stream) for _ in range(32)]
    with ThreadPoolExecutor(32) as pool:
        reading = [pool.submit(receiver.read, 20_000) for _, receiver in flows]
        for number, (sender, _) in enumerate(flows):
            sender.sendall(bytes([number]) * 20_000)
        assert [read.result() for read in reading] == [bytes([number]) * 20_000 for number in range(32)]


@both_streams
def test_slow_transfer_arrives_byte_by_byte(line, stream):
    sender, receiver = line.flow(stream)
    line.add("slicer", stream, average_size=1, delay=20_000)
    sender.sendall(b"0123456789")
    assert receiver.read(10) == b"0123456789"


@both_streams
def test_aborted_peer_ends_other_side(line, stream):
    line.add("bandwidth", stream, rate=1)
    sender, receiver = line.flow(stream)
    sender.sendall(b"x" * 5000)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    receiver.close()
    assert sender.ending() in ("closed", "reset")
