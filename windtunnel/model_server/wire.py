"""What the scripted model is asked and replies, as chat completions of Groq and OpenAI.

What would change the reply and cannot be done is a ``BadRequest``. Ignored is what has no meaning for short
replies that are always the same: temperature, top_p, penalties, max_tokens, stop and the like.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from windtunnel.dialects.json_values import as_object, compact, parsed
from windtunnel.dialects.model_messages import ModelReply, ToolCall
from windtunnel.dialects.openai_chat import OPENAI_CHAT
from windtunnel.model_server.answer import Answer, Decision
from windtunnel.model_server.filling import CannotFill, fill, plain_form, tells_failure
from windtunnel.model_server.offered import split_tools
from windtunnel.model_server.personas import Persona
from windtunnel.model_server.words import WORDS

# messages, tools that work, persona, seed, whether calls may be made in parallel
Engine = Callable[[list[dict[str, Any]], list[dict[str, Any]], Persona, int, bool], Decision]

_CANNOT: dict[str, str] = WORDS["cannot"]


class BadRequest(Exception):
    """A request that is answered with an error in the provider's form."""

    def __init__(self, message: str, code: str = "invalid_request", status: int = 400) -> None:
        super().__init__(message)
        self.status = status
        self.body = OPENAI_CHAT.error_body("invalid_request_error", message, code=code)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


def _read(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") not in ("text", "refusal"):
        raise ValueError(f"the scripted model reads text only, not {part.get('type')}")
    return part


class _Message(_Strict):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Annotated[dict[str, Any], AfterValidator(_read)]] | None = None
    tool_calls: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.content is None and self.role in ("system", "user", "tool"):
            raise ValueError("content is missing")
        return self


class _Function(_Strict):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(_Strict):
    type: Literal["function"] = "function"
    function: _Function


class _JsonSchema(_Strict):
    content: dict[str, Any] = Field(alias="schema")


class _TextFormat(_Strict):
    type: Literal["text", "json_object"]


class _SchemaFormat(_Strict):
    type: Literal["json_schema"]
    json_schema: _JsonSchema


class ChatRequest(_Strict):
    """A checked request. Whatever else it has is kept, and ignored."""

    model: str
    messages: list[_Message] = Field(min_length=1)
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required", "any"] | _Tool | None = None
    parallel_tool_calls: bool | None = None
    response_format: _TextFormat | _SchemaFormat | None = None
    n: Literal[1] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: dict[str, bool] | None = None
    modalities: list[Literal["text"]] | None = None

    @classmethod
    def parse(cls, raw: bytes) -> ChatRequest:
        """Raises ``BadRequest`` that names what is wrong."""
        try:
            body = parsed(raw)
        except ValueError as error:
            raise BadRequest(f"the body is not JSON: {error}", "invalid_json") from None
        for name in _CANNOT.keys() & (body.keys() if isinstance(body, dict) else set()):
            if body[name]:
                raise BadRequest(f"'{name}' is not supported: {_CANNOT[name]}")
        try:
            request = cls.model_validate(body)
        except ValidationError as error:
            deepest = max(error.errors(include_url=False), key=lambda each: len(each["loc"]))
            # pydantic names the branch of a union too, by its type
            keys = [str(key) for key in deepest["loc"] if not re.match(r"_|\w+\[", str(key))]
            where = ".".join(keys) or "body"
            raise BadRequest(f"'{where}': {deepest['msg'].removeprefix('Value error, ')}") from None
        names = [tool.function.name for tool in request.tools or []]
        if isinstance(request.tool_choice, _Tool) and request.choice not in names:
            raise BadRequest(f"'tool_choice': no tool of 'tools' is called {request.choice}")
        return request

    @property
    def choice(self) -> str:
        """``none``, ``auto``, ``required``, or the name of the tool to call."""
        choice = self.tool_choice or "auto"
        return choice.function.name if isinstance(choice, _Tool) else choice.replace("any", "required")

    @property
    def must_call(self) -> bool:
        return self.choice not in ("none", "auto")

    def sent(self, name: Literal["messages", "tools"]) -> list[dict[str, Any]]:
        """The messages, or the tools, as they were sent."""
        return [each.model_dump(exclude_unset=True) for each in getattr(self, name) or []]


