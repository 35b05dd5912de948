"""Connections that change their protocol."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from tests.gateway.lab import dial, gateway
from tests.upstream import Upstream, read_head

UPGRADE = b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def _switch_and_echo(connection: socket.socket) -> None:
    read_head(connection)
    connection.sendall(SWITCHED)
    while data := connection.recv(1000):
        connection.sendall(data)


@pytest.mark.parametrize("by", ["client", "server"])
@pytest.mark.parametrize("how", ["reset", "close", "half-close, then reset"])
@pytest.mark.parametrize("faults", [[], [{"fault": "truncate"}]], ids=["no fault", "armed"])
def test_ended_upgrade_keeps_its_status(
    tmp_path: Path, by: str, how: str, faults: list[dict[str, str]]
) -> None:
    def end(connection: socket.socket) -> None:
        if how.startswith("half"):
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
        if how.endswith("reset"):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def serve(connection: socket.socket) -> None:
        if by == "client":
            _switch_and_echo(connection)
        else:
            read_head(connection)
            connection.sendall(SWITCHED)
            connection.recv(1)
            end(connection)

    with Upstream(serve) as upstream, gateway(tmp_path, search=upstream.address) as lab:
        lab.begin(faults={"faults": faults} if faults else "")
        client = dial(lab.topology.gateways["search"])
        client.sendall(UPGRADE)
        read_head(client)
        client.sendall(b"frame")
        if by == "client":
            client.recv(1)
            end(client)
        else:
            try:
                while client.recv(100):
                    pass
            except ConnectionResetError:
                pass
            client.close()
        assert lab.exchange().status == 101
