"""The gateway's connections without sockets and without waiting: the bytes of each side, in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from wirefault.core.sockets import Address
from wirefault.gateway.endpoint import Endpoint, lab_endpoint
from wirefault.gateway.exchange.connection import ClientConnection
from wirefault.gateway.exchange.upstream import SentRequests, UpstreamEvents
from wirefault.gateway.lane import Lane, LinkListener
from wirefault.gateway.lines.connection import StdioConnection, StdioServers
from wirefault.gateway.lines.streams import ServerStream
from wirefault.gateway.run import Run
from wirefault.history.events import FaultMet
from wirefault.history.reader import parse_line
from wirefault.history.writer import Writer
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Link, Links

_FACTS = (
    *("method", "target", "fingerprint", "call", "try_", "status", "upstream_status", "forwarded"),
    *("request_bytes", "reply_bytes", "request_complete", "reply_complete", "client_left", "message"),
    *("tool", "tool_answer", "eligible", "faulted_reply"),
)
_FAULT_FACTS = ("id", "kind", "injected", "why_not", "evidence", "content", "answered")


class Log(list[Any]):
    """Bytes and events of one side; adjacent bytes are joined."""

    def bytes(self, data: bytes) -> None:
        if self and isinstance(self[-1], bytes):
            self[-1] += data
        else:
            self.append(data)


class _Ordered(dict[Any, None]):
    """A set in the order of its members' arrival."""

    def add(self, member: Any) -> None:
        self[member] = None

    def discard(self, member: Any) -> None:
        self.pop(member, None)


class InstantLoop(asyncio.SelectorEventLoop):
    """Runs each timer at once and notes its seconds."""

    log: Log

    @property
    def idle(self) -> bool:
        return not self._ready  # type: ignore[attr-defined]

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        self.log.append(delay)
        return self.call_soon(callback, *args, context=context)


class MemoryTransport(asyncio.Transport):
    """A side of a connection: notes its bytes and its end."""

    def __init__(self, log: Log, protocol: asyncio.Protocol, on_write: Callable[[bytes], None] | None = None):
        super().__init__()
        self._log, self._protocol, self._on_write = log, protocol, on_write
        self._closed = False
        self._how = "abort"

    def write(self, data: Any) -> None:
        self._log.bytes(bytes(data))
        if self._on_write is not None:
            self._on_write(bytes(data))

    def close(self) -> None:
        self._end("close")

    def abort(self) -> None:
        self._end(self._how)

    def _end(self, how: str) -> None:
        if not self._closed:
            self._closed = True
            self._log.append(how)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def write_eof(self) -> None:
        self._log.append("eof")

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self._closed

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    def setsockopt(self, *_: object) -> None:
        self._how = "reset"


class MemoryUpstream:
    """Send that reply to each request; None sends nothing."""

    connecting = False

    def __init__(self, log: Log, reply: bytes, events: UpstreamEvents, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._log, self._reply, self._events = log, reply, events
        self._requests = SentRequests(None)
        self._ended = False

    def send(self, data: bytes) -> None:
        self._log.bytes(data)
        if self._requests.feed(data) is not None:
            asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        if not self._ended:
            self._events.on_reply(self._reply)
            if self._reply.startswith(b"HTTP/1.0"):
                self._events.on_upstream_end(None)

    def abort(self) -> None:
        self._ended = True

    close = abort

    def send_eof(self) -> None:
        pass

    def pause(self, paused: bool) -> None:
        pass


class _Records(Writer):
    """Keep the fields of history records that are equal in every run."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def write_lines(self, records: Iterable[bytes]) -> None:
        for record in records:
            event = parse_line(record, Path("gateway-0.jsonl"), 1)
            faults = [_facts_of(fault) for fault in getattr(event, "faults", ())]
            self.records.append({**_values_of(event, _FACTS), "faults": faults})

    def close(self) -> None:
        pass


def _facts_of(fault: FaultMet) -> dict[str, Any]:
    shows = {name: value for name, value in (fault.shows or {}).items() if name != "delay_ms"}
    return {**_values_of(fault, _FAULT_FACTS), "shows": shows}


def _values_of(part: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: to_builtins(getattr(part, name)) for name in names if hasattr(part, name)}


async def _turns() -> None:
    """Run the loop until it is idle."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while isinstance(loop, InstantLoop) and not loop.idle:
        await asyncio.sleep(0)


def _drive(link: Link, fault: dict[str, Any], play: Callable[[LinkListener, Log, Log], Any]) -> Any:
    """Return the client's log, the server's log and the records."""
    client, server, writer = Log(), Log(), _Records()
    links = Links([link])
    values = {"seed": 1, "error_prob": 0, "faults": json.dumps({"faults": [fault]})}
    settings = Settings.model_validate(values, context={"links": links})

    async def run() -> None:
        own = Run("run", settings, writer, None, links)
        lane = Lane(0, links, connections=_Ordered())  # type: ignore[arg-type]
        lane.start_run("run", settings.hash, lambda: own)
        lane.start_attempt(own, "e1", 1)
        await play(LinkListener(link, lane, lab_endpoint(Address("127.0.0.1", 80))), client, server)
        attempt = lane.attempt
        assert attempt is not None
        attempt.settling = True
        for connection in tuple(lane.connections):
            connection.settle(attempt)
        await _turns()
        client.append(f"{attempt.open} open")
        own.flush()

    loop = InstantLoop()
    loop.log = client
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    return client, server, sorted(json.dumps(record) for record in writer.records)


def over_http(link: Link, fault: dict[str, Any], talk: Sequence[tuple[bytes, bytes]]) -> Any:
    """Drive those requests, each on its own connection, to a server that gives those replies."""

    async def play(listener: LinkListener, client: Log, server: Log) -> None:
        for request, reply in talk:

            def opened(events: Any, endpoint: Endpoint, reply: bytes = reply) -> MemoryUpstream:
                return MemoryUpstream(server, reply, events, endpoint)

            endpoint = Endpoint("memory", 0, b"memory", is_lab=False, opener=opened)
            connection = ClientConnection(LinkListener(listener.link, listener.lane, endpoint))
            transport = MemoryTransport(client, connection)
            connection.connection_made(transport)
            connection.data_received(request)
            await _turns()
            client.append("next")
            server.append("next")
            connection.connection_lost(None)
            await _turns()

    return _drive(link, fault, play)


def over_lines(link: Link, fault: dict[str, Any], talk: Sequence[tuple[bytes, bytes]]) -> Any:
    """Drive those lines to a server over stdio that answers each by those lines.

    A client's line may be empty: then the server pushes its lines.
    """

    async def play(listener: LinkListener, client: Log, server: Log) -> None:
        reply = b""

        def answer(data: bytes) -> None:
            for _ in data.splitlines():
                asyncio.get_running_loop().call_soon(streams[-1].data_received, reply)

        streams, transports, connections = [], [], []
        for line, reply in talk:
            if not transports or transports[-1].is_closing():  # the subject restarts its server
                stream = ServerStream("token")
                streams.append(stream)
                stream.connection_made(MemoryTransport(server, stream, answer))
                connections.append(StdioConnection(listener, stream, StdioServers("lab")))
                transports.append(MemoryTransport(client, connections[-1]))
                connections[-1].connection_made(transports[-1])
            if line:
                connections[-1].data_received(line)
            else:
                streams[-1].data_received(reply)
            await _turns()
            client.append("next")
            server.append("next")

    return _drive(link, fault, play)
