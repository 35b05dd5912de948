"""The one factory of the seven services."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from flask import Blueprint, Flask, Response, jsonify
from flask.json.provider import DefaultJSONProvider

from flask_tools import (
    calculator,
    calendar_events,
    effects,
    errors,
    messages,
    movies,
    search,
    translator,
    weather,
)
from flask_tools.service import Service
from flask_tools.store import Store
from windtunnel.links.catalog import link

MAX_BODY_BYTES = 64 * 1024

# each service by the name of its link: adding one is one row here and one module
SERVICES: dict[str, Callable[[Service], Blueprint]] = {
    "search": search.blueprint,
    "weather": weather.blueprint,
    "movie": movies.blueprint,
    "calendar": calendar_events.blueprint,
    "calculator": calculator.blueprint,
    "message": messages.blueprint,
    "translator": translator.blueprint,
}


class _Json(DefaultJSONProvider):
    ensure_ascii = False
    sort_keys = False
    mimetype = "application/json"


def create_app(
    link_name: str,
    effects_path: Path,
    environ: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
) -> Flask:
    """The service of that link. All state is in ``effects_path``; ``clock`` gives epoch seconds.

    Raises ``KeyError`` for a link without a service, ``ValueError`` for a setting that cannot be used.
    """
    build = SERVICES[link_name]
    service = Service(link(link_name), Store(effects_path, clock), environ or {})
    app = Flask(service.name, static_folder=None, root_path=str(Path(__file__).parent))
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.json = _Json(app)
    app.url_map.merge_slashes = False  # else `/backends//probe` is answered by an HTML redirect
    errors.register(app)
    app.register_blueprint(effects.blueprint(service))
    app.register_blueprint(build(service))

    @app.get("/")
    def health() -> Response:
        return jsonify({"status": "OK"})

    return app
