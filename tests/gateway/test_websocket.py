"""The messages of WebSocket connections: a real server, real clients, and faults between them."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection, serve

from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from tests.upstream import FREE
from wirefault.core.sockets import Address, bind, bound_address
from wirefault.history.events import Exchange, SocketMessage
from wirefault.wiring.links import Link, Links

Serve = Callable[[ServerConnection], None]


def realtime(connection: ServerConnection) -> None:
    """Speaks as the Realtime API: events for each ``response.create``, and an echo of anything binary."""
    with suppress(ConnectionClosed):  # a fault may cut it
        _converse(connection)


def _converse(connection: ServerConnection) -> None:
    connection.send(json.dumps({"type": "session.created", "event_id": "event_s"}))
    for message in connection:
        if isinstance(message, bytes):
            connection.send(message)
            continue
        event = json.loads(message)
        if event["type"] == "response.create":
            for word in ("one", "two", "three"):
                connection.send(json.dumps({"type": "response.output_text.delta", "delta": word}))
            connection.send(json.dumps({"type": "response.done"}))
        else:
            connection.send(json.dumps({"type": event["type"] + ".seen"}))


@contextmanager
def websocket_server(handler: Serve = realtime, **options: Any) -> Iterator[Address]:
    listener = bind(FREE)
    with serve(handler, sock=listener, **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield bound_address(listener)
        server.shutdown()
        thread.join(PATIENCE_S)


@contextmanager
def realtime_lab(folder: Path, *faults: Mapping[str, Any], handler: Serve = realtime) -> Iterator[Lab]:
    """A gateway with a Realtime API on its link ``voice``, and these faults armed there."""
    with websocket_server(handler) as server:
        links = Links([Link("voice", f"{server.url}/v1", "realtime")])
        with gateway(folder, links=links, voice=server) as lab:
            lab.begin(faults={"faults": [{"links": "voice", **fault} for fault in faults]} if faults else "")
            yield lab


@contextmanager
def client(lab: Lab, **options: Any) -> Iterator[ClientConnection]:
    url = lab.topology.gateways["voice"].url.replace("http", "ws") + "/v1/realtime?model=gpt-realtime"
    with connect(url, **options) as connection:
        yield connection


def ask(connection: ClientConnection) -> None:
    connection.send(json.dumps({"type": "response.create", "event_id": "event_c"}))


def received(connection: ClientConnection, count: int = 5) -> list[dict[str, Any]]:
    return [json.loads(connection.recv(timeout=PATIENCE_S)) for _ in range(count)]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def exchange(lab: Lab) -> Exchange:
    """The record of the connection, which is over."""
    lab.settle()
    return next(event for event in lab.recorded() if isinstance(event, Exchange))


def messages(lab: Lab) -> list[SocketMessage]:
    lab.settle()
    return [event for event in lab.recorded() if isinstance(event, SocketMessage)]


WHOLE = ["session.created", *["output_text.delta"] * 3, "done"]


def test_messages_pass_and_are_recorded(tmp_path: Path) -> None:
    with realtime_lab(tmp_path) as lab:
        with client(lab) as connection:
            ask(connection)
            assert types(received(connection)) == WHOLE
            connection.send(b"\x00\x01")
            assert connection.recv(timeout=PATIENCE_S) == b"\x00\x01"
        seen = [(m.sender, m.number, m.kind, m.type, m.fate) for m in messages(lab)]
        record = exchange(lab)
    assert sorted(seen)[:2] == [
        ("client", 1, "text", "response.create", "passed"),
        ("client", 2, "binary", "", "passed"),
    ]
    assert [one[3] for one in seen if one[0] == "server"][-2:] == ["response.done", ""]
    assert (record.status, record.dialect) == (101, "realtime")
    assert (record.client_messages, record.server_messages) == (2, 6)
    assert (record.client_close, record.server_close) == (1000, 1000)


def closed_by(connection: ClientConnection) -> int:
    """The code with which the client's connection ends."""
    with pytest.raises(ConnectionClosed):
        while True:
            connection.recv(timeout=PATIENCE_S)
    return connection.protocol.close_code or 0


def fault_record(lab: Lab) -> Any:
    (fault,) = exchange(lab).faults
    return fault


def test_dropped_message_never_arrives_and_others_do(tmp_path: Path) -> None:
    fault = {"fault": "ws_drop", "with": {"type": "response.*.delta", "nth": 2}}
    with realtime_lab(tmp_path, fault) as lab:
        with client(lab) as connection:
            ask(connection)
            words = [event.get("delta") for event in received(connection, 4)]
        record = fault_record(lab)
    assert words == [None, "one", "three", None]
    assert record.injected
    assert record.evidence["messages"] == [
        {"sender": "server", "number": 3, "type": "response.output_text.delta"}
    ]
    assert record.evidence["client_then"] == {"messages": 0, "close_code": 1000}


