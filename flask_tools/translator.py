"""The translator service: an offline phrasebook, or an online backend; it never switches between them.

The ``Wirefault-Translator`` header of a request selects its backend (the gateway sets it for the whole run),
else ``TRANSLATOR_BACKEND``. ``auto`` means ``offline`` here: to use an online backend, ask
``GET /backends/probe`` which one works, and name it from then on.

``deep_translator`` sets no timeouts, so each online call has a thread and a deadline; a call that hangs is
abandoned. The number of calls in progress is limited.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from flask import Blueprint, Request, Response, jsonify, request

from flask_tools.inputs import (
    LANGUAGES,
    ToolError,
    bad_value,
    json_object,
    language_code,
    query,
    required_text,
)
from flask_tools.store import Service
from wirefault.state.effects import TRANSLATOR_HEADER

_MAX_TEXT_LENGTH = 2000
_MAX_LANGUAGE_LENGTH = 40
_BACKENDS = ("auto", "google", "mymemory", "libre", "offline")
_DEFAULT_DEADLINE_S = 3.0
_PROBE_DEADLINE_S = 2.0
MAX_CALLS = 8  # calls of online backends in progress
# the library requires a key; a private LibreTranslate server needs none
_NO_KEY = "none"


def blueprint(service: Service) -> Blueprint:
    """Return the routes ``POST /translate`` and ``GET /backends/probe?backend=``."""
    routes = Blueprint("translator", __name__)
    default = _default_backend(service.environ)
    deadline_s = _deadline(service.environ)
    phrasebook = load_phrasebook()
    online = OnlineTranslators(online_backends(service.environ))

    @routes.post("/translate")
    def translate() -> Response:
        fields = json_object(request, "text", "source_language", "target_language")
        query(request)
        phrase = required_text(fields, "text", _MAX_TEXT_LENGTH, lines=True)
        source, target = (
            language_code(name, required_text(fields, name, _MAX_LANGUAGE_LENGTH))
            for name in ("source_language", "target_language")
        )
        backend = _request_backend(request, default)
        if backend == "offline":
            translated = phrasebook.translate(phrase, source, target)
        else:
            translated = online.translate(backend, phrase, source, target, deadline_s)
        answer = {"translated_text": translated, "source_language": source, "target_language": target}
        return jsonify(answer | {"backend": backend})

    @routes.get("/backends/probe")
    def probe_backends() -> Response:
        backend = query(request, "backend").get("backend", default)
        return jsonify(probe(online, _checked_backend("'backend'", backend)))

    return routes


def probe(online: OnlineTranslators, choice: str) -> dict[str, str]:
    """Return a working backend: ``choice``, or for ``auto`` the first that answers, else ``offline``.

    Raises ``ToolError`` 503 if the chosen backend does not answer.
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


def _request_backend(request: Request, default: str) -> str:
    header = request.headers.get(TRANSLATOR_HEADER)
    backend = default if header is None else _checked_backend(TRANSLATOR_HEADER, header)
    return "offline" if backend == "auto" else backend


def _checked_backend(where: str, backend: str) -> str:
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


