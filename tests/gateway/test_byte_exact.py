"""After the four declared rewrites, relayed bytes equal a direct connection's in both directions.

``BYTE_EXACT_REQUESTS=10000 pytest tests/gateway/test_byte_exact.py`` for as many requests.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.gateway.lab import Lab, dial, gateway
from tests.gateway.wire_exchanges import (
    CONTINUE,
    HOST,
    MIB,
    WireExchange,
    block,
    chunked,
    content,
    wire_exchanges,
)
from tests.support import PATIENCE_S, examples
from tests.upstream import Upstream, read_all
from wirefault.core.sockets import Address

pytestmark = pytest.mark.slow  # its clients wait for their time limits

REQUESTS = int(os.environ.get("BYTE_EXACT_REQUESTS") or examples(600))
AT_ONCE = 20
Ends = tuple[bytes, bytes]  # bytes that the upstream and the client got
LARGEST = 64 * MIB if REQUESTS > 1000 else 2 * MIB


def at_once(connection: socket.socket) -> None:
    """Send every piece when it is written, without Nagle's algorithm, in bounded time."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(PATIENCE_S)


class Script:
    """An upstream that reads as many bytes as each request should have, and gives its reply."""

    def __init__(self) -> None:
        self.exchanges: list[tuple[bytes, WireExchange]] = []
        self.heard = b""
        self.over = threading.Event()
        self.upstream = Upstream(self.serve)
        self.authority = str(self.upstream.address).encode()

    def serve(self, connection: socket.socket) -> None:
        at_once(connection)
        heard = []
        try:
            for head, exchange in self.exchanges:
                heard.append(read_all(connection, len(head)))
                if exchange.waits:
                    connection.sendall(CONTINUE)
                heard.append(read_all(connection, len(exchange.body)))
                for piece in exchange.pieces:
                    connection.sendall(piece)
                if exchange.raw is not None:
                    heard.append(read_all(connection, len(exchange.raw)))
                    connection.sendall(exchange.raw[::-1])
            if not self.exchanges[-1][1].ends:
                heard.append(read_all(connection))
        finally:
            self.heard = b"".join(heard)
            self.over.set()


@dataclass
class Way:
    """A link in a state of its lane. ``added``: header lines that its requests get."""

    lab: Lab
    link: str
    added: list[bytes]

    def rewritten(self, exchange: WireExchange, authority: bytes) -> list[bytes]:
        """The header block as it must reach the upstream."""
        lines = [line if line is not HOST else b"hOsT: " + authority for line in exchange.lines]
        if self.link == "model":
            lines[0] = prefixed(lines[0], b" /v1/" if self.added else b" /openai/v1/")
            gone = [b"wirefault-"] if self.added else []
        else:
            gone = [line.partition(b":")[0].lower() for line in self.added]
        lines = [line for line in lines if not line.lower().startswith(tuple(gone))]
        return lines + (self.added if self.link != "model" else [])


def prefixed(first: bytes, prefix: bytes) -> bytes:
    known = next((known for known in (b" /openai/v1/", b" /v1/") if known in first), prefix)
    return first.replace(known, prefix)


def hold(
    script: Script, address: Address, messages: list[tuple[bytes, WireExchange]], pipelined: bool
) -> tuple[bytes, bytes]:
    """Return the bytes that the upstream and the client got on the connection."""
    script.over.clear()
    got = []
    with dial(address) as client:
        at_once(client)
        whole = b"".join(head + exchange.body for head, exchange in messages)
        sender = threading.Thread(target=client.sendall, args=(whole,))
        if pipelined:
            sender.start()
        for head, exchange in messages:
            if not pipelined:
                client.sendall(head if exchange.waits else head + exchange.body)
            if exchange.waits and not pipelined:
                got.append(read_all(client, len(CONTINUE)))
                client.sendall(exchange.body)
            got.append(
                read_all(client, len(exchange.reply) - len(CONTINUE) * (exchange.waits and not pipelined))
            )
            if exchange.raw is not None:
                client.sendall(exchange.raw)
                got.append(read_all(client, len(exchange.raw)))
        if pipelined:
            sender.join()
        if not messages[-1][1].ends:
            client.shutdown(socket.SHUT_WR)
        got.append(read_all(client))
    assert script.over.wait(PATIENCE_S)
    return script.heard, b"".join(got)


