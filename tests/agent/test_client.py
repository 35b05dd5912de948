"""One HTTP try against faulty servers: what the caller records, raises, sends and leaves open."""

import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.calls import AttemptInProgress, Call, Route, try_call
from agent.exchange import ServiceFailed, ToolFailure
from agent.tools import BY_NAME
from tests.agent.support import (
    SEND,
    WEATHER,
    Answer,
    Wire,
    context_in,
    drip,
    failed,
    http,
    lab_of,
    reset,
    silence,
    then_reset,
)
from tests.support import PATIENCE_S
from wirefault.core.identity import Identity
from wirefault.core.sockets import LOOPBACK, Address
from wirefault.history.events import Event, ToolTry
from wirefault.wiring.topology import Topology

pytestmark = pytest.mark.slow  # its clients wait for their time limits

OK = b"HTTP/1.1 200 OK\r\n"
BADLY: dict[str, tuple[Answer, str, int | None]] = {
    "closed before a reply": (b"", "connection_closed", None),
    "reset before a reply": (reset, "connection_reset", None),
    "silence": (silence, "read_timeout", None),
    "headers that drip": (drip(OK + b"X: "), "read_timeout", None),
    "a body that drips": (drip(OK + b"Content-Length: 9999\r\n\r\n"), "read_timeout", 200),
    "a body that drips without a length": (drip(OK + b"\r\n"), "read_timeout", 200),
    "a chunk that drips": (
        drip(OK + b"Transfer-Encoding: chunked\r\n\r\nfff\r\n"),
        "read_timeout",
        200,
    ),
    "a cut body": (OK + b'Content-Length: 99\r\n\r\n{"a"', "connection_closed", 200),
    "a cut chunk": (OK + b'Transfer-Encoding: chunked\r\n\r\nff\r\n{"a"', "connection_closed", 200),
    "reset in the body": (then_reset(OK + b'Content-Length: 99\r\n\r\n{"a"'), "connection_reset", 200),
    "cut headers": (OK + b"Ser", "bad_reply", 200),
    "a cut status line": (b"HTT", "bad_reply", None),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", "bad_reply", None),
    "no chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "bad_reply", 200),
    "too many headers": (OK + b"A: b\r\n" * 200 + b"\r\n", "bad_reply", None),
    "an empty 200": (http(200, b""), "bad_reply", 200),
    "a 204": (b"HTTP/1.1 204 No Content\r\n\r\n", "bad_reply", 204),
    "HTML": (http(200, b"<html>welcome</html>", Content_Type="text/html"), "bad_reply", 200),
    "a list": (http(200, [1]), "bad_reply", 200),
    "half a JSON object": (http(200, b'{"a": '), "bad_reply", 200),
    "not UTF-8": (http(200, b'{"a": "\xff"}'), "bad_reply", 200),
    "half a character": (http(200, b'{"a": "\\ud800"}'), "bad_reply", 200),
    "nested too deep": (http(200, b"[" * 200_000), "bad_reply", 200),
    "a number too long": (http(200, b'{"a": ' + b"9" * 9999 + b"}"), "bad_reply", 200),
    "no gzip": (http(200, b"{}", Content_Encoding="gzip"), "bad_reply", 200),
    "a redirect": (http(302, {}, Location="/elsewhere"), "bad_reply", 302),
    "404": (failed(404, "no such city"), "http_404", 404),
    "422": (failed(422, "no such date"), "http_422", 422),
    "429": (failed(429), "http_429", 429),
    "500": (failed(500), "http_500", 500),
    "503 in HTML": (http(503, b"<html>"), "http_503", 503),
}


KEY = b"k" * 32


def _call(
    topology: Topology, tool_call: tuple[str, dict[str, Any]] = SEND, **options: Any
) -> tuple[Call, list[Event]]:
    events: list[Event] = []
    tool = BY_NAME[tool_call[0]]
    attempt = AttemptInProgress(context_in(topology, events, **options))
    return Call(
        attempt, tool, tool.request_for(tool_call[1]), tool_call[1], reply=1, index=0, ordinal=3
    ), events


def _fails(call: Call, route: Route = "proxy") -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        try_call(call, route)
    return caught.value


@pytest.mark.parametrize("how", BADLY)
def test_failures_have_names(how: str, wire: Callable[..., Wire]) -> None:
    answer, error, status = BADLY[how]
    timeout = 2 if error == "read_timeout" else PATIENCE_S
    call, events = _call(lab_of(wire(answer).address), tool_timeout=timeout)
    assert _fails(call).cause == error
    [seen] = events
    assert isinstance(seen, ToolTry)
    assert (seen.error, seen.status, seen.timeout_ms) == (error, status, timeout * 1000)


def test_oversized_reply_is_not_read_whole(wire: Callable[..., Wire]) -> None:
    def endless(connection: socket.socket) -> None:
        try:
            connection.sendall(OK + b"\r\n")
            while True:
                connection.sendall(b" " * 65536)
        except OSError:
            return

    call, [*_] = _call(lab_of(wire(endless).address))
    failure = _fails(call)
    assert (failure.cause, failure.detail) == ("bad_reply", "larger than 4 MiB")


