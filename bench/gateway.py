"""The gateway's cost beside Toxiproxy's and mitmproxy's: one load, one upstream, the ways taken in turn.

``python -m bench.gateway [rounds]`` for these figures alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench import ways
from bench.load import Load, generator, load
from windtunnel.topology import Address

CROWD = 32
WARM_UP = 20_000


def measure_gateway(rounds: int = 5, seconds: int = 1) -> dict[str, Any]:
    """p50 in microseconds at one connection, requests a second at one and at 32, by way; and ratios.

    ``gateway`` is with an attempt on the lane: identified, fingerprinted, drawn for, recorded;
    ``gateway_bare`` outside any. In each round every way has ``seconds`` at each number of connections; a
    figure is the median over the rounds, a ratio the median of the ratios of each round.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(ways.upstream())
        toxiproxy = stack.enter_context(ways.toxiproxy(upstream, ways.real_toxiproxy()))
        _, busy = stack.enter_context(ways.gateway(Path(folder) / "busy", upstream, attempt=True))
        _, bare = stack.enter_context(ways.gateway(Path(folder) / "bare", upstream, attempt=False))
        targets = {"direct": upstream, "toxiproxy": toxiproxy.proxy, "gateway": busy, "gateway_bare": bare}
        try:
            targets["mitmproxy"] = stack.enter_context(ways.mitmproxy(upstream))
        except (OSError, subprocess.SubprocessError) as error:
            print(f"mitmproxy could not be installed, so it was not measured: {error}")
        one = _in_turn(targets, 1, rounds, seconds)
        crowd = _in_turn(targets, CROWD, rounds, seconds)
    return {
        "toxiproxy_server": toxiproxy.name,
        "load": generator(),
        "p50_us": _figures(one, lambda got: got.p50_us),
        "per_second": _figures(one, lambda got: got.per_second),
        f"per_second_{CROWD}": _figures(crowd, lambda got: got.per_second),
        **_ratios(one, crowd),
    }


def _in_turn(
    targets: Mapping[str, Address], connections: int, rounds: int, seconds: int
) -> dict[str, list[Load]]:
    got: dict[str, list[Load]] = {name: [] for name in targets}
    for _ in range(rounds + 1):
        for name, address in targets.items():
            got[name].append(load(address, ways.REQUEST, connections, seconds))
    return {name: loads[1:] for name, loads in got.items()}  # the first was to warm up


def _figures(got: Mapping[str, list[Load]], figure: Callable[[Load], float]) -> dict[str, float]:
    return {name: round(median(figure(one) for one in loads), 1) for name, loads in got.items()}


def _ratios(one: Mapping[str, list[Load]], crowd: Mapping[str, list[Load]]) -> dict[str, float]:
    """Of the gateway with an attempt, over the others'; ``_bare`` of the gateway without."""

    def ratio(got: Mapping[str, list[Load]], ours: str, other: str, what: str) -> float:
        pairs = zip(got[ours], got[other], strict=True)
        return round(median(getattr(here, what) / getattr(there, what) for here, there in pairs), 2)

    found = {
        "ratio": ratio(one, "gateway", "toxiproxy", "p50_us"),
        "ratio_bare": ratio(one, "gateway_bare", "toxiproxy", "p50_us"),
        "crowd_ratio": ratio(crowd, "gateway", "toxiproxy", "per_second"),
        "crowd_ratio_bare": ratio(crowd, "gateway_bare", "toxiproxy", "per_second"),
    }
    if "mitmproxy" in one:
        found["times_mitmproxy"] = ratio(one, "gateway", "mitmproxy", "per_second")
    return found


def measure_memory(requests: int = 200_000) -> dict[str, Any]:
    """The gateway's resident memory in MiB after a warm-up and after that many requests more."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(ways.upstream())
        pid, busy = stack.enter_context(ways.gateway(Path(folder) / "busy", upstream, attempt=True))
        _at_least(busy, WARM_UP)
        before = ways.rss_mib(pid)
        done = _at_least(busy, requests)
        return {"requests": done, "rss_mib_before": before, "rss_mib_after": ways.rss_mib(pid)}


def _at_least(address: Address, requests: int) -> int:
    done = 0
    while done < requests:
        done += load(address, ways.REQUEST, CROWD, 1).requests
    return done


if __name__ == "__main__":
    print(json.dumps(measure_gateway(*map(int, sys.argv[1:])), indent=1))
    print(json.dumps(measure_memory(), indent=1))
