"""What TLS at the gateway costs: beside the plain gateway, and of certificates. ``python -m bench.tls``."""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench import ways
from bench.load import load, load_average
from windtunnel.core.sockets import Address
from windtunnel.gateway.intercept.authority import Authority

_CLIENTS = 4
_CERTIFICATES = 200
_HOST = "bench.example"


def measure_tls(rounds: int = 5, seconds: int = 1) -> dict[str, Any]:
    """``p50_us``: of a request on one connection that is kept alive. ``new_per_second``: connections that are
    made, used once and closed, by four clients in one process; ``gateway_ms`` is the gateway's own work for
    one of them (processor time), which does not depend on how fast the clients are. ``resumed``: by clients
    that come back with their session. Each is the median over the rounds, in which the ways take turns; a
    ratio is that of TLS to plain. Of a certificate: ms until it is made, and until TLS can be spoken with it.
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
            plain=lambda: _new_connections(secure, pid, seconds, None, resume=False),
            tls=lambda: _new_connections(secure, pid, seconds, _context(), resume=False),
            resumed=lambda: _new_connections(secure, pid, seconds, _context(), resume=True),
        )
    return {
        "load_average": load_average(),
        "p50_us": _medians(p50, lambda figure: figure),
        "new_per_second": _medians(new, lambda figure: figure[0]),
        "gateway_ms": _medians(new, lambda figure: figure[1]),
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
    address: Address, pid: int, seconds: int, tls: ssl.SSLContext | None, *, resume: bool
) -> tuple[float, float]:
    """Connections a second, and the gateway's processor time for one in ms."""
    over, worked = threading.Event(), _processor_s(pid)

    def client(number: int) -> int:
        session, done = None, 0
        while not over.is_set():
            session = _ask_once(address, tls, session if resume else None, number * 500 + done % 500)
            done += 1
        return done

    with ThreadPoolExecutor(_CLIENTS) as pool:
        began = time.perf_counter()
        clients = [pool.submit(client, number) for number in range(_CLIENTS)]
        over.wait(seconds)
        over.set()
        done = sum(work.result() for work in clients)
        took = time.perf_counter() - began
    return done / took, (_processor_s(pid) - worked) * 1000 / done


def _ask_once(
    address: Address, tls: ssl.SSLContext | None, session: ssl.SSLSession | None, number: int
) -> ssl.SSLSession | None:
    connection = socket.create_connection((address.host, address.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is not None:
        connection = tls.wrap_socket(connection, server_hostname=_HOST, session=session)
    with closing(connection):
        connection.sendall(ways.REQUEST % number)
        got = 0
        while got < len(ways.REPLY):
            got += len(connection.recv(65536))
        return connection.session if isinstance(connection, ssl.SSLSocket) else None


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
