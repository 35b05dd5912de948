"""The cost of 200 armed faults at the gateway.

``python -m bench.faults [rounds]`` runs only this benchmark.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import routes
from bench.load import generator, load, load_average
from wirefault.core.sockets import Address
from wirefault.wiring.links import lab_links

ARMED = 200
_MESSAGE = (
    b'{"to": "Bob", "text": "hello", "urgent": false}\r\n\r\n'  # the upstream replies after an empty line
)
ASK = (
    routes.REQUEST.replace(b"GET /serp?q=number+%d", b"POST /message?q=%d")
    .replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\nContent-Length: %b\r\n\r\n")
    .replace(b"%b", str(len(_MESSAGE)).encode())
    + _MESSAGE
)
RARE = 1e-12
FIGURES = ("p50_us", "per_second", "cpu_us")


def never(count: int = 1) -> list[dict[str, Any]]:
    """Return a fault on this link for every request, with a probability too small to occur."""
    return [{"links": "search", "when": {"probability": RARE}} for _ in range(count)]


def mixed() -> list[dict[str, Any]]:
    """Return 40 faults each for other links, methods, paths and headers, 30 for JSON fields, 10 by chance."""
    others = [link.name for link in lab_links() if link.name != "search"]
    here: list[dict[str, Any]] = []
    for number in range(40):
        here.append({"links": others[number % len(others)]})
        here.append({"only": {"method": ("GET", "PUT", "DELETE", "PATCH")[number % 4]}})
        here.append({"only": {"path": f"/{('events', 'calc')[number % 2]}/{number}*"}})
        here.append({"only": {"header": {("X-User", "User-Agent")[number % 2]: f"somebody {number}"}}})
        if number < 30:
            here.append({"only": {"json": {("to", "text", "by.name")[number % 3]: f"somebody {number}"}}})
        else:
            here += never()
    return [{"links": "search", **entry} for entry in here]


SETS: Mapping[str, list[dict[str, Any]]] = {
    "none": [],
    "one": never(),
    "mixed": mixed(),
    "drawn": never(ARMED),
}


@dataclass(frozen=True)
class Cost:
    """``cpu_us``: the gateway's CPU time per request, None without /proc."""

    p50_us: float
    per_second: float
    cpu_us: float | None


def measure_matching(rounds: int = 7, seconds: int = 1) -> dict[str, Any]:
    """Compare gateways with no, one and twice 200 armed faults that never occur, on one connection, in turn.

    ``mixed``: the 200 of ``mixed()``; ``drawn``: all 200 on this link and drawn for every request. ``more``
    is the median over the rounds of the cost relative to one fault, minus one.
    """
    by_set: dict[str, list[Cost]] = {name: [] for name in SETS}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(routes.upstream())
        targets = {
            name: stack.enter_context(armed(Path(folder) / name, upstream, faults))
            for name, faults in SETS.items()
        }
        for number in range(rounds + 1):
            for name, (pid, address) in targets.items():
                cost = _cost(pid, address, seconds)
                if number:  # warm-up
                    by_set[name].append(cost)
    return {
        "armed": {name: len(faults) for name, faults in SETS.items()},
        "load": generator(),
        "load_average": load_average(),
        **{figure: {name: _figure(costs, figure) for name, costs in by_set.items()} for figure in FIGURES},
        "more": {
            name: {figure: _more(costs, by_set["one"], figure) for figure in FIGURES}
            for name, costs in by_set.items()
            if name != "one"
        },
    }


def _cost(pid: int, address: Address, seconds: int) -> Cost:
    before = _cpu_s(pid)
    loaded = load(address, ASK, 1, seconds)
    after = _cpu_s(pid)
    cpu_us = None if before is None or after is None else (after - before) * 1e6 / loaded.requests
    return Cost(loaded.p50_us, loaded.per_second, cpu_us)


def _cpu_s(pid: int) -> float | None:
    """Return the process's CPU time so far, in steps of 10 ms."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figure(costs: Sequence[Cost], figure: str) -> float | None:
    figures = [getattr(cost, figure) for cost in costs]
    return None if None in figures else round(median(figures), 1)


def _more(costs: Sequence[Cost], base: Sequence[Cost], figure: str) -> float | None:
    """Return the relative extra cost; for requests per second, the extra time per request."""
    pairs = [(getattr(a, figure), getattr(b, figure)) for a, b in zip(costs, base, strict=True)]
    if any(None in pair for pair in pairs):
        return None
    ratio: float = median(b / a if figure == "per_second" else a / b for a, b in pairs)
    return round(ratio - 1, 3)


def armed(folder: Path, upstream: Address, faults: Sequence[Mapping[str, Any]]) -> Any:
    """Start a gateway with these faults, each a ``status``, and no ERROR_PROB."""
    entries = [{"fault": "status", **entry} for entry in faults]
    settings = {"error_prob": 0, "faults": {"faults": entries}}
    return routes.gateway(folder, upstream, attempt=True, settings=settings)


if __name__ == "__main__":
    print(json.dumps(measure_matching(*map(int, sys.argv[1:])), indent=1))
