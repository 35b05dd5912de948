"""The client's end of a connection: reading and pausing, closing, and which attempt it belongs to."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import cast

from windtunnel.gateway.connection.upstream import Upstream
from windtunnel.gateway.endpoint import Endpoint
from windtunnel.gateway.lane import Attempt, Lane
from windtunnel.links.catalog import MODEL_LINK

_LINGER_S = 1.0
_FLUSH_CHECK_S = 0.001
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time
QUEUED, UPSTREAM_FULL, DELAYED = 1, 2, 4


@dataclass(frozen=True)
class LinkListener:
    """One link's listener: its lane, its upstream outside any run, and how long others may take (s)."""

    link: str
    lane: Lane
    endpoint: Endpoint
    head_timeout: float = 10.0
    connect_timeout: float = 10.0

    @property
    def is_tool(self) -> bool:
        return self.link != MODEL_LINK.name


class ClientEdge(asyncio.Protocol):
    """What every client connection does, whatever is said on it.

    A tool-link connection belongs to the attempt that was current when it was accepted, and counts as
    open until nothing of it is left.
    """

    def __init__(self, door: LinkListener) -> None:
        self.door = door
        self.is_tool = door.is_tool
        self.attempt = door.lane.attempt if self.is_tool else None
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)  # until connection_made
        self.upstream: Upstream | None = None
        self.lost = self.draining = self.eof = False
        self._timer: asyncio.TimerHandle | None = None
        self._paused = 0
        self._full = self._left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.door.lane.connections.add(self)
        if self.attempt is not None:
            self.attempt.opened()

    def leave(self) -> None:
        """Nothing is left of the connection: the attempt need not wait for it any more."""
        if not self._left:
            self._left = True
            self.upstream = None
            self.door.lane.connections.discard(self)
            if self.attempt is not None:
                self.attempt.closed()

    def end(self, reason: str) -> None:
        """Closes both sides at once."""
        self.stop_timer()
        if self.upstream is not None:
            self.upstream.abort()
        self.transport.abort()
        self.leave()

    def release(self, attempt: Attempt) -> None:
        raise NotImplementedError

    # backpressure

    def pause_writing(self) -> None:
        self._full = True
        self.throttle()

    def resume_writing(self) -> None:
        self._full = False
        self.throttle()

    @property
    def behind(self) -> bool:
        """Whether more for the client would only pile up here."""
        return self._full

    def throttle(self) -> None:
        """Stops reading from the upstream while the client is behind."""
        if self.upstream is not None:
            self.upstream.pause(self.behind)

    def hold(self, why: int, hold: bool) -> None:
        """Stops reading from the client while there is a reason to."""
        before = self._paused
        self._paused = before | why if hold else before & ~why
        if bool(before) != bool(self._paused) and not self.transport.is_closing():
            if self._paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def held_by(self, why: int) -> bool:
        return bool(self._paused & why)

    def on_full(self, full: bool) -> None:
        self.hold(UPSTREAM_FULL, full)

    # the upstream

    def open_upstream(self, endpoint: Endpoint) -> Upstream:
        """The upstream that is pinned to this client, opened if there is none to that endpoint."""
        upstream = self.upstream
        if upstream is not None and upstream.endpoint is not endpoint:
            self.drop(upstream)
            upstream = None
        if upstream is None:
            upstream = self.upstream = self.new_upstream(endpoint)
            self.throttle()
        return upstream

    def new_upstream(self, endpoint: Endpoint) -> Upstream:
        raise NotImplementedError

    def drop(self, upstream: Upstream) -> None:
        """Closes an upstream at once; a next request opens another."""
        if upstream is self.upstream:
            self.upstream = None
            self.hold(UPSTREAM_FULL, False)
        upstream.abort()

    # closing

    def start_timer(self, seconds: float) -> None:
        """``on_timer`` comes after that time, unless it runs already."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self.draining:
            self.transport.abort()
        else:
            self.on_timer()

    def on_timer(self) -> None:
        raise NotImplementedError

    def close(self, *, unread: bool) -> None:
        """Closes after what was written has gone out.

        With the rest of a request still to come, a plain close would reset the connection and the reply
        could be lost with it: then it is read and thrown away, for a second at most.
        """
        self.draining = True
        if not unread:
            self.transport.close()
            return
        self.hold(QUEUED | UPSTREAM_FULL | DELAYED, False)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.stop_timer()
        self.start_timer(_LINGER_S)

    def reset(self) -> None:
        """Resets the connection (RST), once what was written before has left for the kernel."""
        self.draining = True
        if self.transport.get_write_buffer_size() and not self.transport.is_closing():
            asyncio.get_running_loop().call_later(_FLUSH_CHECK_S, self.reset)
            return
        if not self.transport.is_closing():
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
            )
        self.transport.abort()
