"""Cost of TLS at the gateway, compared with plain connections, and of certificates.

``python -m bench.tls`` runs only this benchmark.
"""

from __future__ import annotations

import json
import ssl
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Literal

from bench import routes
from bench.bare_server import bare_server
from bench.connecting import Visit, Visits, visit
from bench.load import load, load_average
from wirefault.core.sockets import Address
from wirefault.gateway.intercept.certificate_authority import Authority

_CLIENTS = 2
_CERTIFICATES = 200


def measure_tls(rounds: int = 5, seconds: int = 1) -> dict[str, Any]:
    """Measure TLS and plain connections in turn; each figure is the median over the rounds.

    ``p50_us``: one request on a kept-alive connection. ``new_per_second``: connections opened, used
    once and closed by two clients, each a Python process with blocking sockets that verifies nothing.
    ``gateway_ms`` and ``client_ms`` are the CPU times of gateway and client per connection, which show what
    limits the rate. ``resumed``: with session resumption. ``bare``: a server with a constant reply and
    uvloop's TLS. A ratio is TLS over plain. For a certificate: ms until it is made, and until TLS works with
    it.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(routes.upstream())
        _, plain = stack.enter_context(routes.gateway(Path(folder) / "plain", upstream, attempt=True))
        made = routes.gateway(Path(folder) / "tls", upstream, attempt=True, intercepts=True)
        pid, secure = stack.enter_context(made)
        p50 = _in_turn(
            rounds,
            plain=lambda: load(plain, routes.REQUEST, 1, seconds).p50_us,
            tls=lambda: load(secure, routes.REQUEST, 1, seconds, _context()).p50_us,
        )
        # one process that accepts both
        new = _in_turn(
            rounds,
            plain=lambda: _new_connections(secure, pid, seconds, "plain"),
            tls=lambda: _new_connections(secure, pid, seconds, "tls"),
            resumed=lambda: _new_connections(secure, pid, seconds, "resumed"),
        )
        bare, bare_tls = (stack.enter_context(bare_server(speaking)) for speaking in ("plain", "tls"))
        alone = _in_turn(
            rounds,
            plain=lambda: _new_connections(bare[1], bare[0], seconds, "plain"),
            tls=lambda: _new_connections(bare_tls[1], bare_tls[0], seconds, "tls"),
        )
    return {
        "load_average": load_average(),
        "p50_us": _medians(p50, lambda figure: figure),
        "new_per_second": _medians(new, lambda figure: figure[0].per_second),
        "gateway_ms": _medians(new, lambda figure: figure[1]),
        "client_ms": _medians(new, lambda figure: figure[0].client_ms),
        "bare_per_second": _medians(alone, lambda figure: figure[0].per_second),
        "bare_ms": _medians(alone, lambda figure: figure[1]),
        "certificate": _certificates(),
    }


def _context() -> ssl.SSLContext:
    """Return a client's context that verifies nothing, like most load generators."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _in_turn(rounds: int, **measures: Callable[[], Any]) -> dict[str, list[Any]]:
    figures: dict[str, list[Any]] = {name: [] for name in measures}
    for _ in range(rounds + 1):
        for name, measure in measures.items():
            figures[name].append(measure())
    return {name: measured[1:] for name, measured in figures.items()}  # warm-up


def _medians(by_way: dict[str, list[Any]], figure: Callable[[Any], float]) -> dict[str, float]:
    medians = {name: median(map(figure, measured)) for name, measured in by_way.items()}
    return {
        **{name: round(value, 3) for name, value in medians.items()},
        **{f"{name}_over_plain": round(medians[name] / medians["plain"], 2) for name in list(medians)[1:]},
    }


def _new_connections(
    address: Address, pid: int, seconds: int, speaking: Literal["plain", "tls", "resumed"]
) -> tuple[Visits, float]:
    """Return the clients' figures, and the server's CPU time per connection in ms."""
    worked = _processor_s(pid)
    visits = visit(Visit(address, routes.REQUEST.decode(), speaking=speaking), _CLIENTS, seconds)
    return visits, (_processor_s(pid) - worked) * 1000 / visits.count


def _processor_s(pid: int) -> float:
    """Return the process's CPU time, user and system; only on Linux."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def _certificates() -> dict[str, float]:
    authority = Authority(lambda: datetime.now(UTC))

    def each_ms(make: Callable[[str], object]) -> float:
        taken = []
        for number in range(_CERTIFICATES):
            began = time.perf_counter()
            make(f"h{number}.example")
            taken.append((time.perf_counter() - began) * 1000)
        return round(median(taken), 3)

    return {"mint_ms": each_ms(authority.mint), "ready_ms": each_ms(authority.context)}


if __name__ == "__main__":
    print(json.dumps(measure_tls(), indent=1))
