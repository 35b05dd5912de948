"""All proxies of the server, by name. Raises ``ApiError``."""

from __future__ import annotations

from typing import Any

from wirefault.toxiproxy.embedded.errors import ApiError, bad_request_body
from wirefault.toxiproxy.embedded.go_decode import (
    BOOL,
    STRING,
    kind_of,
    opaque,
    read_fields,
    scalar_field,
    scalar_fields,
)
from wirefault.toxiproxy.embedded.go_json import first_value
from wirefault.toxiproxy.embedded.metrics import Metrics
from wirefault.toxiproxy.embedded.proxy import Proxy

_TEXTS = {"name": STRING, "listen": STRING, "upstream": STRING}
_PROXY = "toxiproxy.Proxy"
_FIELDS = scalar_fields("Proxy", _TEXTS | {"enabled": BOOL}) | {
    "Logger": opaque("Proxy.Logger", "zerolog.Logger")
}
_ROW = f'struct {{ {_PROXY}; Enabled *bool "json:\\"enabled\\"" }}'
_ROW_FIELDS = scalar_fields(".Proxy", _TEXTS) | {
    "enabled": scalar_field(".enabled", BOOL),
    "Logger": opaque(".Proxy.Logger", "zerolog.Logger"),
}


class ProxyCollection:
    """Creates, changes and deletes proxies from request bodies."""

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
        fields = read_fields(first_value(body), _PROXY, _FIELDS)
        _require(fields)
        if fields["name"] in self._proxies:
            raise ApiError("proxy already exists", 409)
        return await self._add(fields)

    async def update(self, name: str, body: bytes) -> Proxy:
        proxy = self.get(name)
        fields = read_fields(first_value(body), _PROXY, _FIELDS)
        await proxy.update(
            fields.get("listen", proxy.listen),
            fields.get("upstream", proxy.upstream),
            fields.get("enabled", proxy.enabled),
        )
        return proxy

    async def populate(self, body: bytes, done: list[Proxy]) -> None:
        """Creates the proxies that are absent or differ; ``done`` gets each one that is there then."""
        value = first_value(body)
        if value is not None and not isinstance(value, list):
            kind = kind_of(value)
            raise bad_request_body(f"json: cannot unmarshal {kind} into Go value of type []{_ROW}")
        rows = [read_fields(row, _ROW, _ROW_FIELDS) for row in value or ()]
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
        """Enables all proxies and removes all toxics."""
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
