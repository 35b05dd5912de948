"""A connection accepted on the listener of a link over stdio, until it is known what it is."""

from __future__ import annotations

import asyncio
import json
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wirefault.gateway.link_listener import LinkListener
from wirefault.gateway.stdio.server_stream import ServerStream
from wirefault.gateway.stdio.servers import StdioServers
from wirefault.gateway.stdio.stdio_connection import StdioConnection

_LONGEST = 4096


class _Hello(BaseModel):
    """The first line of ``wirefault mcp``.

    Without ``bytes`` the connection carries a server's streams, and the link's next one is its client's; with
    them that server's client sends no more than so many.
    """

    model_config = ConfigDict(extra="forbid")

    lab_id: str
    token: str = Field(min_length=16, max_length=64)
    bytes: int | None = Field(None, ge=0)


class StdioArrival(asyncio.Protocol):
    """Hands the connection over: to ``StdioConnection`` if a server's client is expected, else by its hello.

    Each hello is answered by a line of JSON, with ``error`` if it is refused.
    """

    def __init__(self, listener: LinkListener, servers: StdioServers) -> None:
        self._listener = listener
        self._servers = servers
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._first = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(
            self._listener.head_timeout, self._transport.abort
        )
        server = self._servers.take(self._listener.name)
        if server is not None:
            self._hand_over_to(StdioConnection(self._listener, server, self._servers))

    def data_received(self, data: bytes) -> None:
        self._first += data
        line, end, more = self._first.partition(b"\n")
        if end and not more:
            self._on_hello(line)
        elif more or len(self._first) > _LONGEST:
            self._refuse("a first line of JSON, and then nothing until it is answered")

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()

    def _on_hello(self, line: bytes) -> None:
        try:
            hello = _Hello.model_validate_json(line)
        except ValidationError:
            self._refuse("only wirefault mcp may connect here")
            return
        if hello.lab_id != self._servers.lab_id:
            self._refuse(f"this is lab {self._servers.lab_id}, not {hello.lab_id}")
        elif hello.bytes is not None:
            self._servers.client_ended(hello.token, hello.bytes)
            self._answer({})
            self._transport.close()
        else:
            server = ServerStream(hello.token)
            self._hand_over_to(server)
            self._servers.expect_client(self._listener.name, server)
            self._answer({})

    def _answer(self, content: dict[str, str]) -> None:
        self._transport.write(json.dumps(content).encode() + b"\n")

    def _refuse(self, problem: str) -> None:
        self._answer({"error": problem})
        self._transport.close()

    def _hand_over_to(self, protocol: asyncio.Protocol) -> None:
        self._timer.cancel()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
