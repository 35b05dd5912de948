"""A server with a constant reply, with or without TLS: the cost of TLS without a gateway.

``python -m bench.bare_server plain|tls`` prints its port.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import uvloop

from bench import routes
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.gateway.intercept.certificate_authority import Authority


@contextmanager
def bare_server(speaking: str) -> Iterator[tuple[int, Address]]:
    """Start the server; yield its process id and address."""
    with routes.child([sys.executable, "-m", "bench.bare_server", speaking], capture=True) as process:
        assert process.stdout is not None
        yield process.pid, Address(LOOPBACK, int(process.stdout.readline()))


async def _serve(speaking: str) -> None:
    # same certificates, settings and TLS implementation (uvloop) as the gateway
    context = Authority(lambda: datetime.now(UTC)).context("bench.example") if speaking == "tls" else None
    listener = bind(routes.FREE)
    print(bound_address(listener).port, flush=True)
    server = await asyncio.get_running_loop().create_server(routes.Answer, sock=listener, ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
