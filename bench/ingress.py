"""Cost of the ingress: one client and one server, by the link's address and through the ingress, in turn.

``python -m bench.ingress [rounds]`` runs only this benchmark.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import uvloop

from bench import routes
from bench.connecting import Visit, visit
from bench.load import load_average
from wirefault.core.sockets import Address
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring

_HOST = "bench.test"
_SECONDS = 1.0
_GET = b"GET %b HTTP/1.1\r\nHost: " + _HOST.encode() + b"\r\n\r\n"


@dataclass(frozen=True)
class Way:
    """A way to the server: dial ``address``, send ``opening``, and request ``target``."""

    address: Address
    opening: bytes = b""
    target: bytes = b"/x"
    tls: ssl.SSLContext | None = None


def measure_ingress(rounds: int = 5) -> dict[str, Any]:
    """Return microseconds per request on a kept-alive connection (p50), and new connections per second.

    ``link`` dials the link's Toxiproxy proxy, like a subject that is wired by address. ``tunnel`` and
    ``request`` go through the ingress. In ``tunnel_tls`` the gateway ends the TLS. Each way has one second
    per round, on one connection at a time. A separate process with blocking sockets opens new connections
    and verifies nothing. A figure is the median over the rounds.
    """
    with tempfile.TemporaryDirectory() as folder, routes.upstream() as upstream:
        links = {"bench": {"upstream": upstream.url, "hosts": [_HOST]}}
        wiring = build_wiring(SpecFile("bench", {"links": links, "intercept": {}}), Path(folder))
        places = {
            "STATE_DB": f"{folder}/state/state.db",
            "EFFECTS_DB": f"{folder}/state/effects.db",
            "LOGS_DIR": f"{folder}/logs",
        }
        configuration = load_configuration({**os.environ, **places}, wiring=wiring)
        with Lab(configuration, Choice("embedded")) as lab:
            return uvloop.run(_measure(_ways_of(lab, upstream), rounds))


def _ways_of(lab: Lab, upstream: Address) -> Mapping[str, Way]:
    ingress = lab.topology.ingress
    assert ingress is not None
    with urllib.request.urlopen(lab.topology.control.url + "/authority", timeout=5) as reply:
        trusting = ssl.create_default_context(cadata=json.load(reply)["pem"])
    opening = b"CONNECT %b:%d HTTP/1.1\r\nX-Tap: oneway\r\n\r\n"
    host = _HOST.encode()
    return {
        "direct": Way(upstream),
        "link": Way(lab.topology.proxies["bench"]),
        "tunnel": Way(ingress, opening % (host, 80)),
        "request": Way(ingress, target=b"http://" + host + b"/x"),
        "tunnel_tls": Way(ingress, opening % (host, 443), tls=trusting),
    }


async def _measure(ways_: Mapping[str, Way], rounds: int) -> dict[str, Any]:
    kept_alive: dict[str, list[float]] = {name: [] for name in ways_}
    new: dict[str, list[float]] = {name: [] for name in ways_}
    for number in range(rounds + 1):
        for name, way in ways_.items():
            p50_us, per_second = await _kept_alive(way), _new_connections(way)
            if number:  # not the warm-up
                kept_alive[name].append(p50_us)
                new[name].append(per_second)
    return {
        "load_average": load_average(),
        "kept_alive_p50_us": {name: round(median(figures), 1) for name, figures in kept_alive.items()},
        "new_connections_per_second": {name: round(median(figures)) for name, figures in new.items()},
    }


async def _kept_alive(way: Way) -> float:
    reader, writer = await _open(way)
    taken, until = [], time.perf_counter() + _SECONDS
    while (began := time.perf_counter()) < until:
        await _ask(way, reader, writer)
        taken.append(time.perf_counter() - began)
    writer.close()
    return median(taken) * 1e6


def _new_connections(way: Way) -> float:
    speaking: Literal["plain", "tls"] = "plain" if way.tls is None else "tls"
    order = Visit(way.address, (_GET % way.target).decode(), way.opening.decode(), speaking, _HOST)
    return visit(order, clients=1, seconds=_SECONDS).per_second


async def _open(way: Way) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(way.address.host, way.address.port)
    writer.write(way.opening)
    if way.tls is not None:
        await writer.start_tls(way.tls, server_hostname=_HOST)
    return reader, writer


async def _ask(way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_GET % way.target)
    await reader.readexactly(len(routes.REPLY))


if __name__ == "__main__":
    print(json.dumps(measure_ingress(*map(int, sys.argv[1:])), indent=1))