def check(script: Script, way: Way, whole: list[WireExchange], pipelined: bool) -> None:
    expected = [(block(way.rewritten(exchange, script.authority)), exchange) for exchange in whole]
    messages = [(block(exchange.lines), exchange) for exchange in whole]
    script.exchanges = expected
    direct = hold(script, script.upstream.address, expected, pipelined)
    through = hold(script, way.lab.address(way.link), messages, pipelined)
    same = [here == there for here, there in zip(direct, through, strict=True)]
    assert same == [True, True], first_difference(direct, through)


def first_difference(direct: Ends, through: Ends) -> str:
    here, there = next(pair for pair in zip(direct, through, strict=True) if pair[0] != pair[1])
    ends = (at for at, (one, other) in enumerate(zip(here, there, strict=False)) if one != other)
    at = next(ends, min(len(here), len(there)))
    return f"at {at}: {here[max(0, at - 80) : at + 80]!r} became {there[max(0, at - 80) : at + 80]!r}"


@pytest.fixture(scope="module")
def script() -> Iterator[Script]:
    script = Script()
    yield script
    script.upstream.close()


@pytest.fixture(scope="module", params=["plain", "tls"])
def ways(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, script: Script
) -> Iterator[list[Way]]:
    """No attempt on the lane; one without a fault; one with an armed fault that is never met; both models.

    All over plain HTTP, and all over TLS that the gateway terminates.
    """
    address = script.upstream.address
    foreign = {"model": "compatible", "model_base_url": address.url + "/v1"}
    differences = []
    with ExitStack() as stack:
        for name, settings in (
            ("bare", None),
            ("quiet", {}),
            ("armed", {"error_prob": 1e-12}),
            ("foreign", foreign),
        ):
            folder: Path = tmp_path_factory.mktemp(name)
            lab = stack.enter_context(
                gateway(folder, weather=address, model=address, intercepts=request.param == "tls")
            )
            added = []
            if settings is not None:
                lab.begin(**settings)
                world = f"Wirefault-World: {lab.run_id}/e1".encode()
                added = [world, f"Wirefault-Translator: {lab.settings.translator_backend}".encode()]
            differences.append(Way(lab, "weather", added))
            if name in ("quiet", "foreign"):
                differences.append(Way(lab, "model", [b"foreign"] if name == "foreign" else []))
        yield differences


def batches(largest: int) -> st.SearchStrategy[list[WireExchange]]:
    before = st.lists(wire_exchanges(largest), min_size=AT_ONCE - 1, max_size=AT_ONCE - 1)
    return st.tuples(before, wire_exchanges(largest, last=True)).map(lambda pair: [*pair[0], pair[1]])


@settings(
    max_examples=REQUESTS // AT_ONCE,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
@given(batches(LARGEST), st.integers(0, 5), st.booleans())
def test_relayed_bytes_equal_direct_bytes(
    script: Script, ways: list[Way], whole: list[WireExchange], way: int, pipelined: bool
) -> None:
    check(script, ways[way], whole, pipelined)


@pytest.mark.parametrize(("way", "framing"), [(0, "length"), (3, "chunks"), (5, "close")])
def test_64_mib_in_each_direction(script: Script, ways: list[Way], way: int, framing: str) -> None:
    data = content(examples(64) * MIB)
    lines, body = [b"Content-Length: %d" % len(data)], data
    if framing == "chunks":
        lines, body = [b"Transfer-Encoding: chunked"], chunked(data, 1_000_003, b";x=y", b"T: u\r\n")
    ends = framing == "close"
    expected_lines = [b"HTTP/1.1 200 OK", *(lines if not ends else [b"Connection: close"])]
    exchange = WireExchange((b"PUT / HTTP/1.1", HOST, *lines), body, (block(expected_lines), body), ends=ends)
    check(script, ways[way], [exchange], pipelined=True)
