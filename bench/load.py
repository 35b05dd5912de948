"""Generate HTTP load on an address, with wrk if it is on PATH, else with a simple client."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import ssl
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from wirefault.core.sockets import Address

_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}
_SCRIPT = """
local requests, n = {}, 0
init = function() for i = 1, 2000 do requests[i] = string.format("%s", i) end end
request = function() n = n %% 2000 + 1; return requests[n] end
"""


@dataclass(frozen=True)
class Load:
    """The result; ``p50_us`` and ``p99_us`` are times of one request in microseconds."""

    requests: int
    per_second: float
    p50_us: float
    p99_us: float


def load(
    address: Address, template: bytes, connections: int, seconds: int, tls: ssl.SSLContext | None = None
) -> Load:
    """Generate load. ``template`` is a request with a ``%d``, so that all of 2000 requests differ.

    ``tls``: the clients' TLS, None for plain HTTP. Raises ``RuntimeError`` if a reply's status was not 200.
    """
    if shutil.which("wrk"):
        url = f"https://{address}" if tls is not None else address.url
        return _wrk(url, template, connections, seconds)
    return asyncio.run(_own(address, template, connections, seconds, tls))


def generator() -> str:
    """Return the name of the load generator."""
    return "wrk" if shutil.which("wrk") else "asyncio"


def load_average() -> float:
    """Return this machine's load average over the last minute, to show other activity."""
    return round(os.getloadavg()[0], 1)


def _wrk(url: str, template: bytes, connections: int, seconds: int) -> Load:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        text = template.decode().replace('"', r"\"").replace("\r\n", r"\r\n")
        Path(script.name).write_text(_SCRIPT % text)
        options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", script.name]
        done = subprocess.run(["wrk", *options, url], capture_output=True, text=True, check=True)
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"wrk at {url}: {done.stdout}")
    count = re.search(r"(\d+) requests in", done.stdout)
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", done.stdout)
    taken = {
        share: float(time_) * _UNITS[unit]
        for share, time_, unit in re.findall(r"(50|99)%\s+([0-9.]+)(us|ms|s)", done.stdout)
    }
    assert count and rate and len(taken) == 2, done.stdout
    return Load(int(count[1]), float(rate[1]), taken["50"], taken["99"])


async def _own(
    address: Address, template: bytes, connections: int, seconds: int, tls: ssl.SSLContext | None
) -> Load:
    until = time.perf_counter() + seconds
    work = [_ask(address, template, number, until, tls) for number in range(connections)]
    taken = [time_ for times in await asyncio.gather(*work) for time_ in times]
    cuts = statistics.quantiles(taken, n=100)
    return Load(len(taken), len(taken) / seconds, cuts[49] * 1e6, cuts[98] * 1e6)


async def _ask(
    address: Address, template: bytes, number: int, until: float, tls: ssl.SSLContext | None
) -> list[float]:
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    taken = []
    try:
        while (began := time.perf_counter()) < until:
            number += 1
            writer.write(template % (number % 2000))
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *([0-9]+)", head)
            if b" 200 " not in head or length is None:
                raise RuntimeError(f"{address} answered {head!r}")
            await reader.readexactly(int(length[1]))
            taken.append(time.perf_counter() - began)
    finally:
        writer.close()
    return taken
