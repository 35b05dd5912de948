"""The one factory of the services: each is the module of this package that is named as its link."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from flask import Flask, Response, jsonify
from flask.json.provider import DefaultJSONProvider

from flask_tools import effects, errors
from flask_tools.store import Service, Store
from wirefault.wiring.lab import lab_links

_MAX_BODY_BYTES = 64 * 1024


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
    """The service of that link. All state is in ``effects_path``; ``clock`` gives epoch seconds.

    Raises ``KeyError`` for a link without a service, ``ValueError`` for a setting that cannot be used.
    """
    if link_name not in lab_links().tool_names:
        raise KeyError(link_name)
    module = import_module(f"flask_tools.{link_name}")
    store = Store(effects_path, clock, getattr(module, "TABLES", ""))
    service = Service(lab_links()[link_name], store, environ or {})
    app = Flask(service.name, static_folder=None, root_path=str(Path(__file__).parent))
    app.config["MAX_CONTENT_LENGTH"] = _MAX_BODY_BYTES
    app.json = _Json(app)
    app.url_map.merge_slashes = False  # else `/backends//probe` is answered by an HTML redirect
    errors.register(app)
    app.register_blueprint(effects.blueprint(service))
    app.register_blueprint(module.blueprint(service))

    @app.get("/")
    def health() -> Response:
        return jsonify({"status": "OK"})

    return app
