"""The gateway's cost beside Toxiproxy's: one client, one upstream, the three ways taken in turn."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from windtunnel.baggage import Identity
from windtunnel.catalog import LINKS
from windtunnel.settings import Source, resolve
from windtunnel.state import State
from windtunnel.topology import LOOPBACK, TOPOLOGY_VARIABLE, Address, address_of, bind, default_topology

FREE = Address(LOOPBACK, 0)
BODY = json.dumps({"results": [{"position": n, "title": "t" * 40} for n in range(6)]}).encode()[:490]
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
RUN, EPISODE = "bench", "e1"


def measure_gateway(requests: int = 3000, batch: int = 50) -> dict[str, Any]:
    """p50 in microseconds: straight, through Toxiproxy, and through the gateway.

    ``gateway`` is with an attempt on the lane: identified, fingerprinted, drawn for, recorded;
    ``gateway_bare`` outside any. The ways are taken in turn, ``batch`` requests each, by one client that
    keeps its connections; ``ratio`` is the gateway's p50 over Toxiproxy's.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(_upstream())
        server, proxy = stack.enter_context(_toxiproxy(upstream))
        busy = stack.enter_context(_gateway(Path(folder) / "busy", upstream, attempt=True))
        bare = stack.enter_context(_gateway(Path(folder) / "bare", upstream, attempt=False))
        ways = {"direct": upstream, "toxiproxy": proxy, "gateway": busy, "gateway_bare": bare}
        p50 = _interleaved(ways, requests, batch)
    ratios = {
        "ratio": p50["gateway"] / p50["toxiproxy"],
        "ratio_bare": p50["gateway_bare"] / p50["toxiproxy"],
    }
    return {"toxiproxy_server": server, "requests": requests, "p50_us": p50, **ratios}


def _interleaved(ways: dict[str, Address], requests: int, batch: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in ways}
    with ExitStack() as stack:
        clients = {name: stack.enter_context(_dial(address)) for name, address in ways.items()}
        for client in clients.values():
            _ask(client, 0, 200)  # warm up
        for start in range(0, requests, batch):
            for name, client in clients.items():
                taken[name] += _ask(client, start, batch)
    return {name: round(statistics.median(times) * 1e6, 1) for name, times in taken.items()}


def _dial(address: Address) -> socket.socket:
    client = socket.create_connection((address.host, address.port), timeout=10)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _ask(client: socket.socket, start: int, count: int) -> list[float]:
    """Seconds taken by each of ``count`` requests, no two of which ask for the same."""
    taken = []
    for number in range(start, start + count):
        headers = {
            "Host": "tool:6000",
            "User-Agent": "python-requests/2.32",
            "Accept-Encoding": "gzip, deflate",
            "Accept": "*/*",
            "Connection": "keep-alive",
            **Identity(RUN, EPISODE, 1, 1, 1).headers("search"),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"GET /serp?q=number+{number} HTTP/1.1\r\n{lines}\r\n".encode()
        began = time.perf_counter()
        client.sendall(request)
        got = len(client.recv(65536))
        while got < len(REPLY):
            got += len(client.recv(65536))
        taken.append(time.perf_counter() - began)
    return taken


@contextmanager
def _upstream() -> Iterator[Address]:
    with _child(["-m", "bench.gateway", "upstream"], {}, capture=True) as child:
        assert child.stdout is not None
        yield Address(LOOPBACK, int(child.stdout.readline()))


@contextmanager
def _toxiproxy(upstream: Address) -> Iterator[tuple[str, Address]]:
    """The name of the server and its proxy's address; the real one if there is one."""
    binary = os.environ.get("TOXIPROXY_SERVER") or shutil.which("toxiproxy-server")
    api, proxy = _free_address(), _free_address()
    where = ["--host", api.host, "--port", str(api.port)]
    command = [binary, *where] if binary else [sys.executable, "-m", "proxy_manager.embedded", *where]
    with _child(command, {}, program="") as _:
        _until_open(api)
        body = {"name": "bench", "listen": str(proxy), "upstream": str(upstream), "enabled": True}
        request = urllib.request.Request(api.url + "/proxies", json.dumps(body).encode(), method="POST")
        urllib.request.urlopen(request, timeout=5).close()
        yield ("real" if binary else "embedded"), proxy


@contextmanager
def _gateway(folder: Path, upstream: Address, *, attempt: bool) -> Iterator[Address]:
    folder.mkdir(parents=True)
    base = default_topology("bench")
    topology = replace(
        base,
        services=dict.fromkeys(base.services, upstream),
        gateways={link.name: _free_address() for link in LINKS},
        control=_free_address(),
    )
    topology.dump(folder / "topology.json")
    environ = {
        TOPOLOGY_VARIABLE: str(folder / "topology.json"),
        "STATE_DB": str(folder / "state.db"),
        "LOGS_DIR": str(folder / "logs"),
    }
    with _child(["-m", "windtunnel.gateway"], environ):
        _until_open(topology.control)
        if attempt:
            _begin(folder / "state.db", topology.control)
        yield topology.gateways["search"]


def _begin(state_db: Path, control: Address) -> None:
    # a chance so small that no error is drawn, yet every request is held, fingerprinted and drawn for
    settings = resolve([Source("bench", {"seed": 1, "error_prob": 1e-12})])
    with State(state_db) as state:
        state.insert_run(RUN, "bench", 0, settings.dump(), settings.hash, settings.seed, time.time())
    body = {"run_id": RUN, "episode": EPISODE, "attempt": 1, "settings_hash": settings.hash}
    request = urllib.request.Request(control.url + "/lanes/0", json.dumps(body).encode(), method="PUT")
    urllib.request.urlopen(request, timeout=5).close()


@contextmanager
def _child(
    arguments: list[str], environ: dict[str, str], *, program: str = sys.executable, capture: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    command = [program, *arguments] if program else arguments
    child = subprocess.Popen(
        command,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE if capture else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _free_address() -> Address:
    with bind(FREE) as listener:
        return address_of(listener)


def _until_open(address: Address) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection((address.host, address.port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class _Answer(asyncio.Protocol):
    """The upstream: the same reply to every request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\r\n\r\n"):
            self._transport.write(REPLY)


async def _serve_upstream() -> None:
    listener = bind(FREE)
    print(address_of(listener).port, flush=True)
    server = await asyncio.get_running_loop().create_server(_Answer, sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:] == ["upstream"]:
        import uvloop

        uvloop.run(_serve_upstream())
    else:
        print(json.dumps(measure_gateway(), indent=1))
