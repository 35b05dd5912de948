"""The client's end of a connection as a byte stream: writing, pausing, closing, one timer. Knows no HTTP."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Literal, Protocol

from wirefault.core.identity import body_hash
from wirefault.dialects.http import Ending, Step
from wirefault.gateway.http1.framing import ReplyReader, Sink

_LINGER_S = 1.0
_FLUSH_CHECK_S = 0.001
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time


def _throw_away(data: bytes) -> None:
    """Stands in the place of a transport's ``write`` once nothing more may be sent."""


class PauseReason(Enum):
    """Why nothing is read from the client at the moment."""

    REQUESTS_WAIT = auto()  # many bytes of later requests wait behind the one in progress
    UPSTREAM_FULL = auto()  # the upstream takes the request more slowly than the client sends it
    FAULT_DELAY = auto()  # a fault delays the request before all of it has come


class ByteStream(Protocol):
    """What a client's connection must be able to do: a socket's transport, or TLS on one."""

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
    """TLS, where the end of a connection is a message, too: the client knows if it does not come."""

    def break_off(self) -> None:
        """However the connection is closed from now on, the message of its end is not sent."""


class ClientTransport:
    """Wraps the socket transport of one client, or TLS on it.

    ``write`` sends bytes. ``tls``: ``fresh`` if they go through TLS and no request has come that way yet,
    ``kept`` after the first; empty without TLS. ``full``: the client reads too slowly, so that more bytes
    would pile up here. ``half_closed``: the client sends no more; ``said_all``: it is sent no more. ``lost``:
    the connection is gone. ``closing``: it is being closed, and whatever the client still sends is thrown
    away.
    """

    def __init__(self, transport: ByteStream) -> None:
        self.full = self.half_closed = self.lost = self.closing = self.said_all = False
        self.write: Callable[[bytes], None] = transport.write
        self._transport = transport
        self.tls: Literal["", "fresh", "kept"] = ""
        self._secure: SecureStream | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.pause_reasons: set[PauseReason] = set()

    def start_tls(self, tls: SecureStream) -> None:
        """From now on all goes through that; what is closed already stays so."""
        self._transport = self._secure = tls
        self.tls = "fresh"
        if self.write is not _throw_away:
            self.write = tls.write

    # reading

    def pause(self, reason: PauseReason, paused: bool) -> None:
        """Adds or removes a reason; the socket is read while there is none."""
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
        """Calls ``expired`` after that time. Does nothing while a timer runs."""
        if self._timer is None:

            def expire() -> None:
                self._timer = None
                expired()

            self._timer = asyncio.get_running_loop().call_later(seconds, expire)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def after_sending(self, tell: Callable[[bool], None]) -> None:
        """Tells, once all that was written has left for the kernel, whether the client was there to get it.

        It is not told of a connection that is lost before. A client that is gone answers bytes with a
        reset; one that only sends no more takes them.
        """
        asyncio.get_running_loop().call_later(_FLUSH_CHECK_S, self._tell_if_sent, tell)

    def _tell_if_sent(self, tell: Callable[[bool], None]) -> None:
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size():
            self.after_sending(tell)
        else:
            error = self._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            tell(not error)

    # closing

    def stop_answering(self, seconds: float) -> None:
        """Closes this side alone: what is on its way to here is still read, what is written goes nowhere.

        A client that does not close its side within that time is cut off.
        """
        self.write = _throw_away
        self.said_all = True
        if not self._transport.is_closing():
            self._transport.write_eof()
        self.stop_timer()
        self.start_timer(seconds, self._transport.abort)

    def break_off(self) -> None:
        """The reply will not be whole: however the connection is closed, TLS must not say that it is."""
        if self._secure is not None:
            self._secure.break_off()

    def close(self, *, unread: bool = False, cut: bool = False) -> None:
        """Closes after what was written has gone out. ``unread``: the client is still sending. ``cut``: its
        reply is not whole.

        With bytes still to come, a plain close would reset the connection and the client could lose what
        was written: then the rest is read and thrown away, for a second at most.
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
        """Resets the connection (RST), once what was written before has left for the kernel."""
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
        """Closes at once; what was not sent yet is lost."""
        self.stop_timer()
        self._transport.abort()


_BACKLOG = 64 * 1024


class SentReply:
    """What a client was sent of one reply; ``keep`` gets its body. ``surplus``: more was sent after it."""

    def __init__(self, method: str, keep: Sink | None = None) -> None:
        self._hash = body_hash()
        self._keep = keep
        sink = self._hash.update if keep is None else self._take_body
        self._head_only = method == "HEAD"
        self._reader = ReplyReader(method, False, True, sink)
        self._ended_by_close = self._broken_off = False
        self.surplus = False

    def take(self, data: bytes) -> bytes:
        """Takes note of these bytes; what of them is to be sent: after the answer to a HEAD, nothing."""
        passed, surplus = self._reader.feed(data)
        self.surplus = self.surplus or (bool(surplus) and not self._head_only)
        return passed if self._head_only else data

    def _take_body(self, data: bytes) -> None:
        self._hash.update(data)
        if self._keep is not None:
            self._keep(data)

    @property
    def block(self) -> bytes:
        """The header block."""
        return self._reader.block

    def end(self, ending: Ending, *, keep_alive: bool) -> None:
        """Takes note of how the reply ends for the client. ``keep_alive``: the connection goes on."""
        self._broken_off = ending in ("close", "reset")
        self._ended_by_close = ending == "close" or (ending == "keep" and not keep_alive)

    @property
    def status(self) -> int | None:
        return self._reader.head.status if self._reader.head else None

    @property
    def whole(self) -> bool:
        return self._reader.done or (self._ended_by_close and self._reader.ends_by_close)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def shows(self) -> dict[str, Any]:
        """What the caller must have seen of it."""
        if self.whole:
            return {"status": self.status, "digest": self.digest}
        return {"lost": True, "closed": True} if self._broken_off else {"lost": True}


class ReplyWriter:
    """``write`` sends bytes, ``on_written`` is told the ending; while ``full()``, the client is behind.

    ``hurried()``: it waits no more. ``waited``: seconds that its waits have really taken.
    """

    def __init__(
        self,
        sent: SentReply,
        write: Callable[[bytes], None],
        full: Callable[[], bool],
        hurried: Callable[[], bool],
        on_written: Callable[[Ending], None],
    ) -> None:
        self.sent = sent
        self.waited = 0.0
        self._write, self._on_written = write, on_written
        self._full, self._hurried = full, hurried
        self._steps: deque[Step] = deque()
        self._queued = 0
        self._ending: Ending | None = None
        self._wait: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._stopped = self._running = False

    @property
    def waiting(self) -> bool:
        return self._wait is not None

    @property
    def behind(self) -> bool:
        """Whether more would only pile up here."""
        return self._queued > _BACKLOG

    def add(self, steps: Sequence[Step]) -> None:
        self._steps += steps
        self._queued += sum(len(step) for step in steps if isinstance(step, bytes))
        self.run()

    def finish(self, ending: Ending) -> None:
        """There are no more steps."""
        self._ending = ending
        self.run()

    def run(self) -> None:
        """Goes on, as far as the client and the time allow."""
        if self._running:
            return
        self._running = True
        while self._steps and not self._stopped and not self.waiting and not self._full():
            self._take_step(self._steps.popleft())
        self._running = False
        all_written = not self._steps and not self.waiting
        if self._ending is not None and all_written and not self._stopped:
            self._stopped = True
            self._on_written(self._ending)

    def _take_step(self, step: Step) -> None:
        if isinstance(step, bytes):
            self._queued -= len(step)
            data = self.sent.take(step) if step else b""
            if data:
                self._write(data)
        elif step > 0 and not self._hurried():
            self._since = time.perf_counter()
            self._wait = asyncio.get_running_loop().call_later(step, self._on_waited)

    def _on_waited(self) -> None:
        self._note_wait()
        self.run()

    def _note_wait(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
            self.waited += time.perf_counter() - self._since

    def stop(self) -> None:
        """Writes nothing more."""
        self._note_wait()
        self._stopped = True
