"""A gateway with one MCP link over stdio, and sockets at both ends of its streams."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gateway.lab import Lab, dial, gateway
from wirefault.wiring.links import STDIO, Link, Links

FILES = Links([Link("files", STDIO, "mcp", ("FILES_MCP",))])


class Ends:
    """The client's and the server's end of the stream."""

    def __init__(self, lab: Lab) -> None:
        self.hello = {"lab_id": "lab", "token": secrets.token_urlsafe(16)}
        self.lab = lab
        self.server = dial(lab.address("files"))
        assert say(self.server, self.hello) == {}
        self.client = dial(lab.address("files"))
        assert json.loads(read(self.server)) == {}

    def end_of_client(self, size: int) -> None:
        """Report, as ``wirefault mcp``, that the client has closed its stream after that many bytes."""
        with dial(self.lab.address("files")) as connection:
            assert say(connection, {**self.hello, "bytes": size}) == {}

    def close(self) -> None:
        self.client.close()
        self.server.close()


@contextmanager
def stdio_lab(folder: Path) -> Iterator[Lab]:
    with gateway(folder, links=FILES) as lab:
        yield lab


def say(sock: socket.socket, hello: Any) -> Any:
    """The answer to a first line."""
    sock.sendall(json.dumps(hello).encode() + b"\n")
    return json.loads(read(sock))


def read(sock: socket.socket) -> bytes:
    """Return one line, incomplete at the stream's end."""
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
