"""A server that does nothing but answer, by TLS or without: what TLS costs before there is a gateway.

``python -m bench.bare_server plain|tls`` prints its port.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import uvloop

from bench import ways
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.gateway.intercept.certificate_authority import Authority


@contextmanager
def bare_server(speaking: str) -> Iterator[tuple[int, Address]]:
    """Its process id and its address."""
    with ways.child([sys.executable, "-m", "bench.bare_server", speaking], capture=True) as process:
        assert process.stdout is not None
        yield process.pid, Address(LOOPBACK, int(process.stdout.readline()))


async def _serve(speaking: str) -> None:
    # the gateway's own certificates and settings, and uvloop's TLS
    context = Authority(lambda: datetime.now(UTC)).context("bench.example") if speaking == "tls" else None
    listener = bind(ways.FREE)
    print(bound_address(listener).port, flush=True)
    server = await asyncio.get_running_loop().create_server(ways.Answer, sock=listener, ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
