"""Proxies: a listener with its connections and toxics, and the collection by name."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from wirefault.toxiproxy.embedded.connection import (
    ConnectionEnd,
    FullQueue,
    ProxyConnection,
    join_host_port,
    open_listener,
    resolve_address,
)
from wirefault.toxiproxy.embedded.go_json import (
    ApiError,
    FieldReader,
    bad_request_body,
    first_value,
    read_bool,
    read_fields,
    read_object,
    read_string,
)
from wirefault.toxiproxy.embedded.metrics import Metrics
from wirefault.toxiproxy.embedded.toxic_chain import ToxicCollection


class Proxy:
    """One proxy; ``listen`` has the real port after the first start. Methods raise ``ApiError``."""

    def __init__(self, name: str, listen: str, upstream: str, metrics: Metrics) -> None:
        self.name = name
        self.listen = listen
        self.upstream = upstream
        self.enabled = False
        self.toxics = ToxicCollection()
        self._metrics = metrics
        self._listener: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._full: FullQueue | None = None
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
        """Start listening, unless it already does."""
        if self.enabled:
            return
        self._listener = await open_listener(self.listen)
        host, port = self._listener.getsockname()[:2]
        self.listen = join_host_port(host, port)
        self.enabled = True
        await self.follow_toxics()

    def stop(self) -> None:
        """Stop listening and close all connections."""
        self.enabled = False
        if self._full is not None:
            self._full.close()
            self._full = None
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in tuple(self._connections):
            connection.abort()

    async def follow_toxics(self) -> None:
        """Accept connections, or let them wait in a full queue while a toxic asks for that."""
        if self._listener is None:
            return
        holds = any(toxic.definition.holds_connections for toxic in self.toxics)
        if holds and self._full is None:
            if self._server is not None:
                self._server.close()
                self._server = None
                await asyncio.sleep(0)  # the loop closes its socket in its next step
            self._full = FullQueue(self._listener)
        elif not holds and self._server is None:
            loop = asyncio.get_running_loop()
            waiting = self._full.release() if self._full is not None else []
            self._full = None
            # a duplicate, since the queue outlives the server that accepts from it
            self._server = await loop.create_server(self._accept, sock=self._listener.dup())
            for client in waiting:
                await loop.connect_accepted_socket(self._accept, client)

    async def differs(self, listen: str, upstream: str) -> bool:
        """Whether these addresses differ from this proxy's."""
        try:
            address = join_host_port(*await resolve_address(listen))
        except ValueError as error:
            raise ApiError(str(error), 500) from error
        return self.listen != address or self.upstream != upstream

    async def update(self, listen: str, upstream: str, enabled: bool) -> None:
        """Move, enable or disable the proxy; a move closes its connections."""
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


_FIELDS: dict[str, FieldReader] = {
    "name": read_string,
    "listen": read_string,
    "upstream": read_string,
    "enabled": read_bool,
    "Logger": read_object,
}


class ProxyCollection:
    """All proxies by name; creates and changes them from request bodies. Raises ``ApiError``."""

    def __init__(self, metrics: Metrics) -> None:
        self._proxies: dict[str, Proxy] = {}
        self._metrics = metrics

    def json(self) -> dict[str, Any]:
        return {name: proxy.json() for name, proxy in sorted(self._proxies.items())}

    def get(self, name: str) -> Proxy:
        try:
            return self._proxies[name]
        except KeyError:
            raise ApiError("proxy not found", 404) from None

    async def create(self, body: bytes) -> Proxy:
        fields = read_fields(first_value(body), _FIELDS)
        _require(fields)
        if fields["name"] in self._proxies:
            raise ApiError("proxy already exists", 409)
        return await self._add(fields)

    async def update(self, name: str, body: bytes) -> Proxy:
        proxy = self.get(name)
        fields = read_fields(first_value(body), _FIELDS)
        await proxy.update(
            fields.get("listen", proxy.listen),
            fields.get("upstream", proxy.upstream),
            fields.get("enabled", proxy.enabled),
        )
        return proxy

    async def populate(self, body: bytes, done: list[Proxy]) -> None:
        """Create the proxies that are missing or differ; each proxy of the body is appended to ``done``."""
        value = first_value(body)
        if value is not None and not isinstance(value, list):
            raise bad_request_body("expected an array of proxies")
        rows = [read_fields(row, _FIELDS) for row in value or ()]
        for number, row in enumerate(rows, start=1):
            _require(row, f" at proxy {number}")
        for row in rows:
            existing = self._proxies.get(row["name"])
            if existing is not None:
                if not await existing.differs(row.get("listen", ""), row["upstream"]):
                    done.append(existing)
                    continue
                existing.stop()
            done.append(await self._add(row))

    def delete(self, name: str) -> None:
        self.get(name).stop()
        del self._proxies[name]

    async def reset(self) -> None:
        """Enable all proxies and remove all toxics."""
        for proxy in tuple(self._proxies.values()):
            await proxy.start()
            proxy.toxics.reset()
            await proxy.follow_toxics()

    def stop(self) -> None:
        for proxy in self._proxies.values():
            proxy.stop()

    async def _add(self, fields: dict[str, Any]) -> Proxy:
        proxy = Proxy(fields["name"], fields.get("listen", ""), fields["upstream"], self._metrics)
        if fields.get("enabled", True):
            await proxy.start()
        self._proxies[proxy.name] = proxy
        return proxy


def _require(fields: dict[str, Any], where: str = "") -> None:
    for name in ("name", "upstream"):
        if not fields.get(name):
            raise ApiError(f"missing required field: {name}{where}", 400)
