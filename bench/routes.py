"""Routes to one upstream: direct, or through a process of Toxiproxy, mitmproxy or the gateway."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wirefault.core.control_access import TOKEN_FILE, bearer
from wirefault.core.identity import Identity
from wirefault.core.run_key import derive_run_key
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.runner.run import with_bodies_decided
from wirefault.settings.sources import Source, merge_sources
from wirefault.state.state import State
from wirefault.wiring.links import Link, Links, lab_links
from wirefault.wiring.topology import TOPOLOGY_VARIABLE, default_topology

FREE = Address(LOOPBACK, 0)
BODY = json.dumps({"results": [{"position": n, "title": "t" * 40} for n in range(6)]}).encode()[:490]
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
RUN, EPISODE = "bench", "e1"
TOKEN = "token-of-the-bench"
HEADERS = {
    "Host": "tool:6000",
    "User-Agent": "python-requests/2.32",
    "Accept-Encoding": "gzip, deflate",
    "Accept": "*/*",
    "Connection": "keep-alive",
    **Identity(RUN, EPISODE, 1, 1, 1).headers("search", key=derive_run_key(TOKEN, RUN)),
}
REQUEST = (
    "GET /serp?q=number+%d HTTP/1.1\r\n"
    + "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    + "\r\n"
).encode()
# a probability too small to occur, although every request is held, fingerprinted and drawn for
IDLE: Mapping[str, Any] = {"error_prob": 1e-12}
MITMPROXY = "mitmproxy==11.0.2"


@dataclass(frozen=True)
class Toxiproxy:
    """A running server: display name, API, proxy, process id."""

    name: str
    api: Address
    proxy: Address
    pid: int


@contextmanager
def upstream() -> Iterator[Address]:
    """Start an upstream that answers every header block with ``REPLY``."""
    with child([sys.executable, "-m", "bench.routes"], capture=True) as process:
        assert process.stdout is not None
        yield Address(LOOPBACK, int(process.stdout.readline()))


def real_toxiproxy() -> str | None:
    """Return the real server's program, if installed."""
    return os.environ.get("TOXIPROXY_SERVER") or shutil.which("toxiproxy-server")


@contextmanager
def toxiproxy(behind: Address, binary: str | None) -> Iterator[Toxiproxy]:
    """Start a server with one proxy, ``bench``: the program ``binary``, or the embedded server."""
    api, proxy = free_address(), free_address()
    program = [binary] if binary else [sys.executable, "-m", "wirefault.toxiproxy.embedded"]
    with child([*program, "--host", api.host, "--port", str(api.port)]) as process:
        until_open(api)
        body = {"name": "bench", "listen": str(proxy), "upstream": str(behind), "enabled": True}
        _post("POST", api.url + "/proxies", body)
        yield Toxiproxy("real" if binary else "embedded", api, proxy, process.pid)


@contextmanager
def gateway(
    folder: Path,
    behind: Address,
    *,
    attempt: bool,
    settings: Mapping[str, Any] = IDLE,
    wired: bool = False,
    intercepts: bool = False,
) -> Iterator[tuple[int, Address]]:
    """Start a gateway, with or without an attempt on its lane; yield its process id and its address.

    ``wired``: the link leads to an address in a wiring, not to a service of the lab. ``intercepts``: its
    clients may speak TLS.
    """
    folder.mkdir(parents=True)
    links = Links([Link("search", upstream=behind.url)]) if wired else lab_links()
    base = default_topology("bench", links=links)
    topology = replace(
        base,
        services=dict.fromkeys(base.services, behind),
        gateways={link.name: free_address() for link in links},
        control=free_address(),
        ingress=FREE if intercepts else None,
    )
    topology.dump(folder / "topology.json")
    (folder / "token").write_text(TOKEN, encoding="ascii")
    environ = {
        TOPOLOGY_VARIABLE: str(folder / "topology.json"),
        "STATE_DB": str(folder / "state.db"),
        "LOGS_DIR": str(folder / "logs"),
        TOKEN_FILE: str(folder / "token"),
    }
    with child([sys.executable, "-m", "wirefault.gateway"], environ) as process:
        until_open(topology.control)
        if attempt:
            _begin(folder, topology.control, settings)
        yield process.pid, topology.gateways["search"]


def _begin(folder: Path, control: Address, values: Mapping[str, Any]) -> None:
    drawn = merge_sources([Source("bench", {"seed": 1, **values})])
    settings = with_bodies_decided(drawn, recorded=True)  # as in a run of the lab's own subject
    with State(folder / "state.db") as state:
        state.insert_run(RUN, "bench", 0, settings.dump(), settings.hash, settings.seed, time.time())
    body = {"run_id": RUN, "episode": EPISODE, "attempt": 1, "settings_hash": settings.hash}
    _post("PUT", control.url + "/lanes/0", body, bearer(TOKEN))


@contextmanager
def mitmproxy(behind: Address) -> Iterator[Address]:
    """Start mitmproxy in reverse mode, in a virtual environment under the user's cache folder.

    Raises ``OSError`` or ``subprocess.SubprocessError`` if it cannot be installed.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "wirefault" / f"{MITMPROXY}-py{sys.version_info.major}.{sys.version_info.minor}"
    ready, program = folder / "ready", folder / "bin" / "mitmdump"
    if not ready.exists():
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", MITMPROXY]
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=120)
        subprocess.run(install, check=True, timeout=600, capture_output=True)
        ready.touch()
    proxy = free_address()
    where = ["--listen-host", proxy.host, "--listen-port", str(proxy.port)]
    options = ["--quiet", "--set", f"confdir={folder / 'conf'}", "--mode", f"reverse:{behind.url}"]
    with child([str(program), *options, *where]):
        until_open(proxy)
        yield proxy


@contextmanager
def child(
    command: list[str], environ: Mapping[str, str] | None = None, *, capture: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that ends with the block."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE if capture else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _post(method: str, url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
    as_json = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, json.dumps(body).encode(), as_json, method=method)
    urllib.request.urlopen(request, timeout=5).close()


def rss_mib(pid: int) -> float:
    """Return a process's resident memory in MiB."""
    listing = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return round(int(listing.stdout) / 1024, 1)


def free_address() -> Address:
    with bind(FREE) as listener:
        return bound_address(listener)


def until_open(address: Address) -> None:
    """Wait at most 20 s until the port accepts connections. Raises ``OSError``."""
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((address.host, address.port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class Answer(asyncio.Protocol):
    """Answers every header block with ``REPLY``."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\r\n\r\n"):
            self._transport.write(REPLY)


async def _serve_upstream() -> None:
    listener = bind(FREE)
    print(bound_address(listener).port, flush=True)
    server = await asyncio.get_running_loop().create_server(Answer, sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve_upstream())
