"""How long a try waits, for what, and whether tries share a connection: settings of the tool client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.agent.support import (
    SEND,
    WEATHER,
    Clock,
    Wire,
    asks,
    failed,
    http,
    lab_of,
    reports,
    run_agent,
    silence,
)
from tests.support import PATIENCE_S
from tests.upstream import Upstream, requests_of
from wirefault.core.sockets import LOOPBACK, Address
from wirefault.history.events import ToolCalled, ToolTry

KEPT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
GOOD = http(200, {"sent": True})
TRANSLATE = ("translate", {"text": "hello", "source_language": "en", "target_language": "fr"})


@contextmanager
def _server() -> Iterator[tuple[Upstream, list[str]]]:
    """A server that keeps its connections open; the targets of its requests."""
    targets: list[str] = []

    def serve(connection: socket.socket) -> None:
        for request in requests_of(connection):
            targets.append(request.target)
            connection.sendall(KEPT)

    with Upstream(serve) as server:
        yield server, targets


@pytest.mark.parametrize(("keep_alive", "connections"), [(False, 3), (True, 1)])
def test_keep_alive_shares_connection(keep_alive: bool, connections: int) -> None:
    with _server() as (server, targets):
        outcome = run_agent(
            lab_of(server.address), asks(WEATHER), asks(WEATHER), asks(SEND), reports(), keep_alive=keep_alive
        )
        server.drain()  # this ends when the client closes its kept-alive connections
        assert (len(targets), server.accepted) == (3, connections)
    assert all(tried.error is None for tried in outcome.of(ToolTry))


def test_parallel_calls_have_separate_connections_and_deadlines() -> None:
    with _server() as (server, targets):
        outcome = run_agent(lab_of(server.address), asks(WEATHER, SEND), reports(), keep_alive=True)
        server.drain()
    assert (len(targets), [tried.error for tried in outcome.of(ToolTry)]) == (2, [None, None])


def test_connection_is_dropped_after_failed_reply(wire: Callable[..., Wire]) -> None:
    server = wire(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"a"', GOOD)
    outcome = run_agent(lab_of(server.address), asks(SEND), reports(), tool_limit=2, keep_alive=True)
    assert [tried.error for tried in outcome.of(ToolTry)] == ["connection_closed", None]


def test_closed_kept_alive_connection_is_replaced(wire: Callable[..., Wire]) -> None:
    server = wire(GOOD)  # it closes after each reply
    outcome = run_agent(lab_of(server.address), asks(SEND), asks(WEATHER), reports(), keep_alive=True)
    assert [tried.error for tried in outcome.of(ToolTry)] == [None, None]


def test_kept_alive_reply_is_bounded() -> None:
    def serve(connection: socket.socket) -> None:
        requests = requests_of(connection)
        next(requests)
        connection.sendall(KEPT)
        next(requests)
        silence(connection)

    with Upstream(serve) as server:
        outcome = run_agent(
            lab_of(server.address), asks(WEATHER), asks(WEATHER), reports(), keep_alive=True, tool_timeout=2
        )
    assert [tried.error for tried in outcome.of(ToolTry)] == [None, "read_timeout"]


class _Opening(Clock):
    """Listens at the address from the third sleep on, and answers once."""

    def __init__(self, bound: socket.socket) -> None:
        super().__init__()
        self._bound = bound

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if len(self.slept) == 3:
            self._bound.listen()
            threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        connection, _ = self._bound.accept()
        with connection:
            next(requests_of(connection))
            connection.sendall(GOOD)


@pytest.fixture
def nobody() -> Iterator[socket.socket]:
    """A port that is bound and does not listen."""
    with socket.socket() as bound:
        bound.settimeout(PATIENCE_S)
        bound.bind((LOOPBACK, 0))
        yield bound


def test_try_waits_while_proxy_is_down(nobody: socket.socket) -> None:
    clock = _Opening(nobody)
    topology = lab_of(Address(LOOPBACK, nobody.getsockname()[1]))
    outcome = run_agent(topology, asks(SEND), reports(), clock=clock, proxy_wait=5)
    [tried] = outcome.of(ToolTry)
    assert (tried.try_, tried.error, tried.refused) == (1, None, 3)
    assert outcome.of(ToolCalled)[0].ok


@pytest.mark.parametrize(("proxy_wait", "attempt_time", "slept"), [(0, 30, 0), (0.5, 30, 0.5), (9, 2, 2)])
def test_proxy_wait_is_bounded_by_setting_and_attempt(
    proxy_wait: float, attempt_time: float, slept: float, nobody: socket.socket
) -> None:
    topology = lab_of(Address(LOOPBACK, nobody.getsockname()[1]))
    outcome = run_agent(topology, asks(SEND), reports(), proxy_wait=proxy_wait, attempt_time=attempt_time)
    [tried] = outcome.of(ToolTry)
    assert (tried.error, sum(outcome.slept)) == ("connection_refused", pytest.approx(slept))


def test_fallback_has_its_own_timeout(wire: Callable[..., Wire]) -> None:
    topology = lab_of(wire(failed(500)).address, wire(silence).address)
    outcome = run_agent(topology, asks(SEND), reports(), fallback="direct", fallback_timeout=0.5)
    proxied, direct = outcome.of(ToolTry)
    assert (proxied.timeout_ms, direct.timeout_ms) == (PATIENCE_S * 1000, 500)
    assert direct.error == "read_timeout"


@pytest.mark.parametrize(
    ("call", "backend", "seconds"),
    [(TRANSLATE, "google", 9), (TRANSLATE, "libre", 9), (TRANSLATE, "offline", 8), (WEATHER, "google", 8)],
)
def test_real_backend_has_longer_timeout(
    call: object, backend: str, seconds: float, wire: Callable[..., Wire]
) -> None:
    options = {"translator_backend": backend, "tool_timeout": 8, "backend_timeout": 9}
    outcome = run_agent(lab_of(wire(GOOD).address), asks(call), reports(), **options)  # type: ignore[arg-type]
    assert outcome.of(ToolTry)[0].timeout_ms == seconds * 1000
