"""Proxies: a listener with its connections and toxics, the collection by name, and the byte counters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from wirefault.toxiproxy.embedded.connection import (
    ConnectionEnd,
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
from wirefault.toxiproxy.embedded.toxic_chain import ToxicCollection

_LABELS = ("direction", "listener", "proxy", "upstream")
_COUNTED = ("received", "sent")
_HANDLER = "promhttp_metric_handler_errors_total"
_HANDLER_HELP = "Total number of internal errors encountered by the promhttp metric handler."
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


class Metrics:
    """Byte counters for Prometheus, if ``enabled``. Connections are counted when they end."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._bytes: dict[str, Counter[tuple[str, ...]]] = {counted: Counter() for counted in _COUNTED}

    def counter(self, proxy: str, listener: str, upstream: str) -> Callable[[str, str, int], None]:
        """A function that adds bytes ``received`` or ``sent`` in a direction."""

        def count(direction: str, counted: str, size: int) -> None:
            if self.enabled:
                self._bytes[counted][direction, listener, proxy, upstream] += size

        return count

    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head(_HANDLER, _HANDLER_HELP)
        yield from (f'{_HANDLER}{{cause="{cause}"}} 0' for cause in ("encoding", "gathering"))
        for counted in _COUNTED:
            name = f"toxiproxy_proxy_{counted}_bytes_total"
            if self._bytes[counted]:
                yield from _head(name, "")
            for values, size in sorted(self._bytes[counted].items()):
                labels = ",".join(map('{}="{}"'.format, _LABELS, map(_escaped, values)))
                yield f"{name}{{{labels}}} {_number(size)}"


def _head(name: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} counter"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(size: int) -> str:
    """The number as Prometheus writes it: with an exponent from a million on."""
    if size < 10**6:
        return str(size)
    mantissa, _, exponent = f"{Decimal(size).normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent):+03}"


class Proxy:
    """One proxy; ``listen`` has the real port after the first start. Methods raise ``ApiError``."""

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
        """Start listening, unless it already does."""
        if self.enabled:
            return
        listening = await open_listener(self.listen)
        self._server = await asyncio.get_running_loop().create_server(self._accept, sock=listening)
        host, port = listening.getsockname()[:2]
        self.listen = join_host_port(host, port)
        self.enabled = True

    def stop(self) -> None:
        """Stop listening and close all connections."""
        self.enabled = False
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self._connections):
            connection.abort()

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
