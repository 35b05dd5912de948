"""A gateway with one MCP link over stdio, and both ends of its streams as sockets in the test's hands."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gateway.lab import Lab, dial, gateway
from tests.support import PATIENCE_S
from tests.upstream import FREE
from windtunnel.core.sockets import address_of, bind
from windtunnel.links.link import STDIO, Link
from windtunnel.links.links import Links

FILES = Links([Link("files", STDIO, "mcp", ("FILES_MCP",))])
SERVER = "/lanes/0/links/files/server"


class Ends:
    """The client's end of the stream and the server's, past the gateway."""

    def __init__(self, lab: Lab) -> None:
        self.token = secrets.token_urlsafe(16)
        self.lab = lab
        with bind(FREE) as listener:
            listener.settimeout(PATIENCE_S)
            body = {"lab_id": "lab", "port": address_of(listener).port, "token": self.token}
            assert lab.control("PUT", SERVER, body).status_code == 200
            self.client = dial(lab.address("files"))
            self.server = listener.accept()[0]
        self.server.settimeout(PATIENCE_S)
        assert read(self.server) == self.token.encode() + b"\n"

    def end_of_client(self, size: int) -> None:
        """What ``windtunnel mcp`` says when the client has closed its stream after that many bytes."""
        answer = self.lab.control("POST", f"{SERVER}/end", {"token": self.token, "bytes": size})
        assert answer.json() == {"known": True}

    def close(self) -> None:
        self.client.close()
        self.server.close()


@contextmanager
def stdio_lab(folder: Path) -> Iterator[Lab]:
    with gateway(folder, links=FILES) as lab:
        yield lab


def read(sock: socket.socket) -> bytes:
    """One line, or what there is of it at the stream's end."""
    data = b""
    while not data.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte:
            break
        data += byte
    return data


def call(id: Any = 1, tool: str = "add", **arguments: Any) -> bytes:
    return message(id=id, method="tools/call", params={"name": tool, "arguments": arguments})


def answer(id: Any = 1, text: str = "3") -> bytes:
    return message(id=id, result={"content": [{"type": "text", "text": text}]})


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def faults(*entries: dict[str, Any]) -> str:
    return json.dumps({"faults": [{"id": f"f{at}", "links": "files", **e} for at, e in enumerate(entries)]})