def test_dropped_message_of_client_never_reaches_server(tmp_path: Path) -> None:
    fault = {"fault": "ws_drop", "with": {"sender": "client", "type": "response.create", "at_most": 1}}
    with realtime_lab(tmp_path, fault) as lab, client(lab) as connection:
        ask(connection)
        connection.send(json.dumps({"type": "session.update"}))
        assert types(received(connection, 2)) == ["session.created", "session.update.seen"]
        ask(connection)
        assert types(received(connection, 4))[-1] == "done"


def test_messages_wait_behind_delayed_one_in_order(tmp_path: Path) -> None:
    fault = {"fault": "ws_delay", "with": {"nth": 2, "seconds": 0.3}}
    with realtime_lab(tmp_path, fault) as lab:
        with client(lab) as connection:
            ask(connection)
            assert types(received(connection)) == WHOLE
        record = fault_record(lab)
        fates = [m.fate for m in messages(lab) if m.sender == "server"]
    assert record.injected and record.delay_ms >= 290
    assert fates == ["passed", "delayed", "passed", "passed", "passed"]


def test_pings_pass_while_messages_wait(tmp_path: Path) -> None:
    fault = {"fault": "ws_delay", "with": {"sender": "client", "seconds": 60}}
    with realtime_lab(tmp_path, fault) as lab, client(lab) as connection:
        ask(connection)
        assert connection.ping().wait(PATIENCE_S)
        lab.settle()  # ends the delay
        assert closed_by(connection) == 1006


@pytest.mark.parametrize("ending", ["close", "reset"])
@pytest.mark.parametrize(("at", "count"), [("before", 2), ("inside", 2), ("after", 3)])
def test_cut_ends_connection_at_message(tmp_path: Path, at: str, count: int, ending: str) -> None:
    fault = {"fault": "ws_cut", "with": {"nth": 3, "at": at, "ending": ending}}
    ended = threading.Event()

    def watched(connection: ServerConnection) -> None:
        realtime(connection)
        ended.set()

    with realtime_lab(tmp_path, fault, handler=watched) as lab:
        with client(lab) as connection:
            ask(connection)
            assert types(received(connection, count)) == WHOLE[:count]
            assert closed_by(connection) == 1006
        assert ended.wait(PATIENCE_S)
        record = fault_record(lab)
        last = [m.fate for m in messages(lab) if m.sender == "server"][-1]
    assert record.injected and record.evidence["count"] == 1
    assert last == ("passed" if at == "after" else "cut")


def test_cut_with_code_sends_close_frame(tmp_path: Path) -> None:
    fault = {"fault": "ws_cut", "with": {"sender": "client", "at": "before", "code": 1011}}
    with realtime_lab(tmp_path, fault) as lab:
        with client(lab) as connection:
            assert types(received(connection, 1)) == ["session.created"]
            ask(connection)
            assert closed_by(connection) == 1011
        assert fault_record(lab).injected


@pytest.mark.parametrize(("place", "events_before"), [("after", WHOLE), ("instead", WHOLE[:4])])
def test_error_event_comes_after_message_or_instead(
    tmp_path: Path, place: str, events_before: list[str]
) -> None:
    fault = {"fault": "ws_error", "with": {"type": "response.done", "place": place, "error": "rate_limit"}}
    with realtime_lab(tmp_path, fault) as lab:
        with client(lab) as connection:
            ask(connection)
            *events, error = received(connection, len(events_before) + 1)
        assert fault_record(lab).injected
        fates = [m.fate for m in messages(lab) if m.sender == "server"][-2:]
    assert types(events) == events_before
    assert error["type"] == "error" and error["event_id"].startswith("event_")
    assert error["error"] == {
        "type": "rate_limit_error",
        "code": "rate_limit_exceeded",
        "message": "Rate limit reached for the model.",
        "param": None,
        "event_id": None,
    }
    assert fates == ["passed" if place == "after" else "replaced", "injected"]


def test_error_event_instead_of_client_event_names_it(tmp_path: Path) -> None:
    fault = {"fault": "ws_error", "with": {"sender": "client", "place": "instead", "error": "invalid_event"}}
    with realtime_lab(tmp_path, fault) as lab, client(lab) as connection:
        ask(connection)
        events = received(connection, 2)
    (error,) = [event for event in events if event["type"] == "error"]
    assert error["error"]["event_id"] == "event_c"


