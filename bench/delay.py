"""Accuracy of an injected delay, measured at a client against the same requests without it.

``python -m bench.delay [requests]`` runs only this benchmark.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench import routes
from bench.load import load_average
from wirefault.core.sockets import Address
from wirefault.history.events import Exchange
from wirefault.history.reader import read_file
from wirefault.history.writer import history_file
from wirefault.stats.rates import percentile

DELAY_MS, PER_SECOND, CONNECTIONS = 50, 50, 16


def measure_delay(requests: int = 600) -> dict[str, Any]:
    """Measure the error of an injected delay in ``requests`` requests, in milliseconds.

    Requests leave at fixed times (open loop): 50 delayed requests per second, alternating with undelayed.
    The error is a delayed request's extra time minus the delay. ``gateway_error_ms`` is from the gateway's
    record. ``timer_late_ms`` is the lateness of the client's timers, which only the machine causes.
    """
    fault = {
        "fault": "delay",
        "links": "search",
        "with": {"ms": DELAY_MS},
        "only": {"header": {"X-Late": "1"}},
    }
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name) / "delay"
        upstream = stack.enter_context(routes.upstream())
        settings = {"error_prob": 0, "faults": {"faults": [fault]}}
        gateway = routes.gateway(folder, upstream, attempt=True, settings=settings)
        _, address = stack.enter_context(gateway)
        plain, late, timers = asyncio.run(_paced(address, requests))
        own = _delays(folder)
    errors = [(there - here) * 1000 - DELAY_MS for here, there in zip(plain, late, strict=True)]
    return {
        "requests": len(errors),
        "delay_ms": DELAY_MS,
        "load_average": load_average(),
        "plain_ms": _spread([seconds * 1000 for seconds in plain]),
        "error_ms": _spread([abs(error) for error in errors]),
        "bias_ms": round(median(errors), 3),
        "gateway_error_ms": _spread([abs(ms - DELAY_MS) for ms in own]),
        "timer_late_ms": _spread([seconds * 1000 for seconds in timers]),
    }


async def _paced(address: Address, requests: int) -> tuple[list[float], list[float], list[float]]:
    """Return each request's seconds without and with the delay, and its lateness."""
    clients = [await _Client.connect(address) for _ in range(CONNECTIONS)]
    loop, start = asyncio.get_running_loop(), asyncio.get_running_loop().time() + 0.1
    for number in range(2 * requests):
        header = b"\r\nX-Late: %d\r\n\r\n" % (number % 2)
        request = (routes.REQUEST % (number // 2)).replace(b"\r\n\r\n", header)
        at = start + number / (2 * PER_SECOND)
        loop.call_at(at, clients[number % CONNECTIONS].ask, request, at)
    while sum(len(client.taken) for client in clients) < 2 * requests:
        if loop.time() > start + requests / PER_SECOND + 30:
            raise RuntimeError("some requests have no reply")
        await asyncio.sleep(0.1)
    for client in clients:
        client.transport.close()
    taken = [clients[n % CONNECTIONS].taken[n // CONNECTIONS] for n in range(2 * requests)]
    return taken[::2], taken[1::2], [late for client in clients for late in client.late]


class _Client(asyncio.Protocol):
    """One connection. ``taken`` has each request's seconds, ``late`` the seconds by which it left late."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.late: list[float] = []
        self._asked: list[float] = []
        self._got = b""

    @classmethod
    async def connect(cls, address: Address) -> _Client:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(cls, address.host, address.port))[1]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def ask(self, request: bytes, at: float) -> None:
        self.late.append(asyncio.get_running_loop().time() - at)
        if len(self._asked) > len(self.taken):
            raise RuntimeError("the connection is still waiting for the previous reply")
        self._asked.append(time.perf_counter())
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._got.endswith(routes.BODY):
            self.taken.append(time.perf_counter() - self._asked[-1])
            self._got = b""


def _delays(folder: Path) -> list[float]:
    """Return the delay of each request in milliseconds, from the gateway's record."""
    history = history_file(folder / "logs", routes.RUN, "gateway", 0)
    exchanges = [event for event in read_file(history) if isinstance(event, Exchange)]
    return [fault.delay_ms for exchange in exchanges for fault in exchange.faults]


def _spread(figures: Sequence[float]) -> dict[str, float]:
    ordered = sorted(figures)
    return {
        "p50": round(percentile(ordered, 50) or 0, 3),
        "p99": round(percentile(ordered, 99) or 0, 3),
        "max": round(ordered[-1], 3),
    }


if __name__ == "__main__":
    print(json.dumps(measure_delay(*map(int, sys.argv[1:])), indent=1))
