"""What TLS at the gateway costs: beside the plain gateway, and of certificates. ``python -m bench.tls``."""

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

from bench import ways
from bench.bare_server import bare_server
from bench.connecting import Visit, Visits, visit
from bench.load import load, load_average
from wirefault.core.sockets import Address
from wirefault.gateway.intercept.certificate_authority import Authority

_CLIENTS = 2
_CERTIFICATES = 200


def measure_tls(rounds: int = 5, seconds: int = 1) -> dict[str, Any]:
    """``p50_us``: of a request on one connection that is kept alive. ``new_per_second``: connections that are
    made, used once and closed by two clients, each a Python process with blocking sockets that verifies
    nothing. ``gateway_ms`` is the gateway's processor time for one of them and ``client_ms`` the client's, so
    that it can be seen which of them the rate is of. ``resumed``: by clients that come back with their
    session. ``bare``: the same of a server that only answers, whose TLS is uvloop's. Each is the median over
    the rounds, in which the ways take turns; a ratio is TLS over plain. Of a certificate: ms until it is
    made, and until TLS can be spoken with it.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(ways.upstream())
        _, plain = stack.enter_context(ways.gateway(Path(folder) / "plain", upstream, attempt=True))
        made = ways.gateway(Path(folder) / "tls", upstream, attempt=True, intercepts=True)
        pid, secure = stack.enter_context(made)
        p50 = _in_turn(
            rounds,
            plain=lambda: load(plain, ways.REQUEST, 1, seconds).p50_us,
            tls=lambda: load(secure, ways.REQUEST, 1, seconds, _context()).p50_us,
        )
        # the same process, which takes both
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
    """Of a client that verifies nothing, as most load generators."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _in_turn(rounds: int, **measures: Callable[[], Any]) -> dict[str, list[Any]]:
    figures: dict[str, list[Any]] = {name: [] for name in measures}
    for _ in range(rounds + 1):
        for name, measure in measures.items():
            figures[name].append(measure())
    return {name: measured[1:] for name, measured in figures.items()}  # the first was to warm up


def _medians(by_way: dict[str, list[Any]], figure: Callable[[Any], float]) -> dict[str, float]:
    medians = {name: median(map(figure, measured)) for name, measured in by_way.items()}
    return {
        **{name: round(value, 3) for name, value in medians.items()},
        **{f"{name}_over_plain": round(medians[name] / medians["plain"], 2) for name in list(medians)[1:]},
    }


def _new_connections(
    address: Address, pid: int, seconds: int, speaking: Literal["plain", "tls", "resumed"]
) -> tuple[Visits, float]:
    """What the clients did, and the server's processor time for one connection in ms."""
    worked = _processor_s(pid)
    visits = visit(Visit(address, ways.REQUEST.decode(), speaking=speaking), _CLIENTS, seconds)
    return visits, (_processor_s(pid) - worked) * 1000 / visits.count


def _processor_s(pid: int) -> float:
    """How long that process has been on a processor, in its own code and in the kernel's; only on Linux."""
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