@pytest.fixture
def nobody() -> Iterator[Address]:
    """A port that is bound and does not listen."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield Address(LOOPBACK, bound.getsockname()[1])


def test_refused_connection(nobody: Address) -> None:
    call, events = _call(lab_of(nobody))
    failure = _fails(call)
    assert (failure.cause, failure.code, failure.executed) == ("connection_refused", "not_reached", False)
    assert isinstance(events[0], ToolTry)
    assert (events[0].error, events[0].status) == ("connection_refused", None)


def test_unknown_host() -> None:
    call, _ = _call(lab_of(Address("tool.invalid", 5000)))
    assert (_fails(call).cause, call.maybe_executed) == ("connection_refused", False)


@pytest.mark.skipif(sys.platform != "linux", reason="a full queue answers otherwise elsewhere")
def test_connect_timeout() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind((LOOPBACK, 0))
        full.listen(0)
        for waiting in (first, second):  # the queue has room for one, and a half-open one
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        call, _ = _call(lab_of(Address(*full.getsockname())), tool_timeout=0.2)
        failure = _fails(call)
    assert (failure.cause, failure.executed) == ("connect_timeout", False)


def test_reply_is_returned_as_compact_json(wire: Callable[..., Wire]) -> None:
    call, events = _call(lab_of(wire(http(200, b'{ "caf\xc3\xa9" : [1, 2.50] }')).address))
    assert try_call(call) == '{"café":[1,2.5]}'
    [seen] = events
    assert isinstance(seen, ToolTry)
    assert (seen.error, seen.status, seen.reply_bytes, seen.route) == (None, 200, 23, "proxy")
    assert (seen.call, seen.try_, seen.write) == (3, 1, True)


def test_each_try_opens_and_closes_connection(wire: Callable[..., Wire]) -> None:
    gone = []

    def keep_alive(connection: socket.socket) -> None:
        connection.sendall(OK + b"Content-Length: 2\r\n\r\n{}")
        silence(connection)  # returns once the client has closed
        gone.append(True)

    server = wire(keep_alive)
    call, _ = _call(lab_of(server.address))
    try_call(call)
    try_call(call)
    server.close()
    assert (len(server.received), gone) == (2, [True, True])
    assert [request.identity.try_ for request in server.received] == [1, 2]


def test_failed_try_closes_its_connection(wire: Callable[..., Wire]) -> None:
    gone = []

    def keep_alive(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}")
        silence(connection)
        gone.append(True)

    server = wire(keep_alive)
    call, _ = _call(lab_of(server.address))
    failure = _fails(call)
    server.close()
    assert (failure.cause, gone) == ("http_503", [True])


def test_each_try_sends_its_identity(wire: Callable[..., Wire]) -> None:
    server = wire(failed(500), http(200, {}))
    call, events = _call(lab_of(server.address))
    call.attempt.key = KEY
    _fails(call)
    try_call(call)
    who = Identity("run-1", "001", 1, call=3)
    for number, (request, event) in enumerate(zip(server.received, events, strict=True), start=1):
        expected = Identity(who.run, who.episode, who.attempt, who.call, number)
        headers = {name: request.headers[name] for name in ("baggage", "traceparent")}
        assert headers == expected.headers("message", call.fingerprint, KEY)
        assert isinstance(event, ToolTry)
        assert (event.call, event.try_, event.episode) == (3, number, "001")


@pytest.mark.parametrize(
    ("tool_call", "on", "has_key"), [(SEND, True, True), (WEATHER, True, False), (SEND, False, False)]
)
def test_only_writes_send_key_if_enabled(
    tool_call: tuple[str, dict[str, Any]], on: bool, has_key: bool, wire: Callable[..., Wire]
) -> None:
    server = wire(http(200, {}))
    call, events = _call(lab_of(server.address), tool_call, idempotency=on)
    try_call(call)
    assert bool(server.received[0].key) is has_key
    assert isinstance(events[0], ToolTry)
    assert events[0].idempotency_key == server.received[0].key == call.idempotency_key


@pytest.mark.parametrize("route", ["proxy", "direct"])
def test_only_direct_route_sends_world(route: Route, wire: Callable[..., Wire]) -> None:
    proxy, service = wire(http(200, {})), wire(http(200, {}))
    call, events = _call(lab_of(proxy.address, service.address), translator_backend="offline")
    try_call(call, route)
    [request] = (proxy if route == "proxy" else service).received
    named = (request.headers.get("wirefault-world"), request.headers.get("wirefault-translator"))
    assert named == (("run-1/001", "offline") if route == "direct" else (None, None))
    assert isinstance(events[0], ToolTry)
    assert events[0].route == route
    assert request.key == call.idempotency_key


def test_environment_proxy_is_ignored(
    nobody: Address, wire: Callable[..., Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, nobody.url)
    call, _ = _call(lab_of(wire(http(200, {"a": 1})).address))
    assert try_call(call) == '{"a":1}'


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *[("1", 1.0), ("0.2", 0.2), ("0", 0.0), (" 3 ", 3.0), ("", None), ("-1", None), ("soon", None)],
        *[("nan", None), ("inf", None), ("1e3", None), ("1_0", None)],
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_parsed(
    status: int, header: str, seconds: float | None, wire: Callable[..., Wire]
) -> None:
    call, _ = _call(lab_of(wire(http(status, {}, Retry_After=header)).address))
    assert _fails(call).retry_after == seconds


def test_missing_retry_after_is_none(wire: Callable[..., Wire]) -> None:
    call, _ = _call(lab_of(wire(failed(503)).address))
    failure = _fails(call)
    assert isinstance(failure, ServiceFailed)
    assert failure.retry_after is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"error": {"message": "no such city"}}, "no such city"),
        ({"error": {"message": "x" * 9999}}, "x" * 300),
        ({"error": "text"}, ""),
        ({"error": {"message": None}}, ""),
        ([], ""),
        (b"<html>", ""),
    ],
)
def test_refusal_has_service_reason(body: object, reason: str, wire: Callable[..., Wire]) -> None:
    call, _ = _call(lab_of(wire(http(404, body)).address))
    failure = _fails(call)
    assert (failure.detail, failure.retryable, failure.executed) == (reason, False, False)