class Phrasebook:
    """Whole phrases in several languages, compared without case and punctuation."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.languages = tuple(rows[0])
        self._rows: dict[str, dict[str, dict[str, str]]] = {code: {} for code in self.languages}
        for row in rows:
            for code, phrase in row.items():
                # of two rows with the same phrase, the first is used: French `bonjour` is `hello`
                self._rows[code].setdefault(_normalised(phrase), row)

    def translate(self, text: str, source: str, target: str) -> str:
        """Translate a phrase between two languages, which are codes.

        Raises ``ToolError``: 400 for an unknown language, 404 for an unknown phrase.
        """
        for code in (source, target):
            if code not in self.languages:
                known = ", ".join(LANGUAGES[known] for known in self.languages)
                message = f"The offline phrasebook has no {LANGUAGES[code]}; it has {known}."
                raise ToolError(400, "language_unsupported", message)
        row = self._rows[source].get(_normalised(text))
        if row is None:
            message = f"The offline phrasebook has no {LANGUAGES[source]} phrase {text!r}."
            raise ToolError(404, "phrase_unknown", message)
        return row[target]


def load_phrasebook() -> Phrasebook:
    """Load the phrases that ship with the lab."""
    return Phrasebook(json.loads(Path(__file__).with_name("phrasebook.json").read_text(encoding="utf-8")))


def _normalised(text: str) -> str:
    """Reduce a phrase to its words in lower case; apostrophes and hyphens belong to words."""
    return " ".join(re.findall(r"[\w'-]+", text.casefold().replace("’", "'"))).strip("'- ")


Online = Callable[[str, str, str], str]
"""A function that translates a text between two language codes. It may raise any exception."""


def online_backends(environ: Mapping[str, str]) -> dict[str, Online]:
    """Return the available online translators, in order of preference; ``libre`` needs ``LIBRE_URL``."""
    backends = {
        "google": _online("google", "GoogleTranslator"),
        "mymemory": _online("mymemory", "MyMemoryTranslator"),
    }
    if environ.get("LIBRE_URL"):
        url = environ["LIBRE_URL"].rstrip("/") + "/"
        backends["libre"] = _online("libre", "LibreTranslator", api_key=_NO_KEY, custom_url=url)
    return backends


class OnlineTranslators:
    """Call online translators with a deadline."""

    def __init__(self, backends: Mapping[str, Online]) -> None:
        self.backends = backends
        self._slots = threading.BoundedSemaphore(MAX_CALLS)

    def translate(self, backend: str, text: str, source: str, target: str, deadline_s: float) -> str:
        """Translate a text.

        Raises ``ToolError``: 400 ``language_unsupported`` if the backend does not know a language, 503
        ``backend_unavailable`` for any other failure.
        """
        online = self.backends.get(backend)
        if online is None:
            raise _unavailable(backend, "LIBRE_URL is not set")
        if not self._slots.acquire(blocking=False):
            raise _unavailable(backend, f"{MAX_CALLS} calls are in progress and none has ended")
        answers: SimpleQueue[str | Exception] = SimpleQueue()

        def work() -> None:
            try:
                answers.put(online(text, source, target))
            except Exception as error:  # noqa: BLE001  a third-party network client may raise anything
                answers.put(error)
            finally:
                self._slots.release()

        threading.Thread(target=work, name=f"translate-{backend}", daemon=True).start()
        try:
            answer = answers.get(timeout=deadline_s)
        except Empty:
            raise _unavailable(backend, f"it did not answer within {deadline_s:g} s") from None
        return _translation(backend, answer)


def _translation(backend: str, answer: Any) -> str:
    if isinstance(answer, str) and answer.strip():
        return answer
    if not isinstance(answer, Exception):
        raise _unavailable(backend, "it answered without a translation")
    # compared by name: the import of the library takes a third of a second, which offline users do not need
    if type(answer).__name__ == "LanguageNotSupportedException":
        message = f"The translator {backend} does not know one of the two languages."
        raise ToolError(400, "language_unsupported", message)
    raise _unavailable(backend, f"it failed with {type(answer).__name__}")


def _unavailable(backend: str, reason: str) -> ToolError:
    return ToolError(503, "backend_unavailable", f"The translator {backend} is not available: {reason}.")


def _language(backend: str, code: str) -> str:
    """Return deep_translator's name of a language for the backend."""
    if backend == "libre":
        return code
    return "zh-CN" if code == "zh" else LANGUAGES[code].lower()


def _online(backend: str, translator: str, **options: str) -> Online:
    """Return a function that calls the named class of ``deep_translator``, imported at the first call."""

    def translate(text: str, source: str, target: str) -> str:
        import deep_translator

        languages = {"source": _language(backend, source), "target": _language(backend, target)}
        return getattr(deep_translator, translator)(**languages, **options).translate(text)  # type: ignore[no-any-return]

    return translate
