"""One proxy: a listener, its open connections and its toxics."""

from __future__ import annotations

import asyncio
from typing import Any

from wirefault.toxiproxy.embedded.connection import ConnectionEnd, ProxyConnection
from wirefault.toxiproxy.embedded.errors import ApiError
from wirefault.toxiproxy.embedded.listening import join_host_port, open_listener, resolve_address
from wirefault.toxiproxy.embedded.metrics import Metrics
from wirefault.toxiproxy.embedded.toxic_collection import ToxicCollection


class Proxy:
    """A proxy as the API sees it; ``listen`` has the real port once it has listened. Raises ``ApiError``."""

    def __init__(self, name: str, listen: str, upstream: str, metrics: Metrics) -> None:
        self.name = name
        self.listen = listen
        self.upstream = upstream
        self.enabled = False
        self.toxics = ToxicCollection()
        self._metrics = metrics
        self._server: asyncio.Server | None = None
        self._connections: set[ProxyConnection] = set()

    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "listen": self.listen,
            "upstream": self.upstream,
            "enabled": self.enabled,
            "Logger": {},  # the real server shows its logger here
            "toxics": [toxic.json() for toxic in self.toxics],
        }

    async def start(self) -> None:
        """Listens, unless the proxy does already."""
        if self.enabled:
            return
        listening = await open_listener(self.listen)
        self._server = await asyncio.get_running_loop().create_server(self._accept, sock=listening)
        host, port = listening.getsockname()[:2]
        self.listen = join_host_port(host, port)
        self.enabled = True

    def stop(self) -> None:
        """Stops listening and closes all connections."""
        self.enabled = False
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self._connections):
            connection.abort()

    async def differs(self, listen: str, upstream: str) -> bool:
        """Whether a proxy with these addresses would be another than this one."""
        try:
            address = join_host_port(*await resolve_address(listen))
        except ValueError as error:
            raise ApiError(str(error), 500) from error
        return self.listen != address or self.upstream != upstream

    async def update(self, listen: str, upstream: str, enabled: bool) -> None:
        """Moves, enables or disables the proxy; a move closes its connections."""
        if await self.differs(listen, upstream):
            self.stop()
            self.listen, self.upstream = listen, upstream
        if enabled:
            await self.start()
        else:
            self.stop()

    def _accept(self) -> ConnectionEnd:
        count = self._metrics.counter(self.name, self.listen, self.upstream)
        connection = ProxyConnection(self.upstream, self.toxics, count, self._connections.discard)
        self._connections.add(connection)
        return connection.client
