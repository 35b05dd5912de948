"""All proxies of the server, by name. Raises ``ApiError``."""

from __future__ import annotations

from typing import Any

from proxy_manager.embedded import errors
from proxy_manager.embedded.decode import BOOL, STRING, first_value, read_fields
from proxy_manager.embedded.proxy import Proxy

_FIELDS = {"name": STRING, "listen": STRING, "upstream": STRING, "enabled": BOOL}


class ProxyCollection:
    """Creates, changes and deletes proxies from request bodies."""

    def __init__(self) -> None:
        self._proxies: dict[str, Proxy] = {}

    def json(self) -> dict[str, Any]:
        return {name: proxy.json() for name, proxy in sorted(self._proxies.items())}

    def get(self, name: str) -> Proxy:
        try:
            return self._proxies[name]
        except KeyError:
            raise errors.proxy_not_found() from None

    async def create(self, body: bytes) -> Proxy:
        fields = read_fields(first_value(body), "Proxy", _FIELDS)
        _require(fields)
        if fields["name"] in self._proxies:
            raise errors.proxy_already_exists()
        return await self._add(fields)

    async def update(self, name: str, body: bytes) -> Proxy:
        proxy = self.get(name)
        fields = read_fields(first_value(body), "Proxy", _FIELDS)
        await proxy.update(
            fields.get("listen", proxy.listen),
            fields.get("upstream", proxy.upstream),
            fields.get("enabled", proxy.enabled),
        )
        return proxy

    async def populate(self, body: bytes, done: list[Proxy]) -> None:
        """Creates the proxies that are absent or differ; ``done`` has those finished, even if it raises."""
        value = first_value(body)
        if value is not None and not isinstance(value, list):
            raise errors.bad_request_body("json: cannot unmarshal the body, an array of proxies is needed")
        rows = [read_fields(row, "Proxy", _FIELDS) for row in value or ()]
        for number, fields in enumerate(rows, start=1):
            _require(fields, f" at proxy {number}")
        for fields in rows:
            existing = self._proxies.get(fields["name"])
            if existing is not None:
                if not await existing.differs(fields.get("listen", ""), fields["upstream"]):
                    done.append(existing)
                    continue
                existing.stop()
            done.append(await self._add(fields))

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
        proxy = Proxy(fields["name"], fields.get("listen", ""), fields["upstream"])
        if fields.get("enabled", True):
            await proxy.start()
        self._proxies[proxy.name] = proxy
        return proxy


def _require(fields: dict[str, Any], where: str = "") -> None:
    for name in ("name", "upstream"):
        if not fields.get(name):
            raise errors.missing_field(name + where)
