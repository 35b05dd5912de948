"""The client's end of a connection as a byte stream: writing, pausing, closing, one timer. No HTTP here."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Literal, Protocol

_LINGER_S = 1.0
_FLUSH_CHECK_S = 0.001
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time


def _discard(data: bytes) -> None:
    """Replaces a transport's ``write`` once nothing more may be sent."""


class PauseReason(Enum):
    """Why the gateway does not read from the client at the moment."""

    REQUESTS_WAIT = auto()  # many bytes of later requests wait behind the one in progress
    UPSTREAM_FULL = auto()  # the upstream takes the request more slowly than the client sends it
    FAULT_DELAY = auto()  # a fault delays the request before all of it has come


class ByteStream(Protocol):
    """A client's connection: a socket's transport, or TLS on one."""

    def write(self, data: bytes) -> None: ...

    def write_eof(self) -> None: ...

    def can_write_eof(self) -> bool: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int: ...

    def get_extra_info(self, name: str) -> Any: ...

    def is_closing(self) -> bool: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class SecureStream(ByteStream, Protocol):
    """TLS, where the end of a connection is a message: the client notices if it does not come."""

    def break_off(self) -> None:
        """Never send that message, however the connection is closed from now on."""


class Client(Protocol):
    """A client to which replies are written. ``ClientTransport`` describes the members."""

    lost: bool

    @property
    def full(self) -> bool: ...

    @property
    def half_closed(self) -> bool: ...

    @property
    def closing(self) -> bool: ...

    @property
    def write(self) -> Callable[[bytes], None]: ...

    def pause(self, reason: PauseReason, paused: bool) -> None: ...

    def after_sending(self, report: Callable[[bool], None]) -> None: ...

    def close(self, *, unread: bool = False, cut: bool = False) -> None: ...

    def reset(self) -> None: ...

    def abort(self) -> None: ...

    def half_close(self, seconds: float) -> None: ...


class ClientTransport:
    """Wraps the socket transport of one client, or TLS on it."""

    write: Callable[[bytes], None]
    tls: Literal["", "fresh", "kept"]
    """``fresh``: TLS, and no request has come yet; ``kept`` after the first; empty without TLS."""
    full: bool
    """The client reads too slowly: more bytes would pile up here."""
    half_closed: bool
    """The client sends no more."""
    write_closed: bool
    """The client is sent no more."""
    lost: bool
    closing: bool
    """The connection is being closed; bytes that still come are discarded."""

    def __init__(self, transport: ByteStream) -> None:
        self.full = self.half_closed = self.lost = self.closing = self.write_closed = False
        self.write = transport.write
        self._transport = transport
        self.tls = ""
        self._secure: SecureStream | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.pause_reasons: set[PauseReason] = set()

    def start_tls(self, tls: SecureStream) -> None:
        """Send and read through TLS from now on; a side that is closed stays closed."""
        self._transport = self._secure = tls
        self.tls = "fresh"
        if self.write is not _discard:
            self.write = tls.write

    # reading

    def pause(self, reason: PauseReason, paused: bool) -> None:
        """Add or remove a reason; the socket is read while there is none."""
        was_paused = bool(self.pause_reasons)
        if paused:
            self.pause_reasons.add(reason)
        else:
            self.pause_reasons.discard(reason)
        if was_paused != bool(self.pause_reasons):
            self._read(not self.pause_reasons)

    def _read(self, on: bool) -> None:
        if self._transport.is_closing():
            return
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # the timer

    def start_timer(self, seconds: float, expired: Callable[[], None]) -> None:
        """Call ``expired`` after that time. Does nothing while a timer runs."""
        if self._timer is None:

            def expire() -> None:
                self._timer = None
                expired()

            self._timer = asyncio.get_running_loop().call_later(seconds, expire)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def after_sending(self, report: Callable[[bool], None]) -> None:
        """Once the kernel has all written bytes, report whether the client was there to get them.

        A client that is gone answers bytes with a reset; one that has only half-closed takes them. If the
        connection is lost first, nothing is reported.
        """
        asyncio.get_running_loop().call_later(_FLUSH_CHECK_S, self._report_if_sent, report)

    def _report_if_sent(self, report: Callable[[bool], None]) -> None:
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size():
            self.after_sending(report)
        else:
            error = self._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            report(not error)

    # closing

    def half_close(self, seconds: float) -> None:
        """Close this side alone: bytes on their way to here are still read, bytes written are discarded.

        A client that does not close its side within that time is cut off.
        """
        self.write = _discard
        self.write_closed = True
        if not self._transport.is_closing():
            self._transport.write_eof()
        self.stop_timer()
        self.start_timer(seconds, self._transport.abort)

    def break_off(self) -> None:
        """The reply will not be whole: however the connection is closed, TLS must not mark it as whole."""
        if self._secure is not None:
            self._secure.break_off()

    def close(self, *, unread: bool = False, cut: bool = False) -> None:
        """Close once all written bytes are sent. ``unread``: the client is still sending. ``cut``: its reply
        is not whole.

        With bytes still to come, a plain close would reset the connection, and the client could lose the
        reply: so the rest is read and discarded, for a second at most.
        """
        self.closing = True
        if cut:
            self.break_off()
        if not unread:
            self._transport.close()
            return
        if self.pause_reasons:
            self.pause_reasons.clear()
            self._read(True)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.stop_timer()
        self.start_timer(_LINGER_S, self._transport.abort)

    def reset(self) -> None:
        """Reset the connection (RST), once the kernel has all written bytes."""
        self.closing = True
        if self._transport.get_write_buffer_size() and not self._transport.is_closing():
            asyncio.get_running_loop().call_later(_FLUSH_CHECK_S, self.reset)
            return
        if not self._transport.is_closing():
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
            )
        self._transport.abort()

    def abort(self) -> None:
        """Close at once; bytes that were not sent yet are lost."""
        self.stop_timer()
        self._transport.abort()


_BACKLOG = 64 * 1024
