"""The gateway's cost compared with Toxiproxy's and mitmproxy's: same load and upstream, in turn.

``python -m bench.gateway [rounds]`` runs only this benchmark.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from scipy.stats import t as student_t

from bench import routes
from bench.load import Load, generator, load, load_average
from wirefault.core.sockets import Address

_CROWD = 32
WARM_UP = 20_000
GATEWAYS: Mapping[str, Mapping[str, Any]] = {
    "gateway": {"attempt": True},
    "gateway_wired": {"attempt": True, "wired": True},
    "gateway_unarmed": {"attempt": True, "settings": {"error_prob": 0}},
    "gateway_bare": {"attempt": False},
}


def measure_gateway(rounds: int = 5, seconds: int = 1) -> dict[str, Any]:
    """Measure on one core, where only CPU time counts, and on all cores, where wake-ups count, too."""
    places = {"one_core": one_core, "free": nullcontext}
    if not hasattr(os, "sched_setaffinity"):
        print("processes cannot be bound to one core here: one_core was not measured")
        del places["one_core"]
    figures: dict[str, Any] = {"load": generator(), "python": sys.version, "load_average": load_average()}
    for name, place in places.items():
        with place():
            figures[name] = _measure(rounds, seconds)
    return figures


@contextmanager
def one_core() -> Iterator[None]:
    """Bind this process and the processes that it starts in the block to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _measure(rounds: int, seconds: int) -> dict[str, Any]:
    """Return p50 in microseconds at one connection, requests per second at 1 and 32, by way, and ratios.

    ``gateway``: with an attempt on the lane and ``ERROR_PROB`` armed, so that requests are identified,
    fingerprinted, drawn for and recorded. ``gateway_wired``: the same on a link of a wiring to a user's
    server. ``gateway_unarmed``: with an attempt, without faults. ``gateway_bare``: outside any run. In each
    round every way has ``seconds`` at each number of connections. A figure is the median over the rounds, a
    ratio the median of the rounds' ratios. ``wired_over_gateway``: cost of a wired link over a lab link.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(routes.upstream())
        toxiproxy = stack.enter_context(routes.toxiproxy(upstream, routes.real_toxiproxy()))
        targets = {"direct": upstream, "toxiproxy": toxiproxy.proxy}
        for name, how in GATEWAYS.items():
            way = routes.gateway(Path(folder) / name, upstream, **how)
            targets[name] = stack.enter_context(way)[1]
        try:
            targets["mitmproxy"] = stack.enter_context(routes.mitmproxy(upstream))
        except (OSError, subprocess.SubprocessError) as error:
            print(f"mitmproxy could not be installed, so it was not measured: {error}")
        single = _in_turn(targets, 1, rounds, seconds)
        crowd = _in_turn(targets, _CROWD, rounds, seconds)
    return {
        "toxiproxy_server": toxiproxy.name,
        "p50_us": _figures(single, lambda measured: measured.p50_us),
        "per_second": _figures(single, lambda measured: measured.per_second),
        f"per_second_{_CROWD}": _figures(crowd, lambda measured: measured.per_second),
        **{name: _ratios(name, single, crowd) for name in GATEWAYS},
        "wired_over_gateway": {
            "p50": _ratio_with_interval(single, lambda measured: measured.p50_us),
            f"time_{_CROWD}": _ratio_with_interval(crowd, lambda measured: 1 / measured.per_second),
        },
    }


def _in_turn(
    targets: Mapping[str, Address], connections: int, rounds: int, seconds: int
) -> dict[str, list[Load]]:
    by_way: dict[str, list[Load]] = {name: [] for name in targets}
    for _ in range(rounds + 1):
        for name, address in targets.items():
            by_way[name].append(load(address, routes.REQUEST, connections, seconds))
    return {name: loads[1:] for name, loads in by_way.items()}  # without the warm-up


def _figures(by_way: Mapping[str, list[Load]], figure: Callable[[Load], float]) -> dict[str, float]:
    return {name: round(median(figure(load_) for load_ in loads), 1) for name, loads in by_way.items()}


def _ratios(ours: str, single: Mapping[str, list[Load]], crowd: Mapping[str, list[Load]]) -> dict[str, float]:
    """Return our p50 and rate at 32 over Toxiproxy's, and our rate at one connection over mitmproxy's."""

    def ratio(by_way: Mapping[str, list[Load]], other: str, what: str) -> float:
        pairs = zip(by_way[ours], by_way[other], strict=True)
        return round(median(getattr(here, what) / getattr(there, what) for here, there in pairs), 2)

    figures = {
        "p50": ratio(single, "toxiproxy", "p50_us"),
        f"per_second_{_CROWD}": ratio(crowd, "toxiproxy", "per_second"),
    }
    if "mitmproxy" in single:
        figures["times_mitmproxy"] = ratio(single, "mitmproxy", "per_second")
    return figures


def _ratio_with_interval(
    by_way: Mapping[str, list[Load]], figure: Callable[[Load], float]
) -> dict[str, float]:
    """Return the mean ratio of a wired link's figure to a lab link's, with its 95 % interval (Student's t).

    The mean is of logarithms, so that a ratio and its inverse count alike. One round has no interval.
    """
    pairs = zip(by_way["gateway_wired"], by_way["gateway"], strict=True)
    logs = [math.log(figure(wired) / figure(ours)) for wired, ours in pairs]
    at = {"ratio": mean(logs)}
    if len(logs) > 1:
        half = float(student_t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
        at |= {"low": mean(logs) - half, "high": mean(logs) + half}
    return {name: round(math.exp(log), 3) for name, log in at.items()}


def measure_memory(requests: int = 200_000) -> dict[str, Any]:
    """Return the gateway's resident memory in MiB after a warm-up, and after ``requests`` more requests."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(routes.upstream())
        pid, busy = stack.enter_context(routes.gateway(Path(folder) / "busy", upstream, attempt=True))
        _at_least(busy, WARM_UP)
        before = routes.rss_mib(pid)
        done = _at_least(busy, requests)
        return {"requests": done, "rss_mib_before": before, "rss_mib_after": routes.rss_mib(pid)}


def _at_least(address: Address, requests: int) -> int:
    done = 0
    while done < requests:
        done += load(address, routes.REQUEST, _CROWD, 1).requests
    return done


if __name__ == "__main__":
    print(json.dumps(measure_gateway(*map(int, sys.argv[1:])), indent=1))
    print(json.dumps(measure_memory(), indent=1))
