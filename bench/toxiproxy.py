"""The embedded Toxiproxy compared with the real one: same load and upstream, measured in turn.

``python -m bench.toxiproxy [rounds]`` runs only this benchmark.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from contextlib import ExitStack
from statistics import median
from typing import Any

from bench import routes
from bench.load import Load, generator, load

_CROWD = 32
PAIRS = 300


def measure_toxiproxy(rounds: int = 5, seconds: int = 1) -> dict[str, Any] | None:
    """Measure latency (us) with one connection, requests per second with 1 and 32, toggles and memory.

    A toggle adds and removes a toxic over the HTTP API. In each round every server gets ``seconds`` of each.
    A figure is the median over the rounds, a ratio the median of the rounds' ratios. Memory (MiB) is read at
    the start and after all load. Returns None without a real server.
    """
    binary = routes.real_toxiproxy()
    if binary is None:
        return None
    with ExitStack() as stack:
        upstream = stack.enter_context(routes.upstream())
        servers = [stack.enter_context(routes.toxiproxy(upstream, program)) for program in (None, binary)]
        before = {server.name: routes.rss_mib(server.pid) for server in servers}
        single, crowd, toggles = _in_turn(servers, rounds, seconds)
        after = {server.name: routes.rss_mib(server.pid) for server in servers}
    figures = {
        "p50_us": _of(single, "p50_us"),
        "p99_us": _of(single, "p99_us"),
        "per_second": _of(single, "per_second"),
        f"per_second_{_CROWD}": _of(crowd, "per_second"),
        "toggles_per_second": toggles,
    }
    return {
        "load": generator(),
        "rounds": rounds,
        **{
            name: {server: round(median(all_), 1) for server, all_ in by_server.items()}
            for name, by_server in figures.items()
        },
        "rss_mib_before": before,
        "rss_mib_after": after,
        "ratios": {name: _ratio(by_server) for name, by_server in figures.items()},
    }


def _in_turn(
    servers: list[routes.Toxiproxy], rounds: int, seconds: int
) -> tuple[dict[str, list[Load]], dict[str, list[Load]], dict[str, list[float]]]:
    single: dict[str, list[Load]] = {server.name: [] for server in servers}
    crowd: dict[str, list[Load]] = {server.name: [] for server in servers}
    toggles: dict[str, list[float]] = {server.name: [] for server in servers}
    for number in range(rounds + 1):
        for server in servers:
            measured = (
                load(server.proxy, routes.REQUEST, 1, seconds),
                load(server.proxy, routes.REQUEST, _CROWD, seconds),
                _toggles_per_second(server),
            )
            if number:  # warm-up
                single[server.name].append(measured[0])
                crowd[server.name].append(measured[1])
                toggles[server.name].append(measured[2])
    return single, crowd, toggles


def _toggles_per_second(server: routes.Toxiproxy) -> float:
    api = http.client.HTTPConnection(server.api.host, server.api.port, timeout=5)
    body = json.dumps({"name": "toggle", "type": "latency", "attributes": {"latency": 100}})
    began = time.perf_counter()
    for _ in range(PAIRS):
        for method, path, payload, status in (
            ("POST", "/proxies/bench/toxics", body, 200),
            ("DELETE", "/proxies/bench/toxics/toggle", None, 204),
        ):
            api.request(method, path, payload)
            answer = api.getresponse()
            answer.read()
            if answer.status != status:
                raise RuntimeError(f"{server.name}: {method} {path} answered {answer.status}")
    api.close()
    return PAIRS / (time.perf_counter() - began)


def _of(by_server: dict[str, list[Load]], figure: str) -> dict[str, list[float]]:
    return {server: [getattr(measured, figure) for measured in loads] for server, loads in by_server.items()}


def _ratio(by_server: dict[str, list[float]]) -> float:
    """Return the ratio of the embedded server's figure to the real server's."""
    return round(
        median(ours / theirs for ours, theirs in zip(by_server["embedded"], by_server["real"], strict=True)),
        2,
    )


if __name__ == "__main__":
    print(json.dumps(measure_toxiproxy(*map(int, sys.argv[1:])), indent=1))
