"""HTTP exchanges that end at a deadline, however slowly the bytes come.

A timeout of ``requests`` bounds each wait for bytes, so a reply that comes byte by byte would never end.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

# Of the exchange that this thread is in, by time.perf_counter: a connection that is kept open serves several.
_DEADLINE: ContextVar[float] = ContextVar("wirefault_deadline")


class _Socket(socket.socket):
    """Raises ``TimeoutError`` once the exchange's deadline has passed."""

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        self._shorten_timeout()
        return super().recv_into(*arguments, **options)

    def sendall(self, *arguments: Any, **options: Any) -> None:
        self._shorten_timeout()
        super().sendall(*arguments, **options)

    def _shorten_timeout(self) -> None:
        left = _DEADLINE.get() - time.perf_counter()
        if left <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left)


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        plain = super()._new_conn()
        return _Socket(plain.family, plain.type, plain.proto, fileno=plain.detach())


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class Connections(HTTPAdapter):
    """Connections of one client; no session, which would obey HTTP_PROXY and .netrc and follow redirects.

    One that an exchange has left whole is kept open for the next to that server. ``close`` closes those.
    """

    def __init__(self) -> None:
        super().__init__()
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool}

    def close(self) -> None:
        # the pools that a manager drops close their connections only when they are collected as garbage
        pools = self.poolmanager.pools
        for key in list(pools.keys()):
            pools[key].close()
        super().close()


@contextmanager
def exchange(
    prepared: requests.PreparedRequest, timeout: float, connections: Connections | None = None
) -> Iterator[requests.Response]:
    """The reply, its body not yet read. ``timeout``: seconds from now until the last byte of the body.

    Without ``connections`` it has one of its own, closed afterwards. Raises what ``requests`` raises.
    """
    opened: AbstractContextManager[Connections] = (
        closing(Connections()) if connections is None else nullcontext(connections)
    )
    token = _DEADLINE.set(time.perf_counter() + timeout)
    try:
        with opened as adapter, adapter.send(prepared, stream=True, timeout=timeout) as reply:
            yield reply
    finally:
        _DEADLINE.reset(token)
