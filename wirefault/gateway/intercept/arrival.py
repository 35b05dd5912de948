"""One connection of a subject's as it comes: where it was to go, and what has been read of it."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field

from wirefault.gateway.intercept.accepting import readable
from wirefault.gateway.intercept.first_bytes import Spoken, spoken
from wirefault.gateway.intercept.proxy_requests import TUNNEL_OPEN, Asked, proxy_refusal
from wirefault.history.events import TapKind

_SILENCE_S = 0.5
_REST_S = 10.0
_PIECE = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Arrival:
    """``early``: what has been read of it already. ``asked`` of a proxy, None where it took the front for its
    server. ``opened`` is in seconds since the epoch, other times are ``time.perf_counter``'s.
    ``said_all``: it has ended its side.
    """

    client: socket.socket
    host: str
    port: int
    way: TapKind
    asked: Asked | None = None
    early: bytes = b""
    opened: float = field(default_factory=time.time)
    began: float = field(default_factory=time.perf_counter)
    first_sent: float | None = None
    said_all: bool = False
    _answered: bool = False

    async def accept(self) -> None:
        """Tells a client that asked for a tunnel that it is open, once. Raises ``OSError`` if it has left."""
        if self.asked is Asked.TUNNEL and not self._answered:
            self._answered = True
            await asyncio.get_running_loop().sock_sendall(self.client, TUNNEL_OPEN)

    async def refuse(self, status: int, reason: str) -> None:
        """Ends it: by a reply where the client awaits one, else by a reset."""
        with self.client, suppress(OSError):  # it has left by itself
            if self.asked is Asked.TUNNEL and not self._answered:
                await asyncio.get_running_loop().sock_sendall(self.client, proxy_refusal(status, reason))
            else:
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    async def what_is_spoken(self) -> Spoken:
        """Reads until it can be told; ``UNDECIDED`` of a client that says nothing, or says no more."""
        with suppress(TimeoutError):
            while (kind := spoken(self.early)) is Spoken.UNDECIDED:
                async with asyncio.timeout(_REST_S if self.early else _SILENCE_S):
                    await readable(self.client)
                data = self.client.recv(_PIECE)
                if not data:
                    self.said_all = True
                    return kind
                self.first_sent = self.first_sent or time.perf_counter()
                self.early += data
        return kind
