"""Which requests a fault with a probability strikes: as many as it should, and always the same ones.

``FAULT_DRAWS=10000`` asks for that many requests each way, instead of the few of a usual test run.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.lab import Lab, Upstream, gateway, read_head
from windtunnel.baggage import Identity

COUNT = int(os.environ.get("FAULT_DRAWS", "600"))
SHARE = 0.3
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    def serve(connection):  # type: ignore[no-untyped-def]
        rest = b""
        while True:
            _, rest = read_head(connection, rest)
            connection.sendall(OK)

    upstream = Upstream(serve)
    folder: Path = tmp_path_factory.mktemp("draws")
    with gateway(folder, search=upstream.address) as lab:
        yield lab
    upstream.close()


async def _client(lab: Lab, calls: list[int], keep_alive: bool, struck: set[int]) -> None:
    address = lab.address("search")
    reader = writer = None
    for call in calls:
        if writer is None or reader is None:
            reader, writer = await asyncio.open_connection(address.host, address.port)
        headers = Identity(lab.run_id, "e1", 1, call, 1).headers("search")
        if not keep_alive:
            headers["Connection"] = "close"
        lines = ["GET / HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 503"):
            struck.add(call)
            await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
        if not keep_alive:
            writer.close()
            await writer.wait_closed()
            reader = writer = None
    if writer is not None:
        writer.close()
        await writer.wait_closed()


def struck_by(lab: Lab, clients: int, keep_alive: bool) -> set[int]:
    fault = {"fault": "unavailable", "links": "search", "when": {"probability": SHARE}}
    lab.begin(seed=5, faults=json.dumps({"faults": [fault]}))
    struck: set[int] = set()

    async def all_of_them() -> None:
        shares = [list(range(1 + first, COUNT + 1, clients)) for first in range(clients)]
        await asyncio.gather(*(_client(lab, share, keep_alive, struck) for share in shares))

    asyncio.run(all_of_them())
    return struck


def test_the_same_requests_are_struck_whoever_sends_them_and_how(lab: Lab) -> None:
    struck = struck_by(lab, clients=1, keep_alive=True)
    assert struck == struck_by(lab, clients=32, keep_alive=True)
    assert struck == struck_by(lab, clients=32, keep_alive=False)
    assert struck == struck_by(lab, clients=1, keep_alive=False)
    expected, deviation = COUNT * SHARE, math.sqrt(COUNT * SHARE * (1 - SHARE))
    assert abs(len(struck) - expected) <= 2.58 * deviation  # the 99 % interval
