"""The translator: an offline phrasebook, or one of the online backends, never a silent switch between them.

The backend of a request is named by its ``Wirefault-Translator`` header (which the gateway sets for the
whole run), else by ``TRANSLATOR_BACKEND``. ``auto`` means ``offline`` here: whoever starts a run may ask
``GET /backends/probe`` which backend works, and name that one from then on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from flask import Blueprint, Request, Response, jsonify, request

from flask_tools.backends import Deadlines, online_backends
from flask_tools.errors import ToolError, bad_value
from flask_tools.inputs import json_object, query, required_text
from flask_tools.languages import language_code
from flask_tools.phrasebook import load_phrasebook
from flask_tools.store import Service
from wirefault.core.worlds import TRANSLATOR_HEADER

_MAX_TEXT_LENGTH = 2000
_MAX_LANGUAGE_LENGTH = 40
_BACKENDS = ("auto", "google", "mymemory", "libre", "offline")
_DEFAULT_DEADLINE_S = 3.0
_PROBE_DEADLINE_S = 2.0


def blueprint(service: Service) -> Blueprint:
    """``POST /translate`` and ``GET /backends/probe?backend=``."""
    routes = Blueprint("translator", __name__)
    default = _default_backend(service.environ)
    deadline_s = _deadline(service.environ)
    phrasebook = load_phrasebook()
    online = Deadlines(online_backends(service.environ))

    @routes.post("/translate")
    def translate() -> Response:
        fields = json_object(request, "text", "source_language", "target_language")
        query(request)
        phrase = required_text(fields, "text", _MAX_TEXT_LENGTH, lines=True)
        source, target = (
            language_code(name, required_text(fields, name, _MAX_LANGUAGE_LENGTH))
            for name in ("source_language", "target_language")
        )
        backend = _backend_of(request, default)
        if backend == "offline":
            translated = phrasebook.translate(phrase, source, target)
        else:
            translated = online.translate(backend, phrase, source, target, deadline_s)
        answer = {"translated_text": translated, "source_language": source, "target_language": target}
        return jsonify(answer | {"backend": backend})

    @routes.get("/backends/probe")
    def probe_backends() -> Response:
        backend = query(request, "backend").get("backend", default)
        return jsonify(probe(online, _known("'backend'", backend)))

    return routes


def probe(online: Deadlines, choice: str) -> dict[str, str]:
    """Which backend works: the chosen one, or for ``auto`` the first that answers, else ``offline``.

    Raises ``ToolError`` 503 if a backend that was named does not answer.
    """
    if choice == "offline":
        return {"backend": "offline", "reason": "it was asked for"}
    failures = []
    for backend in online.backends if choice == "auto" else (choice,):
        try:
            online.translate(backend, "hello", "en", "fr", _PROBE_DEADLINE_S)
        except ToolError as error:
            if choice != "auto":
                raise
            failures.append(error.message)
        else:
            return {"backend": backend, "reason": "it answered a probe"}
    return {"backend": "offline", "reason": " ".join(failures)}


def _backend_of(request: Request, default: str) -> str:
    named = request.headers.get(TRANSLATOR_HEADER)
    backend = default if named is None else _known(TRANSLATOR_HEADER, named)
    return "offline" if backend == "auto" else backend


def _known(where: str, backend: str) -> str:
    if backend not in _BACKENDS:
        raise bad_value(f"{where} must be one of {', '.join(_BACKENDS)}, not {backend[:40]!a}.")
    return backend


def _default_backend(environ: Mapping[str, str]) -> str:
    backend = environ.get("TRANSLATOR_BACKEND") or "auto"
    if backend not in _BACKENDS:
        raise ValueError(f"TRANSLATOR_BACKEND must be one of {', '.join(_BACKENDS)}, not {backend!r}")
    return backend


def _deadline(environ: Mapping[str, str]) -> float:
    raw = environ.get("TRANSLATOR_DEADLINE_S") or str(_DEFAULT_DEADLINE_S)
    try:
        seconds = float(raw)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 60:
        raise ValueError(f"TRANSLATOR_DEADLINE_S must be seconds from 0 to 60, not {raw!r}")
    return seconds
