"""The HTTP API of Toxiproxy 2.12: routes over a collection of proxies."""

from __future__ import annotations

import asyncio
import posixpath
import secrets
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wirefault.toxiproxy.embedded.go_json import ApiError, go_json_text
from wirefault.toxiproxy.embedded.metrics import CONTENT_TYPE, Metrics
from wirefault.toxiproxy.embedded.proxies import Proxy, ProxyCollection

VERSION = "2.12.0"
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
_REQUEST_ID = "X-Toxiproxy-Request-Id"

Handler = Callable[[Request], Awaitable[Response]]


def create_api(proxies: ProxyCollection, metrics: Metrics) -> ASGIApp:
    """Create the ASGI application. Changes are made one at a time, in order of arrival."""
    api = _Api(proxies, metrics)
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
    }
    if metrics.enabled:
        table["/metrics"] = dict.fromkeys(_METHODS, api.metrics)
    routes = [Route(path, api.entry(methods), methods=_METHODS) for path, methods in table.items()]
    app = Starlette(routes=routes, exception_handlers={404: _not_found})
    app.router.redirect_slashes = False
    return _CleanPaths(app)


class _CleanPaths:
    """Redirects a request for ``//proxies`` or ``/proxies/../version`` to the clean path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (path := _clean(scope["path"])) != scope["path"]:
            query = scope["query_string"].decode("latin-1")
            location = quote(path, safe="/$&+,:;=@~") + (f"?{query}" if query else "")
            answer = _empty(301, scope["method"])
            answer.headers["Location"] = location
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class _Api:
    def __init__(self, proxies: ProxyCollection, metrics: Metrics) -> None:
        self._proxies = proxies
        self._metrics = metrics
        self._changing = asyncio.Lock()

    def entry(self, methods: dict[str, Handler]) -> Handler:
        """The handler of one path: dispatches by method, refuses browsers, formats errors."""

        async def handle(request: Request) -> Response:
            handler = methods.get(request.method)
            if handler is None:
                return _empty(405, request.method)
            answer = await self._reply_or_error(handler, request)
            answer.headers[_REQUEST_ID] = secrets.token_hex(10)
            return answer

        return handle

    async def _reply_or_error(self, handler: Handler, request: Request) -> Response:
        if request.headers.get("user-agent", "").startswith("Mozilla/"):
            # A web page must not be able to change the server.
            return PlainTextResponse("User agent not allowed\n", 403, _NO_SNIFF)
        try:
            await request.body()  # before taking the lock: a slow sender must not block others
            async with self._changing:
                return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except ApiError as error:
            text = go_json_text({"error": error.message, "status": error.status}) + "\n"
            return PlainTextResponse(text, error.status, _NO_SNIFF)

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
        created: list[Proxy] = []
        problem: dict[str, Any] = {}
        try:
            await self._proxies.populate(await request.body(), created)
        except ApiError as error:
            problem = {"error": error.message, "status": error.status}
        listed = [proxy.json() for proxy in created] or None
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
        proxy = self._proxy(request)
        toxic = proxy.toxics.create(await request.body())
        await proxy.follow_toxics()
        return _answer(toxic.json())

    async def toxic_show(self, request: Request) -> Response:
        return _answer(self._proxy(request).toxics.get(request.path_params["toxic"]).json())

    async def toxic_update(self, request: Request) -> Response:
        toxics = self._proxy(request).toxics
        return _answer(toxics.update(request.path_params["toxic"], await request.body()).json())

    async def toxic_delete(self, request: Request) -> Response:
        proxy = self._proxy(request)
        proxy.toxics.remove(request.path_params["toxic"])
        await proxy.follow_toxics()
        return Response(status_code=204)

    async def version(self, request: Request) -> Response:
        text = f'{{"version": "{VERSION}"}}\n'
        return Response(text, media_type="application/json;charset=utf-8")

    async def metrics(self, request: Request) -> Response:
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})


def _answer(value: Any, status: int = 200) -> Response:
    return Response(go_json_text(value), status, media_type="application/json")


def _empty(status: int, method: str) -> Response:
    answer = Response(status_code=status)
    if method == "HEAD":
        del answer.headers["content-length"]  # the real server omits it on a reply without body
    return answer


def _clean(path: str) -> str:
    clean = posixpath.normpath("/" + path.lstrip("/"))
    return clean + "/" if path.endswith("/") and clean != "/" else clean


async def _not_found(request: Request, error: Exception) -> Response:
    return PlainTextResponse("404 page not found\n", 404, _NO_SNIFF)
