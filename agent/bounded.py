"""One HTTP exchange on a connection of its own that ends at a deadline, however slowly the bytes come.

A timeout of ``requests`` bounds each wait for bytes, so a reply that comes byte by byte would never end.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection


class _Socket(socket.socket):
    """Raises ``TimeoutError`` once the deadline (of ``time.perf_counter``) has passed."""

    deadline: float

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        self._shorten_timeout()
        return super().recv_into(*arguments, **options)

    def sendall(self, *arguments: Any, **options: Any) -> None:
        self._shorten_timeout()
        super().sendall(*arguments, **options)

    def _shorten_timeout(self) -> None:
        left = self.deadline - time.perf_counter()
        if left <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left)


class _Connection(HTTPConnection):
    def __init__(self, *arguments: Any, deadline: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline = deadline

    def _new_conn(self) -> socket.socket:
        plain = super()._new_conn()
        bounded = _Socket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        bounded.deadline = self._deadline
        return bounded


class _Adapter(HTTPAdapter):
    def __init__(self, deadline: float) -> None:
        super().__init__()
        self.poolmanager.pool_classes_by_scheme = {"http": partial(_pool, deadline)}


def _pool(deadline: float, *arguments: Any, **options: Any) -> HTTPConnectionPool:
    pool = HTTPConnectionPool(*arguments, **options)
    pool.ConnectionCls = partial(_Connection, deadline=deadline)  # type: ignore[assignment]
    return pool


@contextmanager
def exchange(prepared: requests.PreparedRequest, timeout: float) -> Iterator[requests.Response]:
    """The reply, its body not yet read. ``timeout``: seconds from now until the last byte of the body.

    It uses no session, which would obey HTTP_PROXY and .netrc and follow redirects. Raises what ``requests``
    raises.
    """
    adapter = _Adapter(time.perf_counter() + timeout)
    # closing an adapter does not close its pool, whose connection would stay open until garbage collection
    pool = adapter.get_connection_with_tls_context(prepared, verify=True)
    with closing(adapter), closing(pool), adapter.send(prepared, stream=True, timeout=timeout) as reply:
        yield reply
