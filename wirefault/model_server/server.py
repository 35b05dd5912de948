"""The HTTP server of the scripted model: an app for every model API.

``dialects.chat_apis`` converts requests of the other APIs to chat completions. A request for something that
would change the reply and is not supported is a ``BadRequest``.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from wirefault.core.identity import text_digest
from wirefault.dialects import http
from wirefault.dialects.anthropic import ANTHROPIC
from wirefault.dialects.base import ModelDialect, ModelReply, ToolCall
from wirefault.dialects.bedrock import BEDROCK
from wirefault.dialects.chat_apis import as_chat, text_at
from wirefault.dialects.gemini import GEMINI
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, compact
from wirefault.dialects.ollama import OLLAMA
from wirefault.dialects.openai_chat import OPENAI_CHAT, as_streamed
from wirefault.dialects.openai_responses import OPENAI_RESPONSES
from wirefault.dialects.outages import UNABLE_HEADER
from wirefault.dialects.stream_forms import AWS_EVENT_STREAM, JSON_LINES
from wirefault.model_server.decide import MODELS, Persona, persona_of
from wirefault.model_server.forms import CannotFill, fill, is_failure_form, plain_form, split_tools
from wirefault.model_server.playbooks import Answer, Decision

_REFERENCE = "item_reference"
_UNKNOWN_VALUES = frozenset({"literal_error"})
"""Pydantic's errors for values of a provider's API that the scripted model does not know."""


@dataclass(frozen=True)
class ChatApi:
    """A model API, as the server speaks it."""

    dialect: ModelDialect
    reply_prefix: str = ""
    """Start of the ids of replies."""
    usage_key: str = "usage"
    """Field of a reply that has its token counts; empty if they are fields of the reply itself."""
    stream_type: str = "text/event-stream"
    """Content-Type of a stream."""

    def refusal(self, message: str, code: str, status: int) -> dict[str, Any]:
        """The error for a refused request; its type follows from the status."""
        form = self.dialect.errors["not_found" if status == 404 else "context_length"]
        return self.dialect.error_body(form.type or "", message, code=code)

    def new_reply(self, id: str, model: str, created: int, prompt: int, completion: int) -> dict[str, Any]:
        """An empty reply with the token counts of the request and of its future content."""
        reply = self.dialect.new_reply(f"{self.reply_prefix}{id}", model, created)
        usage = self.dialect.usage(prompt, completion)
        return {**reply, **({self.usage_key: usage} if self.usage_key else usage)}

    def events(self, body: dict[str, Any], usage_wanted: bool) -> Iterator[bytes]:
        """A reply as an event stream. ``usage_wanted``: chat completions send tokens only on request."""
        return self.dialect.spread(as_streamed(body, usage_wanted) if self.dialect is OPENAI_CHAT else body)


_CHAT_API = ChatApi(OPENAI_CHAT, "chatcmpl-")
_GEMINI_API = ChatApi(GEMINI, usage_key="usageMetadata")
_V1_BASES = ("/openai/v1", "/v1")
_V1_APIS = {
    "/chat/completions": _CHAT_API,
    "/responses": ChatApi(OPENAI_RESPONSES, "resp_"),
    "/messages": ChatApi(ANTHROPIC, "msg_"),
}
_APIS: Mapping[str, ChatApi] = {
    **{base + end: api for base in _V1_BASES for end, api in _V1_APIS.items()},
    **{
        f"{base}/models/{{model}}{end}": _GEMINI_API
        for base in ("/v1beta", *_V1_BASES)  # the official clients' usual version has changed
        for end in GEMINI.path_end
    },
    **{
        f"/model/{{model}}{end}": ChatApi(BEDROCK, stream_type=AWS_EVENT_STREAM.content_type)
        for end in BEDROCK.path_end
    },
    "/api/chat": ChatApi(OLLAMA, usage_key="", stream_type=JSON_LINES.content_type),
}


class BadRequest(Exception):
    """A request that gets an error reply, in the provider's form.

    ``unable``: a model of the provider would answer it, but the scripted model cannot. The reply says so in a
    header, and the gateway records it as the lab's failure.
    """

    def __init__(
        self, message: str, code: str = "invalid_request", status: int = 400, *, unable: bool = False
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.status, self.unable = message, code, status, unable


class ItemMemory:
    """The items of the last responses, for requests that name them by id instead of repeating them."""

    def __init__(self, limit: int = 10_000) -> None:
        self._items: dict[str, dict[str, Any]] = {}
        self._limit = limit

    def keep(self, body: dict[str, Any]) -> None:
        """Keep the items of a response; replies of other APIs have none."""
        for item in as_objects(body.get("output")):
            if as_text(item.get("id")):
                self._items[item["id"]] = item
        for id in list(self._items)[: max(len(self._items) - self._limit, 0)]:
            del self._items[id]

    def resolved(self, raw: http.Request) -> http.Request:
        """Return the request with the items in place of their references. Raises ``BadRequest``."""
        body = raw.json_object()
        items = body.get("input")
        if not any(item.get("type") == _REFERENCE for item in as_objects(items)):
            return raw
        return raw.with_json({**body, "input": [self._item(item) for item in as_list(items)]})

    def _item(self, item: Any) -> Any:
        value = as_object(item)
        if value.get("type") != _REFERENCE:
            return item
        id = as_text(value.get("id"))
        if id not in self._items:
            raise BadRequest(f"'input': item_reference: unknown item {id!r}", unable=True)
        return self._items[id]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class _Message(_Strict):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _has_text(self) -> Self:
        if self.content is None and self.role in ("system", "user", "tool"):
            raise ValueError("content is missing")
        text_at("content", self.content, "text", "refusal")
        return self


class _Function(_Strict):
    name: str
    parameters: dict[str, Any] | None = None


class _Tool(_Strict):
    type: Literal["function"] = "function"
    function: _Function


class _Form(_Strict):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_schema(self) -> Self:
        if self.type == "json_schema" and not isinstance(self.json_schema.get("schema"), dict):
            raise ValueError("json_schema.schema is missing")
        return self


class ChatRequest(_Strict):
    """A checked request; further fields are kept and ignored."""

    model: str
    messages: list[_Message] = Field(min_length=1)
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required", "any"] | _Tool | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Form | None = None
    n: Literal[1] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: dict[str, bool] | None = None
    modalities: list[Literal["text"]] | None = None

    @classmethod
    def parse(cls, raw: http.Request, api: ChatApi) -> ChatRequest:
        """Check a request; raises ``BadRequest`` that names the field."""
        try:
            raw.json()
        except ValueError as error:
            raise BadRequest(f"the body is not JSON: {error}", "invalid_json") from None
        try:
            request = cls.model_validate(as_chat(api.dialect, raw))
        except ValidationError as error:
            deepest = max(error.errors(), key=lambda each: len(each["loc"]))
            # pydantic also names the branch of a union, by its type
            where = ".".join(str(key) for key in deepest["loc"] if not re.match(r"_|\w+\[", str(key)))
            message = f"'{where or 'body'}': {deepest['msg']}".replace("Value error, ", "")
            unable = deepest["type"] in _UNKNOWN_VALUES or "support" in message
            raise BadRequest(message, unable=unable) from None
        except ValueError as error:
            raise BadRequest(str(error), unable="support" in str(error)) from None
        offered = (tool.function.name for tool in request.tools or [])
        if request.choice not in ["none", "auto", "required", *offered]:
            raise BadRequest(f"'tool_choice': 'tools' has no tool {request.choice}")
        return request

    @property
    def choice(self) -> str:
        """``none``, ``auto``, ``required``, or the name of the tool to call."""
        choice = self.tool_choice or "auto"
        return choice.function.name if isinstance(choice, _Tool) else choice.replace("any", "required")

    def raw(self, name: Literal["messages", "tools"]) -> list[dict[str, Any]]:
        """Return the messages, or the tools, as the client sent them."""
        return [each.model_dump(exclude_unset=True) for each in getattr(self, name) or []]


_Objects = list[dict[str, Any]]  # messages, or tools
# messages, tools that work, persona, seed, whether calls may be parallel, tools not to call now
Decide = Callable[[_Objects, _Objects, Persona, int, bool, _Objects], Decision]
Pace = Callable[[], Awaitable[None]]


def create_app(
    decide: Decide,
    persona: Persona = Persona.DILIGENT,
    clock: Callable[[], float] = time.time,
    # yields to the loop: events of one turn of the loop may leave in one write
    pace: Pace = lambda: asyncio.sleep(0),
) -> Starlette:
    """Build the app.

    ``persona``: for model names without one; ``clock``: epoch seconds, for ``created``; ``pace`` is awaited
    before each event of a stream.
    """

    memory = ItemMemory()

    async def reply(request: Request) -> Response:
        api, target = _APIS[request.scope["route"].path], f"{request.url.path}?{request.url.query}"
        raw = memory.resolved(http.Request(body=await request.body(), method="POST", target=target))
        chat = ChatRequest.parse(raw, api)
        wanted = persona_of(chat.model, persona)
        if wanted is None:
            raise BadRequest(f"The model `{chat.model}` does not exist.", "model_not_found", 404)
        answer = await run_in_threadpool(_reply_to, chat, decide, wanted)
        body = _written(api, chat, answer, int(clock()), groq=request.url.path.startswith("/openai"))
        memory.keep(body)
        if not chat.stream:
            return JSONResponse(body)
        events = api.events(body, bool((chat.stream_options or {}).get("include_usage")))
        headers = {"Content-Type": api.stream_type, "Cache-Control": "no-cache"}
        return StreamingResponse(_paced(events, pace), headers=headers)

    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "wirefault"} for name in MODELS]
    models = JSONResponse({"object": "list", "data": listed})
    routes = [Route("/", lambda _: JSONResponse({"status": "OK"}))]
    routes += [Route(f"{base}/models", lambda _: models) for base in _V1_BASES]
    routes += [Route(path, reply, methods=["POST"]) for path in _APIS]
    # OpenAI's agent SDK also sends its traces to the model's host, CrewAI texts to count
    for base in _V1_BASES:
        routes += [Route(f"{base}/responses/input_tokens", _count, methods=["POST"])]
        routes += [Route(f"{base}/traces/ingest", lambda _: Response(status_code=204), methods=["POST"])]
    return Starlette(routes=routes, exception_handlers={BadRequest: _render, HTTPException: _render})


async def _count(request: Request) -> Response:
    tokens = len(await request.body()) // 4
    return JSONResponse({"object": "response.input_tokens", "input_tokens": tokens})


async def _render(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        code = {404: "unknown_url", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
        unable = error.status_code in (404, 405) and request.method == "POST"
        message = f"{request.method} {request.url.path}: {error.detail}"
        error = BadRequest(message, code, error.status_code, unable=unable)
    assert isinstance(error, BadRequest)
    api = _APIS.get(getattr(request.scope.get("route"), "path", ""), _CHAT_API)
    headers = {UNABLE_HEADER: "1"} if error.unable else {}
    return JSONResponse(api.refusal(error.message, error.code, error.status), error.status, headers)


def _call_as_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A tool call in a code fence, as small models write it."""
    return f"```json\n{compact({'name': name, 'arguments': arguments})}\n```"


