"""A client's TLS socket that can half-close like a plain one and reports how the peer closed."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

HOST = "intercepted.example"


def trusting(pem: str) -> ssl.SSLContext:
    """A client context that trusts that authority only."""
    context = ssl.create_default_context(cadata=pem)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


class SecureSocket:
    """The part of a socket's methods that the tests use. ``has_close_notify``: the server sent close_notify.

    One thread may send while another reads.
    """

    def __init__(self, plain: socket.socket, pem: str, host: str = HOST) -> None:
        self.plain = plain
        self.has_close_notify = False
        self._lock = threading.Lock()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = trusting(pem).wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.settimeout, self.setsockopt = plain.settimeout, plain.setsockopt
        self._unsent = b""
        self.getsockname, self.getpeername = plain.getsockname, plain.getpeername
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._shake_hands()
        except BaseException:
            plain.close()
            raise

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                if not self._take_in():
                    self._incoming.write_eof()
        self._flush()

    def _take_in(self) -> bool:
        data = self.plain.recv(1 << 16)
        self._incoming.write(data)
        return bool(data)

    def _flush(self) -> None:
        self.plain.sendall(self._outgoing.read())

    def sendall(self, data: bytes) -> None:
        for start in range(0, len(data), 1 << 14):
            with self._lock:
                self._tls.write(data[start : start + (1 << 14)])
                encrypted = self._outgoing.read()
            self.plain.sendall(encrypted)

    def send(self, data: bytes) -> int:
        """Send at most a record. Raises ``TimeoutError`` if the one before is stuck."""
        self._send_rest()
        record = data[: 1 << 14]
        with self._lock:
            self._tls.write(record)
            self._unsent = self._outgoing.read()
        return len(record)

    def _send_rest(self) -> None:
        while self._unsent:
            self._unsent = self._unsent[self.plain.send(self._unsent) :]

    def recv(self, size: int) -> bytes:
        """Empty at the end of the connection, with or without close_notify."""
        while True:
            try:
                with self._lock:
                    data = self._tls.read(size)
                self.has_close_notify = self.has_close_notify or not data
                return data
            except ssl.SSLWantReadError:
                self._send_rest()
                if not self._take_in():
                    return b""  # not written as EOF: Python before 3.11.4 reads it like close_notify
            except ssl.SSLZeroReturnError:
                self.has_close_notify = True
                return b""

    def end_by_tls(self) -> None:
        """Half-close by TLS alone."""
        with self._lock:
            with suppress(ssl.SSLWantReadError):  # the other side may still be open
                self._tls.unwrap()
                self.has_close_notify = True
            encrypted = self._outgoing.read()
        self.plain.sendall(encrypted)

    def shutdown(self, how: int) -> None:
        """Half-close, by TLS and by TCP."""
        self.end_by_tls()
        with suppress(OSError):  # the other side may have closed already, on the end by TLS
            self.plain.shutdown(how)

    def __enter__(self) -> SecureSocket:
        return self

    def close(self) -> None:
        """Close in order for TCP: with an unread session ticket it would be a reset."""
        with suppress(OSError):
            self.plain.setblocking(False)
            while self.plain.recv(1 << 16):
                pass
        self.plain.close()

    def __exit__(self, *_: Any) -> None:
        self.close()
