"""Connections of a link over stdio: a client's lines and its server's, and the matching of the two."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wirefault.dialects.mcp import CANCELLED, PROGRESS, McpMessage, read_message
from wirefault.gateway.exchange.client import ClientTransport
from wirefault.gateway.lane import LaneAttempt, LinkListener
from wirefault.gateway.lines.exchange import LineExchange
from wirefault.gateway.lines.streams import Line, LineSequence, LineSplitter, ServerStream


class StdioServers:
    """Per link the server whose client is expected, and by token the servers whose client has come.

    ``wirefault mcp`` announces its server just before it dials the link's proxy, one at a time: behind
    Toxiproxy, the client's connection itself does not identify its server.
    """

    def __init__(self, lab_id: str) -> None:
        self.lab_id = lab_id
        self._next: dict[str, ServerStream] = {}
        self._open: dict[str, StdioConnection] = {}

    def expect_client(self, link: str, server: ServerStream) -> None:
        """Expect the server's client as the link's next connection; one expected before did not come."""
        self._next[link] = server

    def take(self, link: str) -> ServerStream | None:
        """Return the server of the client that connects now; None if no client is expected."""
        server = self._next.pop(link, None)
        return None if server is None or server.lost else server

    def opened(self, token: str, streams: StdioConnection) -> None:
        self._open[token] = streams

    def closed(self, token: str) -> None:
        self._open.pop(token, None)

    def client_ended(self, token: str, size: int) -> None:
        """The client has closed its stream after that many bytes.

        It comes by another connection, since a proxy on the way cannot close one direction alone.
        """
        streams = self._open.get(token)
        if streams is not None:
            streams.client_ended(size)

    def close(self) -> None:
        """End all streams."""
        for streams in tuple(self._open.values()):
            streams.close()


class StdioConnection(asyncio.Protocol):
    """The connection of one ``wirefault mcp`` for the client's lines; the server's come by ``ServerStream``.

    It does not belong to an attempt. Each message belongs to the attempt that is in progress when it comes,
    so that a server can outlive attempts.
    """

    def __init__(self, listener: LinkListener, server: ServerStream, servers: StdioServers) -> None:
        self._listener = listener
        self._servers = servers
        self._server = server
        self._client: asyncio.Transport
        self._from_client, self._from_server = LineSplitter(), LineSplitter()
        self._lines_to_client = LineSequence(self._write_to_client)
        self._lines_to_server = LineSequence(server.write)
        self._exchanges: dict[LineExchange, None] = {}
        self._expecting: dict[str, deque[LineExchange]] = {}
        self._pushed: LineExchange | None = None
        self._pushed_in: LaneAttempt | None = None
        self._received = 0
        self._ends_after: int | None = None
        self._eof_pending = self._ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast(asyncio.Transport, transport)
        self._servers.opened(self._server.token, self)
        self._server.join(self)

    # from the client

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        for line in self._from_client.feed(data):
            self._on_client_line(line)
        self._end_if_all_came()

    def _on_client_line(self, line: Line) -> None:
        message = read_message(line.data) if line.whole else None
        if message is None:
            if not self._listener.lane.killing:
                self.to_server(self, line.data)
            return
        self._begin(LineExchange(self._listener, self, line.data, message))
        if message.method == CANCELLED and not self._listener.lane.killing:
            self._on_cancelled(message)

    def _begin(self, exchange: LineExchange) -> LineExchange:
        self._exchanges[exchange] = None
        exchange.begin()
        return exchange

    def _on_cancelled(self, message: McpMessage) -> None:
        """The client no longer waits for that response."""
        id = message.params.get("requestId")
        for exchange in tuple(self._exchanges):
            if exchange.id is not None and exchange.id == id:
                exchange.on_client_end()

    def client_ended(self, size: int) -> None:
        """The client sends no more than that many bytes in all, some of which may still be on their way."""
        self._ends_after = size
        self._end_if_all_came()

    def _end_if_all_came(self) -> None:
        if self._ends_after is not None and self._received >= self._ends_after:
            self._ends_after = None
            self._on_client_end()

    def _on_client_end(self) -> None:
        """The client has sent all: half-close towards the server, once delayed lines are sent."""
        self.to_server(self, self._from_client.end())
        self._eof_pending = True
        self._send_eof_if_due()

    def _send_eof_if_due(self) -> None:
        if self._eof_pending and not any(e.will_send for e in self._exchanges):
            self._server.send_eof()

    def eof_received(self) -> bool:
        return False  # a proxy can only pass on the end of both directions

    def connection_lost(self, error: Exception | None) -> None:
        self._ending = True
        self._servers.closed(self._server.token)
        for exchange in tuple(self._exchanges):
            exchange.on_client_end()
        self._on_client_end()
        self._server.ignore()

    def pause_writing(self) -> None:
        self._server.pause(True)

    def resume_writing(self) -> None:
        self._server.pause(False)

    def close(self) -> None:
        self._ending = True
        self._client.close()

    # from the server

    def on_server_data(self, data: bytes) -> None:
        for line in self._from_server.feed(data):
            self._on_server_line(line)

    def _on_server_line(self, line: Line) -> None:
        message = read_message(line.data) if line.whole else None
        waiting = None
        if message is not None and message.kind == "response":
            waiting = self._expecting.get(_key(message.id))
        if waiting:
            waiting.popleft().on_response(line.data)
            return
        exchange = self._exchange_for(message) if message is not None and message.kind != "response" else None
        if exchange is not None:
            exchange.on_event(line.data)
        else:
            self.to_client(self, line.data)

    def _exchange_for(self, message: McpMessage) -> LineExchange | None:
        """Return the exchange whose faults may change this notification; None without one."""
        token = message.params.get("progressToken") if message.method == PROGRESS else None
        by_token = (e for e in self._exchanges if token is not None and e.progress_token == token)
        exchange = next(by_token, None) or self._push_exchange()
        return exchange if exchange is not None and exchange.takes_events else None

    def _push_exchange(self) -> LineExchange | None:
        """Return the exchange for what the server pushes, a new one in each attempt with faults."""
        run, attempt = self._listener.lane.run, self._listener.lane.attempt
        if run is None or attempt is None or not run.matcher.armed(self._listener.name):
            return None
        if self._pushed is None or self._pushed.over or self._pushed_in is not attempt:
            self._pushed_in = attempt
            self._pushed = self._begin(LineExchange(self._listener, self))
        return self._pushed

    def on_server_end(self) -> None:
        """The server's stream is over."""
        rest = self._from_server.end()
        if rest:  # a last line may lack its end
            self._on_server_line(Line(rest, True))
        self._ending = True
        for exchange in tuple(self._exchanges):
            exchange.on_server_end()
        self._client.close()

    def pause_client(self, paused: bool) -> None:
        """The server reads more slowly than the client sends."""
        if self._client.is_closing():
            return
        if paused:
            self._client.pause_reading()
        else:
            self._client.resume_reading()

    # for the exchanges

    def to_server(self, sender: object, data: bytes) -> None:
        self._lines_to_server.write(sender, data)
        self._send_eof_if_due()

    def to_client(self, sender: object, data: bytes) -> None:
        self._lines_to_client.write(sender, data)

    def _write_to_client(self, data: bytes) -> None:
        if not self._ending:
            self._client.write(data)

    def expect(self, id: Any, exchange: LineExchange) -> None:
        self._expecting.setdefault(_key(id), deque()).append(exchange)

    def forget(self, exchange: LineExchange) -> None:
        for key, waiting in tuple(self._expecting.items()):
            if exchange in waiting:
                waiting.remove(exchange)
            if not waiting:
                del self._expecting[key]

    def leave(self, exchange: LineExchange) -> None:
        self._exchanges.pop(exchange, None)
        self._lines_to_client.release(exchange)
        self._send_eof_if_due()

    def break_off(self, *, reset: bool) -> None:
        if self._ending:
            return
        self._ending = True
        self._server.abort()
        if reset:
            ClientTransport(self._client).reset()
        else:
            self._client.close()


def _key(id: Any) -> str:
    """1 and "1" are two ids."""
    return json.dumps(id, sort_keys=True)


_MAX_HELLO = 4096


class _Hello(BaseModel):
    """The first line of ``wirefault mcp``.

    Without ``bytes``, the connection carries a server's streams, and the link's next connection is its
    client. With them, that server's client sends no more than this number.
    """

    model_config = ConfigDict(extra="forbid")

    lab_id: str
    token: str = Field(min_length=16, max_length=64)
    bytes: int | None = Field(None, ge=0)


class StdioArrival(asyncio.Protocol):
    """A new connection: it becomes a ``StdioConnection`` if a client is expected, else its hello decides.

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
        elif more or len(self._first) > _MAX_HELLO:
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
