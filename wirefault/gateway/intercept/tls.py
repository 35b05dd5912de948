"""TLS on intercepted links, ended in memory."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

_RECORD = 16 * 1024  # the largest record


class TlsConnection(asyncio.Protocol):
    """The protocol of a socket's transport and, in turn, the transport of ``protocol``, which gets plain
    bytes.

    In memory, so that every way in which plain TCP can end is possible. A client that sends close_notify may
    still read, as after a half-close of TCP. ``on_failed`` gets the reason if TLS fails before the client's
    first plain byte.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        context: ssl.SSLContext,
        protocol: asyncio.Protocol,
        on_failed: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._protocol = protocol
        self._on_failed = on_failed
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._handshake_done = False
        self._has_plain = False  # the client has sent a plain byte
        self._certificate_sent: float | None = None  # when, in seconds of ``time.perf_counter``
        self._failed = False
        self._silent = False  # nothing more is sent to the client
        self._eof_sent = False
        self._client_ended = self._stays_open = False
        # passed through to TCP unchanged
        self.is_closing = transport.is_closing
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.get_write_buffer_size = transport.get_write_buffer_size
        self.get_extra_info = transport.get_extra_info
        self.abort = transport.abort

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        """Send plain bytes to that protocol from now on."""
        self._protocol = protocol

    @property
    def refused_for(self) -> float | None:
        """Seconds since this side's certificate; None without one, after a plain byte and after a failure."""
        if self._has_plain or self._failed or self._certificate_sent is None or self._tls.session_reused:
            return None
        return time.perf_counter() - self._certificate_sent

    # from the client

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        plain, ended = b"", False
        try:
            if not self._handshake_done:
                self._tls.do_handshake()
                self._handshake_done = True
            plain, ended = self._read()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()
        if plain:
            self._has_plain = True
            self._protocol.data_received(plain)
        if ended:
            self.eof_received()

    def _read(self) -> tuple[bytes, bool]:
        """Return all complete plain bytes, and whether the client sent close_notify."""
        pieces: list[bytes] = []
        with suppress(ssl.SSLWantReadError):
            while self._incoming.pending or self._tls.pending():
                piece = self._read_record()
                if not piece:
                    return b"".join(pieces), True
                pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), False

    def _read_record(self) -> bytes:
        try:
            return self._tls.read(_RECORD)
        except ssl.SSLZeroReturnError:  # both sides have sent close_notify
            return b""

    def _fail(self, error: ssl.SSLError) -> None:
        """End a connection that is not TLS, or no longer; only an alert may still be sent."""
        self._silent = self._failed = True
        self._flush()
        self._transport.close()
        if not self._has_plain:
            self._on_failed((error.reason or str(error)).replace("_", " ").lower())

    def eof_received(self) -> bool:
        """The client ends its side by close_notify, by TCP, or by both.

        If nothing is left to send, this side ends gracefully, too: to a client that closed TCP one way, an
        end without close_notify would look like a cut.
        """
        if not self._client_ended:
            self._client_ended = True
            self._stays_open = bool(self._protocol.eof_received())
            if not self._stays_open:
                self.close()
        return self._stays_open

    def connection_lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    # to the client

    def write(self, data: bytes) -> None:
        """Encrypt and send. Drops data before the handshake and after this side's end."""
        if self._silent or not self._handshake_done:
            return
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]
        self._flush()

    def _flush(self) -> None:
        encrypted = self._outgoing.read()
        if encrypted and not self._eof_sent:  # otherwise a late handshake
            self._certificate_sent = self._certificate_sent or time.perf_counter()
            self._transport.write(encrypted)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """End this side alone, by close_notify and FIN; the client's data is still read."""
        self._send_close_notify()
        self._eof_sent = True
        self._transport.write_eof()

    def close(self) -> None:
        """Close gracefully: close_notify, then FIN."""
        self._send_close_notify()
        self._transport.close()

    def break_off(self) -> None:
        """Send no close_notify from now on, so that the client detects the cut."""
        self._silent = True

    def _send_close_notify(self) -> None:
        if self._handshake_done and not self._silent:
            self._silent = True
            with suppress(ssl.SSLError):  # the client's close_notify has not arrived yet
                self._tls.unwrap()
            self._flush()
