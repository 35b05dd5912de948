"""The cost of a function tool's unfaulted call through the lab, beside the same tool over HTTP.

``python -m bench.functions`` runs a client of both under ``wirefault exec``, in turn. The ratio is to be
at most 3.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.bare_server import bare_server

_CALLS, _ROUNDS = 200, 5
_RESULT = {"item": "apple", "price": 3.5}


def measure_functions() -> dict[str, Any]:
    """Return the median of a call in milliseconds, by kind of tool, and the ratio of both."""
    with bare_server("plain") as (_, address):
        client = [sys.executable, "-m", "bench.functions", str(address)]
        finished = subprocess.run(
            ["wirefault", "exec", "--", *client],
            capture_output=True,
            text=True,
            check=False,
        )
    measured: dict[str, Any] = json.loads(finished.stdout)
    return {**measured, "ratio": round(measured["function_ms"] / measured["http_ms"], 2)}


def _client(server: str) -> None:
    import requests

    import wirefault

    session = requests.Session()

    @wirefault.tool
    def price(item: str) -> dict[str, Any]:
        return _RESULT

    def price_over_http(item: str) -> int:
        return session.get(f"http://{server}/price", params={"item": item}, timeout=10).status_code

    rounds = [(_median_ms(price), _median_ms(price_over_http)) for _ in range(_ROUNDS)]
    print(
        json.dumps(
            {
                "function_ms": round(median(function for function, _ in rounds), 3),
                "http_ms": round(median(http for _, http in rounds), 3),
            }
        )
    )


def _median_ms(call: Callable[[str], object]) -> float:
    times = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        call("apple")
        times.append(1000 * (time.perf_counter() - began))
    return median(times)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _client(sys.argv[1])
    else:
        print(f"a call through the lab: {measure_functions()} (target: ratio at most 3)")