def _reply_to(request: ChatRequest, decide: Decide, persona: Persona) -> ModelReply:
    """Return the decision in the requested form. Raises ``BadRequest`` if it does not fit."""
    working, forms = split_tools(request.raw("tools"), request.choice)
    seed, parallel = request.seed or 0, request.parallel_tool_calls is not False
    withheld = [tool for tool in request.raw("tools") if tool not in working + forms]
    decision = decide(request.raw("messages"), working, persona, seed, parallel, withheld)
    if not isinstance(decision, Answer):
        if persona is Persona.TYPIST:
            return ModelReply("\n".join(_call_as_text(call.name, call.arguments) for call in decision))
        return ModelReply().with_calls(*(ToolCall(c.name, compact(c.arguments)) for c in decision))
    must_call, wanted, answer = request.choice not in ("none", "auto"), request.response_format, decision
    if must_call and not forms:
        raise BadRequest(f"the scripted model has no call to make: {answer.text}", "no_call", unable=True)
    functions, done, reasons = [form["function"] for form in forms], answer.status == "done", []
    # forms named after an error come last, and first for a failure
    for form in sorted(functions, key=lambda function: is_failure_form(function["name"]) == done):
        try:
            arguments = fill(as_object(form.get("parameters")), answer)
            return ModelReply().with_calls(ToolCall(form["name"], compact(arguments)))
        except CannotFill as error:
            reasons.append(f"{form['name']}: {error}")
    try:
        if reasons and must_call:
            raise CannotFill("; ".join(reasons))
        if wanted and wanted.type == "json_schema":
            return ModelReply(compact(fill(wanted.json_schema["schema"], answer)))
    except CannotFill as error:
        reason = f"cannot fill the form: {error}; the task is {answer.status}: {answer.text}"
        raise BadRequest(f"the scripted model {reason}", "cannot_fill", unable=True) from None
    return ModelReply(compact(plain_form(answer)) if wanted and wanted.type == "json_object" else answer.text)


def _written(
    api: ChatApi, request: ChatRequest, reply: ModelReply, created: int, groq: bool
) -> dict[str, Any]:
    """Write the reply in the API's form, with ids derived from seed and messages; ``groq``: Groq's extras."""
    inputs = [request.raw("messages"), request.raw("tools")]
    digest = text_digest(json.dumps([request.seed or 0, inputs[0]], sort_keys=True), 12).hex()
    prefix = f"{api.dialect.id_prefix}{digest[:16]}"
    calls = tuple(replace(call, id=f"{prefix}{at}") for at, call in enumerate(reply.calls))
    reply = replace(reply, calls=calls)
    # instead of a tokenizer: one token for every four characters, rounded up
    prompt, completion = (-(-len(json.dumps(part)) // 4) for part in (inputs, [reply.as_json()]))
    body = api.new_reply(digest, request.model, created, prompt, completion)
    if api is _CHAT_API:
        body |= {"system_fingerprint": "fp_scripted"} | ({"x_groq": {"id": f"req_{digest}"}} if groq else {})
    return api.dialect.write_reply(body, reply)


async def _paced(events: Iterator[bytes], pace: Pace) -> AsyncIterator[bytes]:
    for event in events:
        await pace()
        yield event
