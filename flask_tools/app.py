"""Build the Flask app of one link's service, and serve several of them in one process with waitress."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from flask import Blueprint, Flask, Response, jsonify, request
from flask.json.provider import DefaultJSONProvider
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask

from flask_tools.inputs import (
    MAX_WORLD_LENGTH,
    check_deadline,
    error_body,
    query,
    register_error_handlers,
    request_world,
    required_text,
)
from flask_tools.store import Service, Store
from wirefault.state.effects import read_effects
from wirefault.wiring.links import lab_links

_MAX_BODY_BYTES = 64 * 1024
# Flask refuses a body over its own limit only after reading all of it: a client that is refused while it is
# still sending may see a reset instead of the reply. At this limit waitress stops reading.
_MAX_READ_BYTES = 16 * 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024
_SEND_BYTES = 1024 * 1024  # larger than any reply, so that headers and body leave in one write
_THREADS = 8
_MAX_CONNECTIONS = 1000
_SHUTDOWN_S = 1.0


class _Json(DefaultJSONProvider):
    ensure_ascii = False
    sort_keys = False
    mimetype = "application/json"


def create_service(
    link_name: str,
    effects_path: Path,
    environ: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
) -> Flask:
    """Build a link's service from this package's module with the link's name.

    All state is in ``effects_path``; ``clock`` returns epoch seconds. Raises ``KeyError`` for a link
    without a service, ``ValueError`` for an invalid setting.
    """
    if link_name not in lab_links().tool_names:
        raise KeyError(link_name)
    module = import_module(f"flask_tools.{link_name}")
    store = Store(effects_path, clock, getattr(module, "TABLES", ""))
    service = Service(lab_links()[link_name], store, environ or {})
    app = Flask(service.name, static_folder=None, root_path=str(Path(__file__).parent))
    app.config["MAX_CONTENT_LENGTH"] = _MAX_BODY_BYTES
    app.json = _Json(app)
    app.url_map.merge_slashes = False  # otherwise `/backends//probe` gets an HTML redirect
    register_error_handlers(app)
    app.register_blueprint(_effects_blueprint(service))
    app.register_blueprint(module.blueprint(service))

    @app.before_request
    def refuse_late() -> None:
        """Refuse a request whose caller has given up and would not see its effect."""
        check_deadline(request, clock())

    @app.get("/")
    def health() -> Response:
        return jsonify({"status": "OK"})

    return app


def _effects_blueprint(service: Service) -> Blueprint:
    """Return the route ``GET /effects``: side effects in a world, of all services, which share one file."""
    routes = Blueprint("effects", __name__)

    @routes.get("/effects")
    def world_effects() -> Response:
        parameters = query(request, "world")
        world = required_text(parameters, "world", MAX_WORLD_LENGTH) if parameters else request_world(request)
        effects = [asdict(effect) for effect in read_effects(service.store.path, world)]
        return jsonify({"world": world, "effects": effects})

    return routes


class Servers:
    """Serve each app on its listening socket until ``stop``.

    A context manager that closes all servers. Each server has its threads; all share one loop.
    """

    def __init__(self, apps: Mapping[socket.socket, Flask]) -> None:
        self._sockets: dict[int, Any] = {}
        self._stopping = False
        self._servers = [self._server(app, listener) for listener, app in apps.items()]

    def _server(self, app: Flask, listener: socket.socket) -> Any:
        server = create_server(
            app,
            map=self._sockets,
            sockets=[listener],
            threads=_THREADS,
            connection_limit=_MAX_CONNECTIONS,
            max_request_body_size=_MAX_READ_BYTES,
            max_request_header_size=MAX_HEADER_BYTES,
            asyncore_use_poll=True,
            ident=None,
        )
        server.adj.send_bytes = _SEND_BYTES  # the option is deprecated, without a replacement
        server.channel_class = _Channel
        return server

    def run(self) -> None:
        """Serve until ``stop``."""
        while not self._stopping:
            wasyncore.loop(timeout=1, map=self._sockets, use_poll=True, count=1)

    def stop(self) -> None:
        """End ``run``; safe in a signal handler and in any thread."""
        self._stopping = True
        for server in self._servers:
            server.pull_trigger()

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.task_dispatcher.shutdown(timeout=_SHUTDOWN_S)
        wasyncore.close_all(self._sockets)


class _JsonErrorTask(ErrorTask):  # type: ignore[misc]  # waitress has no types
    """Render waitress's errors (malformed request, header or body too large) as JSON."""

    def execute(self) -> None:
        error = self.request.error
        self.status = f"{error.code} {error.reason}"
        code = error.reason.lower().replace(" ", "_")
        body = json.dumps(error_body(code, f"{error.reason}: {error.body}.")).encode()
        self.response_headers.append(("Content-Type", "application/json"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _Channel(HTTPChannel):  # type: ignore[misc]
    error_task_class: Callable[..., Any] = _JsonErrorTask
