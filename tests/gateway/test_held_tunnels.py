"""While the subject is to be killed, nothing of it passes through its WebSockets and HTTP/2 connections."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from tests.gateway.intercept.test_http2 import SETTINGS, START
from tests.gateway.lab import dial, gateway
from tests.gateway.lines.test_line_kills import order
from tests.gateway.test_upgrades import SWITCHED, UPGRADE
from tests.support import until
from tests.upstream import Upstream, read_all, read_head
from wirefault.history.events import Exchange, WentPastLab
from wirefault.state.state import State
from wirefault.wiring.links import Link, Links

ORDER = b"POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"


def test_tunnels_pass_nothing_while_subject_is_killed(tmp_path: Path) -> None:
    received: dict[str, bytes] = {}

    def serve(connection: socket.socket) -> None:
        """Answer an order; of the two tunnels, note all bytes."""
        start = connection.recv(4)
        if start == START[:4]:
            read_all(connection, len(START) - 4, exactly=True)
            connection.sendall(SETTINGS)
            received["http2"] = read_all(connection)
        elif start == UPGRADE[:4]:
            read_head(connection)
            connection.sendall(SWITCHED)
            received["websocket"] = read_all(connection)
        else:
            read_head(connection)
            connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
            read_all(connection)

    with (
        Upstream(serve) as upstream,
        gateway(tmp_path, links=Links([Link("shop", upstream.address.url)])) as lab,
    ):
        lab.begin(faults={"faults": [{"fault": "kill_subject", "links": "shop", "only": {"method": "POST"}}]})
        address = lab.topology.gateways["shop"]
        with dial(address) as http2, dial(address) as websocket, dial(address) as client:
            http2.sendall(START + b"early")
            assert read_all(http2, len(SETTINGS), exactly=True) == SETTINGS
            websocket.sendall(UPGRADE)
            read_head(websocket)
            websocket.sendall(b"early")
            client.sendall(ORDER)
            with State(lab.folder / "state.db") as state:
                kill = order(state, lab, "wanted")
                for tunnel in (http2, websocket):
                    tunnel.sendall(b"late")
                    tunnel.shutdown(socket.SHUT_WR)
                until(lambda: len(received) == 2, "the end of both clients' bytes at the upstream")
                assert received == {"http2": b"early", "websocket": b"early"}
                assert state.kills.move(kill, "dead")
                order(state, lab, "closed")
            for tunnel in (http2, websocket, client):
                with suppress(ConnectionResetError):
                    assert read_all(tunnel) == b""
        assert lab.settle()["settled"]
        recorded = lab.recorded()
    [past] = [event for event in recorded if isinstance(event, WentPastLab)]
    assert past.sent == len(START + b"early")
    exchanges = {event.method: event for event in recorded if isinstance(event, Exchange)}
    assert exchanges["POST"].error == "the subject was killed here"
    assert exchanges["GET"].status == 101
