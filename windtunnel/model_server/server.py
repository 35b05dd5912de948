"""The HTTP side of the scripted model: an app that speaks like Groq and like OpenAI."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from windtunnel.model_server.personas import MODELS, Persona, persona_of
from windtunnel.model_server.wire import BadRequest, ChatRequest, Engine, completion, events, reply_to

Pace = Callable[[], Awaitable[None]]

_GROQ = "/openai/v1"
_OPENAI = "/v1"
_CODES = {404: "unknown_url", 405: "method_not_allowed"}


async def _next_turn() -> None:
    """Lets the loop write what it has: events that are handed over in one turn may leave in one write."""
    await asyncio.sleep(0)


def create_app(
    engine: Engine,
    persona: Persona = Persona.DILIGENT,
    clock: Callable[[], float] = time.time,
    pace: Pace = _next_turn,
) -> Starlette:
    """The app. ``persona`` is that of model names that say none; ``clock`` gives the ``created`` of replies,
    in seconds since the epoch; ``pace`` is awaited before each event of a stream."""

    async def chat(request: Request) -> Response:
        asked = ChatRequest.parse(await request.body())
        meant = persona_of(asked.model, persona)
        if meant is None:
            raise BadRequest(f"The model `{asked.model}` does not exist.", "model_not_found", 404)
        groq, created = request.url.path.startswith(_GROQ), int(clock())
        reply = await run_in_threadpool(reply_to, asked, engine, meant)
        body = completion(asked, reply, created, groq)
        if not asked.stream:
            return JSONResponse(body)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        return StreamingResponse(_paced(events(asked, body), pace), headers=headers)

    bases = (_GROQ, _OPENAI)
    routes = [Route("/", _health), *(Route(f"{base}/models", _models) for base in bases)]
    routes += [Route(f"{base}/chat/completions", chat, methods=["POST"]) for base in bases]
    return Starlette(routes=routes, exception_handlers={BadRequest: _render, HTTPException: _render})


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "OK"})


async def _models(request: Request) -> Response:
    own = {"object": "model", "created": 0, "owned_by": "windtunnel", "active": True}
    return JSONResponse({"object": "list", "data": [{"id": name, **own} for name in MODELS]})


async def _paced(events: Iterable[bytes], pace: Pace) -> AsyncIterator[bytes]:
    for event in events:
        await pace()
        yield event


async def _render(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        code = _CODES.get(error.status_code, "invalid_request")
        error = BadRequest(f"{request.method} {request.url.path}: {error.detail}", code, error.status_code)
    assert isinstance(error, BadRequest)
    return JSONResponse(error.body, error.status)