def test_expired_session_is_closed_after_its_error(tmp_path: Path) -> None:
    fault = {"fault": "ws_error", "with": {"nth": 5, "error": "session_expired", "closes": True}}
    with realtime_lab(tmp_path, fault) as lab, client(lab) as connection:
        ask(connection)
        assert received(connection, 6)[-1]["error"]["code"] == "session_expired"
        assert closed_by(connection) == 1000


def test_same_seed_drops_same_messages(tmp_path: Path) -> None:
    fault = {"fault": "ws_drop", "with": {"type": "response.*", "probability": 0.5}}

    def dropped(folder: Path) -> list[int]:
        folder.mkdir()
        with realtime_lab(folder, fault) as lab:
            with client(lab) as connection:
                for _ in range(5):
                    ask(connection)
                connection.send(b"end")
                while connection.recv(timeout=PATIENCE_S) != b"end":
                    pass
            return [m.number for m in messages(lab) if m.fate == "dropped"]

    first, again = dropped(tmp_path / "a"), dropped(tmp_path / "b")
    assert first == again and 3 < len(first) < 20


def test_fragments_are_one_message(tmp_path: Path) -> None:
    def fragments(connection: ServerConnection) -> None:
        connection.send(['{"type": "lo', 'ng"}'])
        connection.send('{"type": "short"}')
        connection.recv()

    with realtime_lab(tmp_path, {"fault": "ws_drop", "with": {"type": "long"}}, handler=fragments) as lab:
        with client(lab) as connection:
            assert types(received(connection, 1)) == ["short"]
        sizes = [m.size for m in messages(lab)]
    assert sizes == [16, 17]


def test_compression_is_not_negotiated(tmp_path: Path) -> None:
    with realtime_lab(tmp_path) as lab, client(lab, compression="deflate") as connection:
        assert connection.protocol.extensions == []


def test_secrets_are_removed_from_recorded_text(tmp_path: Path) -> None:
    with realtime_lab(tmp_path) as lab:
        with client(lab) as connection:
            connection.send(
                json.dumps({"type": "session.update", "api_key": "sk-abcdefghijklmnop0123456789"})
            )
            received(connection, 2)
        texts = [m.text or "" for m in messages(lab)]
    assert any("session.update" in text for text in texts)
    assert not any("abcdefghijklmnop" in text for text in texts)


def test_plain_request_is_recorded_as_no_websocket(tmp_path: Path) -> None:
    with realtime_lab(tmp_path, {"fault": "ws_cut"}) as lab:
        requests.get(lab.topology.gateways["voice"].url + "/v1/models", timeout=PATIENCE_S)
        assert fault_record(lab).why_not == "not_a_websocket"


def test_connection_without_chosen_message_is_unharmed(tmp_path: Path) -> None:
    with realtime_lab(tmp_path, {"fault": "ws_cut", "with": {"nth": 99}}) as lab:
        with client(lab) as connection:
            ask(connection)
            assert types(received(connection)) == WHOLE
        assert fault_record(lab).why_not == "no_such_message"


def test_error_event_needs_realtime_dialect(tmp_path: Path) -> None:
    with websocket_server() as server, gateway(tmp_path, search=server) as lab:
        lab.begin(faults={"faults": [{"fault": "ws_error", "links": "search"}]})
        url = lab.topology.gateways["search"].url.replace("http", "ws") + "/socket"
        with connect(url) as connection:
            assert types(received(connection, 1)) == ["session.created"]
        assert fault_record(lab).why_not == "not_in_dialect"


def test_realtime_path_of_found_link_is_a_model(tmp_path: Path) -> None:
    with websocket_server() as server:
        links = Links([Link("voice", server.url, found=True)], grows=True)
        with gateway(tmp_path, links=links, voice=server) as lab:
            lab.begin(faults={"faults": [{"fault": "ws_drop", "links": "model", "with": {"nth": 2}}]})
            with client(lab) as connection:
                ask(connection)
                assert len(received(connection, 4)) == 4
            record = exchange(lab)
    assert record.of_model and record.dialect == "realtime" and record.faults[0].injected


def test_messages_over_tls_are_read(tmp_path: Path) -> None:
    with websocket_server() as server:
        links = Links([Link("voice", f"{server.url}/v1", "realtime")])
        with gateway(tmp_path, links=links, voice=server, intercepts=True) as lab:
            lab.begin(faults={"faults": [{"fault": "ws_drop", "links": "voice", "with": {"nth": 1}}]})
            context = ssl.create_default_context(cadata=lab.pem)
            url = lab.url("voice", "/v1/realtime").replace("https", "wss")
            with connect(url, ssl=context) as connection:
                ask(connection)
                assert types(received(connection, 4)) == WHOLE[1:]
            assert fault_record(lab).injected
