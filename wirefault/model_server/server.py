"""The HTTP side of the scripted model: an app that speaks every API of models in ``dialects.chat_apis``."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from wirefault.core.digest import text_digest
from wirefault.dialects import http
from wirefault.dialects.base import ModelReply, ToolCall
from wirefault.dialects.chat_apis import CHAT_API, CHAT_APIS, V1_BASES, ChatApi
from wirefault.dialects.json_values import as_object, compact
from wirefault.model_server.answer import Answer, Decision
from wirefault.model_server.decide import MODELS, Persona, persona_of
from wirefault.model_server.forms import CannotFill, fill, plain_form, split_tools, tells_failure
from wirefault.model_server.request import BadRequest, ChatRequest

_Sent = list[dict[str, Any]]  # messages, or tools
# messages, tools that work, persona, seed, whether calls may be parallel, tools not to be called now
Decide = Callable[[_Sent, _Sent, Persona, int, bool, _Sent], Decision]
Pace = Callable[[], Awaitable[None]]


def create_app(
    decide: Decide,
    persona: Persona = Persona.DILIGENT,
    clock: Callable[[], float] = time.time,
    # the loop writes what it has: events that are handed over in one turn may leave in one write
    pace: Pace = lambda: asyncio.sleep(0),
) -> Starlette:
    """The app. ``persona`` is that of model names that say none; ``clock`` gives the ``created`` of replies,
    in seconds since the epoch; ``pace`` is awaited before each event of a stream."""

    async def reply(request: Request) -> Response:
        api, target = CHAT_APIS[request.scope["route"].path], f"{request.url.path}?{request.url.query}"
        asked = ChatRequest.parse(http.Request(body=await request.body(), method="POST", target=target), api)
        meant = persona_of(asked.model, persona)
        if meant is None:
            raise BadRequest(f"The model `{asked.model}` does not exist.", "model_not_found", 404)
        said = await run_in_threadpool(_reply_to, asked, decide, meant)
        body = _written(api, asked, said, int(clock()), groq=request.url.path.startswith("/openai"))
        if not asked.stream:
            return JSONResponse(body)
        events = api.events(body, bool((asked.stream_options or {}).get("include_usage")))
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        return StreamingResponse(_paced(events, pace), headers=headers)

    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "wirefault"} for name in MODELS]
    models = JSONResponse({"object": "list", "data": listed})
    routes = [Route("/", lambda _: JSONResponse({"status": "OK"}))]
    routes += [Route(f"{base}/models", lambda _: models) for base in V1_BASES]
    routes += [Route(path, reply, methods=["POST"]) for path in CHAT_APIS]
    # what clients send to the model's host besides: OpenAI's agent SDK its traces, CrewAI texts to be counted
    for base in V1_BASES:
        routes += [Route(f"{base}/responses/input_tokens", _count, methods=["POST"])]
        routes += [Route(f"{base}/traces/ingest", lambda _: Response(status_code=204), methods=["POST"])]
    return Starlette(routes=routes, exception_handlers={BadRequest: _render, HTTPException: _render})


async def _count(request: Request) -> Response:
    tokens = len(await request.body()) // 4
    return JSONResponse({"object": "response.input_tokens", "input_tokens": tokens})


async def _render(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
        error = BadRequest(f"{request.method} {request.url.path}: {error.detail}", code, error.status_code)
    assert isinstance(error, BadRequest)
    api = CHAT_APIS.get(getattr(request.scope.get("route"), "path", ""), CHAT_API)
    return JSONResponse(api.refusal(error.message, error.code, error.status), error.status)


def _reply_to(request: ChatRequest, decide: Decide, persona: Persona) -> ModelReply:
    """The decision in the form that is asked for. Raises ``BadRequest`` if it does not fit."""
    working, forms = split_tools(request.sent("tools"), request.choice)
    seed, parallel = request.seed or 0, request.parallel_tool_calls is not False
    withheld = [tool for tool in request.sent("tools") if tool not in working + forms]
    decision = decide(request.sent("messages"), working, persona, seed, parallel, withheld)
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


def _written(
    api: ChatApi, request: ChatRequest, said: ModelReply, created: int, groq: bool
) -> dict[str, Any]:
    """The reply in that API's form, with ids that derive from seed and messages; ``groq``: as Groq does."""
    sent = [request.sent("messages"), request.sent("tools")]
    digest = text_digest(json.dumps([request.seed or 0, sent[0]], sort_keys=True), 12).hex()
    prefix = f"{api.dialect.id_prefix}{digest[:16]}"
    said = replace(said, calls=tuple(replace(call, id=f"{prefix}{at}") for at, call in enumerate(said.calls)))
    # a stand-in for a tokenizer: one token for every four characters, rounded up
    prompt, completion = (-(-len(json.dumps(part)) // 4) for part in (sent, [said.as_json()]))
    body = api.new_reply(digest, request.model, created, prompt, completion)
    if api is CHAT_API:
        body |= {"system_fingerprint": "fp_scripted"} | ({"x_groq": {"id": f"req_{digest}"}} if groq else {})
    return api.dialect.write_reply(body, said)


async def _paced(events: Iterator[bytes], pace: Pace) -> AsyncIterator[bytes]:
    for event in events:
        await pace()
        yield event
