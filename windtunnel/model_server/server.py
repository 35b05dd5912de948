"""The HTTP side of the scripted model: a Flask app that speaks like Groq and like OpenAI."""

from __future__ import annotations

import time
from collections.abc import Callable

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from windtunnel.model_server.decide import decide
from windtunnel.model_server.personas import MODELS
from windtunnel.model_server.wire import BadRequest, ScriptedReply, error_body, parse_request

_GROQ = "/openai/v1"
_OPENAI = "/v1"
_MAX_BODY = 16 * 1024 * 1024


def create_app(clock: Callable[[], float] = time.time) -> Flask:
    """The app; ``clock`` gives the ``created`` of replies, in seconds since the epoch."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = _MAX_BODY
    app.json.sort_keys = False  # type: ignore[attr-defined]

    @app.get("/")
    def health() -> Response:
        return jsonify(status="OK")

    @app.get(f"{_GROQ}/models")
    @app.get(f"{_OPENAI}/models")
    def models() -> Response:
        listed = [
            {"id": name, "object": "model", "created": 0, "owned_by": "windtunnel", "active": True}
            for name in MODELS
        ]
        return jsonify(object="list", data=listed)

    @app.post(f"{_GROQ}/chat/completions")
    @app.post(f"{_OPENAI}/chat/completions")
    def chat() -> Response:
        return _answer(groq=request.path.startswith(_GROQ), created=int(clock()))

    @app.errorhandler(BadRequest)
    def bad_request(error: BadRequest) -> tuple[Response, int]:
        return jsonify(error.body()), error.status

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> tuple[Response, int]:
        status = error.code or 500
        code = {404: "unknown_url", 405: "method_not_allowed", 413: "request_too_large"}.get(
            status, "invalid_request"
        )
        return jsonify(error_body(f"{request.method} {request.path}: {error.name}", code, status)), status

    return app


def _answer(groq: bool, created: int) -> Response:
    chat = parse_request(request.get_data())
    reply = ScriptedReply.of(chat, decide(chat.body, chat.persona, chat.seed), created)
    if not chat.stream:
        return jsonify(reply.completion(groq))
    headers = {"Cache-Control": "no-cache"}
    return Response(reply.events(groq), mimetype="text/event-stream", headers=headers)
