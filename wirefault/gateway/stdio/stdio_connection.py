"""A client's stream of lines and its server's: what crosses, in both directions, and how they end."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any, cast

from wirefault.dialects.mcp import CANCELLED, PROGRESS, McpMessage, read_message
from wirefault.gateway.connection.client_transport import ClientTransport
from wirefault.gateway.lane_attempt import LaneAttempt
from wirefault.gateway.link_listener import LinkListener
from wirefault.gateway.stdio.line_exchange import LineExchange
from wirefault.gateway.stdio.lines import Line, LineSequence, LineSplitter
from wirefault.gateway.stdio.server_stream import ServerStream
from wirefault.gateway.stdio.servers import StdioServers


class StdioConnection(asyncio.Protocol):
    """The connection of one ``wirefault mcp``: the client's lines. The server's come by ``ServerStream``.

    It belongs to no attempt: each message does, to the one in progress when it comes. So a server that its
    client keeps across attempts stays.
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
        self._eof_wanted = self._ending = False

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
            self.to_server(self, line.data)
            return
        self._begin(LineExchange(self._listener, self, line.data, message))
        if message.method == CANCELLED:
            self._on_cancelled(message)

    def _begin(self, exchange: LineExchange) -> LineExchange:
        self._exchanges[exchange] = None
        exchange.begin()
        return exchange

    def _on_cancelled(self, message: McpMessage) -> None:
        """The client does not wait for that response any more."""
        id = message.params.get("requestId")
        for exchange in tuple(self._exchanges):
            if exchange.id is not None and exchange.id == id:
                exchange.on_client_end()

    def client_ended(self, size: int) -> None:
        self._ends_after = size
        self._end_if_all_came()

    def _end_if_all_came(self) -> None:
        if self._ends_after is not None and self._received >= self._ends_after:
            self._ends_after = None
            self._on_client_end()

    def _on_client_end(self) -> None:
        """The client has said all: the server is told, after what is delayed, and may still answer."""
        self.to_server(self, self._from_client.end())
        self._eof_wanted = True
        self._send_eof_if_due()

    def _send_eof_if_due(self) -> None:
        if self._eof_wanted and not any(e.will_send for e in self._exchanges):
            self._server.send_eof()

    def eof_received(self) -> bool:
        return False  # a proxy passes on no more than the end of both directions

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
        reader = self._reader_of(message) if message is not None and message.kind != "response" else None
        if reader is not None:
            reader.on_event(line.data)
        else:
            self.to_client(self, line.data)

    def _reader_of(self, message: McpMessage) -> LineExchange | None:
        """The exchange by which a fault may change what the server says unasked; None if none does."""
        token = message.params.get("progressToken") if message.method == PROGRESS else None
        asked = (e for e in self._exchanges if token is not None and e.progress_token == token)
        exchange = next(asked, None) or self._pushed_to()
        return exchange if exchange is not None and exchange.takes_events else None

    def _pushed_to(self) -> LineExchange | None:
        """The stream of what the server sends of its own accord, begun anew with each attempt with faults."""
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
        """The server takes its lines more slowly than the client sends them."""
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
