"""The two connections of a caller: one through the lab's proxy for its calls, one for their return."""

from __future__ import annotations

import os
import secrets
import select
import socket
import sys
import threading
from collections import deque
from typing import NamedTuple

VARIABLE = "WIREFAULT_FUNCTIONS"
"""``CALLS RETURNS [PROXY]``, each ``host:port``: where calls go, where they return, and a proxy to both."""
_BOUND_S = 20.0
_MAX_IDLE = 32
_Address = tuple[str, int]


class LabGone(OSError):
    """The lab does not take calls of functions."""


class CallRefused(OSError):
    """The link is down: its proxy accepts no connection."""


class Place(NamedTuple):
    """Where the lab takes calls."""

    calls: _Address
    returns: _Address
    proxy: _Address | None


class Caller:
    """An open pair of connections."""

    def __init__(self, token: str, calls: socket.socket, returns: socket.socket) -> None:
        self.token = token
        self.calls = calls
        self.returns = returns

    def set_blocking(self, blocking: bool) -> None:
        self.calls.setblocking(blocking)
        self.returns.setblocking(blocking)

    @property
    def is_fresh(self) -> bool:
        """Whether neither side has ended or says something unasked."""
        readable, _, _ = select.select([self.calls, self.returns], [], [], 0)
        return not readable

    def close(self) -> None:
        self.calls.close()
        self.returns.close()


_idle: dict[tuple[int, str], deque[Caller]] = {}
_lock = threading.Lock()
_warned = False


def place() -> Place | None:
    """Return where the lab takes calls of functions; None outside a lab."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    parts = [_address(each) for each in text.split()]
    return Place(parts[0], parts[1], parts[2] if len(parts) > 2 else None)


def _address(text: str) -> _Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def take(where: Place, *, fresh: bool = False) -> Caller:
    """Return an idle pair of this process, or a new one. Raises ``LabGone``, ``CallRefused``.

    ``fresh``: always a new one.
    """
    key = (os.getpid(), repr(where))
    while not fresh:
        with _lock:
            waiting = _idle.get(key)
            caller = waiting.pop() if waiting else None
        if caller is None:
            break
        if caller.is_fresh:
            return caller
        caller.close()
    return _open(where)


def give_back(where: Place, caller: Caller) -> None:
    """Keep the pair for the next call."""
    with _lock:
        waiting = _idle.setdefault((os.getpid(), repr(where)), deque())
        if len(waiting) < _MAX_IDLE:
            waiting.append(caller)
            return
    caller.close()


def close_idle() -> None:
    """Close this process's idle pairs, whose lab ends."""
    with _lock:
        here = [key for key in _idle if key[0] == os.getpid()]
        waiting = [caller for key in here for caller in _idle.pop(key)]
    for caller in waiting:
        caller.close()


def _open(where: Place) -> Caller:
    token = secrets.token_urlsafe(18)
    try:
        returns = _dial(where.returns, where.proxy)
        returns.sendall(f"SERVE {token}\n".encode())
        if returns.recv(3) != b"OK\n":
            returns.close()
            raise LabGone("it did not accept the connection")
    except LabGone:
        raise
    except OSError as error:
        raise LabGone(str(error)) from error
    try:
        calls = _dial(where.calls, where.proxy)
    except OSError as error:
        returns.close()
        raise CallRefused(str(error)) from error
    for side in (calls, returns):
        side.settimeout(None)
    return Caller(token, calls, returns)


def _dial(address: _Address, proxy: _Address | None) -> socket.socket:
    connection = socket.create_connection(proxy or address, timeout=_BOUND_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy is not None:
        target = f"{address[0]}:{address[1]}"
        connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(1)
            if not piece:
                break
            head += piece
        if b" 200 " not in head.partition(b"\r\n")[0]:
            connection.close()
            raise ConnectionRefusedError(head.partition(b"\r\n")[0].decode("latin-1") or "no answer")
    return connection


def warn_once(error: OSError) -> None:
    """Say on standard error, once, that functions run without the lab."""
    global _warned
    if not _warned:
        _warned = True
        sys.stderr.write(f"wirefault: tool functions run without faults, since the lab is gone: {error}\n")
