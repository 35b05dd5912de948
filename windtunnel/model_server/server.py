"""The HTTP side of the scripted model: an app that speaks like Groq and like OpenAI."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from windtunnel.dialects.json_values import as_object, compact
from windtunnel.dialects.model_messages import ModelReply, ToolCall
from windtunnel.dialects.openai_chat import OPENAI_CHAT
from windtunnel.model_server.answer import Answer, Decision
from windtunnel.model_server.decide import MODELS, Persona, persona_of
from windtunnel.model_server.forms import CannotFill, fill, plain_form, split_tools, tells_failure
from windtunnel.model_server.request import BadRequest, ChatRequest

# messages, tools that work, persona, seed, whether calls may be made in parallel
Engine = Callable[[list[dict[str, Any]], list[dict[str, Any]], Persona, int, bool], Decision]
Pace = Callable[[], Awaitable[None]]


def create_app(
    engine: Engine,
    persona: Persona = Persona.DILIGENT,
    clock: Callable[[], float] = time.time,
    # the loop writes what it has: events that are handed over in one turn may leave in one write
    pace: Pace = lambda: asyncio.sleep(0),
) -> Starlette:
    """The app. ``persona`` is that of model names that say none; ``clock`` gives the ``created`` of replies,
    in seconds since the epoch; ``pace`` is awaited before each event of a stream."""

    async def chat(request: Request) -> Response:
        asked = ChatRequest.parse(await request.body())
        meant = persona_of(asked.model, persona)
        if meant is None:
            raise BadRequest(f"The model `{asked.model}` does not exist.", "model_not_found", 404)
        reply = await run_in_threadpool(_reply_to, asked, engine, meant)
        body = _completion(asked, reply, int(clock()), groq=request.url.path.startswith("/openai"))
        if not asked.stream:
            return JSONResponse(body)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        return StreamingResponse(_events(asked, body, pace), headers=headers)

    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "windtunnel"} for name in MODELS]
    models = JSONResponse({"object": "list", "data": listed})
    routes = [Route("/", lambda _: JSONResponse({"status": "OK"}))]
    for base in ("/openai/v1", "/v1"):
        routes.append(Route(f"{base}/models", lambda _: models))
        routes.append(Route(f"{base}/chat/completions", chat, methods=["POST"]))
    return Starlette(routes=routes, exception_handlers={BadRequest: _render, HTTPException: _render})


async def _render(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
        error = BadRequest(f"{request.method} {request.url.path}: {error.detail}", code, error.status_code)
    assert isinstance(error, BadRequest)
    return JSONResponse(error.body, error.status)


def _reply_to(request: ChatRequest, engine: Engine, persona: Persona) -> ModelReply:
    """The engine's decision in the form that is asked for. Raises ``BadRequest`` if it does not fit."""
    working, forms = split_tools(request.sent("tools"), request.choice)
    seed, parallel = request.seed or 0, request.parallel_tool_calls is not False
    decision = engine(request.sent("messages"), working, persona, seed, parallel)
    if not isinstance(decision, Answer):
        return ModelReply().with_calls(*(ToolCall(c.name, compact(c.arguments)) for c in decision))
    must_call, asked, answer = request.choice not in ("none", "auto"), request.response_format, decision
    if must_call and not forms:
        raise BadRequest(f"the scripted model has no call to make: {answer.text}", "no_call")
    functions, done, reasons = [form["function"] for form in forms], answer.status == "done", []
    # what is named after an error is the last form to take, and the first one for a failure
    for form in sorted(functions, key=lambda function: tells_failure(function["name"]) == done):
        try:
            arguments = fill(as_object(form.get("parameters")), answer)
            return ModelReply().with_calls(ToolCall(form["name"], compact(arguments)))
        except CannotFill as error:
            reasons.append(f"{form['name']}: {error}")
    try:
        if reasons and must_call:
            raise CannotFill("; ".join(reasons))
        if asked and asked.type == "json_schema":
            return ModelReply(compact(fill(asked.json_schema["schema"], answer)))
    except CannotFill as error:
        reason = f"cannot fill the form: {error}; the task is {answer.status}: {answer.text}"
        raise BadRequest(f"the scripted model {reason}", "cannot_fill") from None
    return ModelReply(compact(plain_form(answer)) if asked and asked.type == "json_object" else answer.text)


def _completion(request: ChatRequest, reply: ModelReply, created: int, groq: bool) -> dict[str, Any]:
    """The whole reply, with ids that derive from seed and messages; ``groq`` adds what only Groq sends."""
    sent = [request.sent("messages"), request.sent("tools")]
    known = json.dumps([request.seed or 0, sent[0]], sort_keys=True).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(known, digest_size=12).hexdigest()
    prefix = f"{OPENAI_CHAT.id_prefix}{digest[:16]}"
    calls = (replace(call, id=f"{prefix}{index}") for index, call in enumerate(reply.calls))
    reply = replace(reply, calls=tuple(calls))
    body = OPENAI_CHAT.new_reply(f"chatcmpl-{digest}", request.model, created)
    # a stand-in for a tokenizer: one token for every four characters, rounded up
    prompt, written = (-(-len(json.dumps(part)) // 4) for part in (sent, [reply.as_json()]))
    body |= {"system_fingerprint": "fp_scripted", "usage": OPENAI_CHAT.usage(prompt, written)}
    return OPENAI_CHAT.write_reply(body | ({"x_groq": {"id": f"req_{digest}"}} if groq else {}), reply)


async def _events(request: ChatRequest, body: dict[str, Any], pace: Pace) -> AsyncIterator[bytes]:
    """A completion as an event stream; Groq sends the usage with the last chunk, OpenAI on request."""
    chunked = {key: value for key, value in body.items() if key != "usage"}
    if "x_groq" in body:
        chunked["x_groq"] = {**body["x_groq"], "usage": body["usage"]}
    if (request.stream_options or {}).get("include_usage"):
        chunked["usage"] = body["usage"]
    for event in OPENAI_CHAT.spread(chunked):
        await pace()
        yield event
