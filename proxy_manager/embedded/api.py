"""The HTTP API of Toxiproxy 2.12, as routes over a collection of proxies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from proxy_manager.embedded.errors import ApiError
from proxy_manager.embedded.proxies import ProxyCollection
from proxy_manager.embedded.proxy import Proxy

VERSION = "2.12.0"
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
NO_SNIFF = {"X-Content-Type-Options": "nosniff"}

Handler = Callable[[Request], Awaitable[Response]]


def create_api(proxies: ProxyCollection) -> Starlette:
    """The ASGI application. Changes are made one at a time, in the order in which they came."""
    api = _Api(proxies)
    proxy, toxics, toxic = "/proxies/{proxy}", "/proxies/{proxy}/toxics", "/proxies/{proxy}/toxics/{toxic}"
    table: dict[str, dict[str, Handler]] = {
        "/reset": {"POST": api.reset},
        "/proxies": {"GET": api.proxy_index, "POST": api.proxy_create},
        "/populate": {"POST": api.populate},
        proxy: {
            "GET": api.proxy_show,
            "POST": api.proxy_update,
            "PATCH": api.proxy_update,
            "DELETE": api.proxy_delete,
        },
        toxics: {"GET": api.toxic_index, "POST": api.toxic_create},
        toxic: {
            "GET": api.toxic_show,
            "POST": api.toxic_update,
            "PATCH": api.toxic_update,
            "DELETE": api.toxic_delete,
        },
        "/version": {"GET": api.version},
        "/metrics": {"GET": api.metrics},
    }
    routes = [Route(path, api.entry(methods), methods=METHODS) for path, methods in table.items()]
    app = Starlette(routes=routes, exception_handlers={404: _not_found})
    app.router.redirect_slashes = False
    return app


class _Api:
    def __init__(self, proxies: ProxyCollection) -> None:
        self._proxies = proxies
        self._changing = asyncio.Lock()

    def entry(self, methods: dict[str, Handler]) -> Handler:
        """One path: its handlers by method, no browsers, errors in the API's form."""

        async def handle(request: Request) -> Response:
            handler = methods.get(request.method)
            if handler is None:
                return Response(status_code=405)
            if request.headers.get("user-agent", "").startswith("Mozilla/"):
                # a page that a browser shows must not be able to steer the server
                return PlainTextResponse("User agent not allowed\n", 403, NO_SNIFF)
            try:
                async with self._changing:
                    return await handler(request)
            except ApiError as error:
                text = _dump({"error": error.message, "status": error.status}) + "\n"
                return PlainTextResponse(text, error.status, NO_SNIFF)

        return handle

    def _proxy(self, request: Request) -> Proxy:
        return self._proxies.get(request.path_params["proxy"])

    async def reset(self, request: Request) -> Response:
        await self._proxies.reset()
        return Response(status_code=204)

    async def proxy_index(self, request: Request) -> Response:
        return _answer(self._proxies.json())

    async def proxy_create(self, request: Request) -> Response:
        return _answer((await self._proxies.create(await request.body())).json(), 201)

    async def populate(self, request: Request) -> Response:
        done: list[Proxy] = []
        problem: dict[str, Any] = {}
        try:
            await self._proxies.populate(await request.body(), done)
        except ApiError as error:
            problem = {"error": error.message, "status": error.status}
        listed = [proxy.json() for proxy in done] or None
        return _answer(problem | {"proxies": listed}, problem.get("status", 201))

    async def proxy_show(self, request: Request) -> Response:
        return _answer(self._proxy(request).json())

    async def proxy_update(self, request: Request) -> Response:
        proxy = await self._proxies.update(request.path_params["proxy"], await request.body())
        return _answer(proxy.json())

    async def proxy_delete(self, request: Request) -> Response:
        self._proxies.delete(request.path_params["proxy"])
        return Response(status_code=204)

    async def toxic_index(self, request: Request) -> Response:
        return _answer([toxic.json() for toxic in self._proxy(request).toxics])

    async def toxic_create(self, request: Request) -> Response:
        return _answer(self._proxy(request).toxics.create(await request.body()).json())

    async def toxic_show(self, request: Request) -> Response:
        return _answer(self._proxy(request).toxics.get(request.path_params["toxic"]).json())

    async def toxic_update(self, request: Request) -> Response:
        toxics = self._proxy(request).toxics
        return _answer(toxics.update(request.path_params["toxic"], await request.body()).json())

    async def toxic_delete(self, request: Request) -> Response:
        self._proxy(request).toxics.remove(request.path_params["toxic"])
        return Response(status_code=204)

    async def version(self, request: Request) -> Response:
        return _answer({"version": VERSION}, media_type="application/json;charset=utf-8")

    async def metrics(self, request: Request) -> Response:
        """How many proxies and toxics there are (the real server counts bytes, where it is asked to)."""
        described = self._proxies.json().values()
        toxics = sum(len(proxy["toxics"]) for proxy in described)
        return PlainTextResponse(f"toxiproxy_proxies {len(described)}\ntoxiproxy_toxics {toxics}\n")


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _answer(value: Any, status: int = 200, media_type: str = "application/json") -> Response:
    return Response(_dump(value), status, media_type=media_type)


async def _not_found(request: Request, error: Exception) -> Response:
    return PlainTextResponse("404 page not found\n", 404, NO_SNIFF)