def reply_to(request: ChatRequest, engine: Engine, persona: Persona) -> ModelReply:
    """The engine's decision in the form that is asked for. Raises ``BadRequest`` if it does not fit."""
    working, forms = split_tools(request.sent("tools"), request.choice)
    parallel = request.parallel_tool_calls is not False
    decision = engine(request.sent("messages"), working, persona, request.seed or 0, parallel)
    if decision.calls:
        return ModelReply().with_calls(*(ToolCall(c.name, compact(c.arguments)) for c in decision.calls))
    answer = decision.answer or Answer("failed", "The scripted model decided nothing.")
    if request.must_call and not forms:
        raise BadRequest(f"the scripted model has no call to make: {answer.text}", "no_call")
    try:
        return _final(request, [tool["function"] for tool in forms], answer)
    except CannotFill as error:
        reason = f"cannot fill the form: {error}; the task is {answer.status}: {answer.text}"
        raise BadRequest(f"the scripted model {reason}", "cannot_fill") from None


def _final(request: ChatRequest, forms: list[dict[str, Any]], answer: Answer) -> ModelReply:
    """The answer as a call of the first form that can be filled, else as text; raises ``CannotFill``."""
    reasons, asked = [], request.response_format
    # what is named after an error is the last form to take, and the first one for a failure
    for form in sorted(forms, key=lambda form: tells_failure(form["name"]) == (answer.status == "done")):
        try:
            arguments = fill(as_object(form.get("parameters")), answer)
            return ModelReply().with_calls(ToolCall(form["name"], compact(arguments)))
        except CannotFill as error:
            reasons.append(f"{form['name']}: {error}")
    if reasons and request.must_call:
        raise CannotFill("; ".join(reasons))
    if isinstance(asked, _SchemaFormat):
        return ModelReply(compact(fill(asked.json_schema.content, answer)))
    return ModelReply(compact(plain_form(answer)) if asked and asked.type == "json_object" else answer.text)


def completion(request: ChatRequest, reply: ModelReply, created: int, groq: bool) -> dict[str, Any]:
    """The whole reply, not streamed, with ids that derive from seed and messages, and estimated tokens.

    ``created`` is in seconds since the epoch; ``groq`` adds what only Groq sends.
    """
    messages, tools = request.sent("messages"), request.sent("tools")
    known = json.dumps([request.seed or 0, messages], sort_keys=True).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(known, digest_size=12).hexdigest()
    prefix = f"{OPENAI_CHAT.id_prefix}{digest[:16]}"
    calls = tuple(replace(call, id=f"{prefix}{index}") for index, call in enumerate(reply.calls))
    reply = replace(reply, calls=calls)
    body = OPENAI_CHAT.new_reply(f"chatcmpl-{digest}", request.model, created)
    usage = OPENAI_CHAT.usage(_tokens(messages, tools), _tokens(reply.as_json()))
    body |= {"system_fingerprint": "fp_scripted", "usage": usage}
    return OPENAI_CHAT.write_reply(body | ({"x_groq": {"id": f"req_{digest}"}} if groq else {}), reply)


def events(request: ChatRequest, body: dict[str, Any]) -> Iterator[bytes]:
    """A completion as an event stream; Groq sends the usage with the last chunk, OpenAI on request."""
    body = {**body}
    usage = body.pop("usage")
    if "x_groq" in body:
        body["x_groq"] = {**body["x_groq"], "usage": usage}
    if (request.stream_options or {}).get("include_usage"):
        body["usage"] = usage
    return OPENAI_CHAT.spread(body)


def _tokens(*parts: Any) -> int:
    """A stand-in for a tokenizer: one token for every four characters, rounded up."""
    return (len(json.dumps(parts)) + 3) // 4
