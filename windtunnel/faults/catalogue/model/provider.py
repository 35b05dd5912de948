"""Errors that only a model's provider gives, in the provider's own form."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from windtunnel.dialects.errors import typed_error
from windtunnel.dialects.http import RawReply, Reply
from windtunnel.dialects.model_messages import ModelReply, ModelRequest
from windtunnel.faults.base import Act, Changed, Fault, Miss, Try, kept
from windtunnel.faults.catalogue.errors import request_id
from windtunnel.faults.catalogue.model.content import APIS, ContentFault, whole_body

_INVALID = "invalid_request_error"
_CHARACTERS_PER_TOKEN = 4


class ApiTimeout(Fault):
    """The API takes the request and never answers: the client waits until it gives up.

    The request is not forwarded. A client without a timeout waits for ever; with one, most ask again.
    """

    name = "api_timeout"
    family = "model"
    where = "model"

    def act(self, this: Try) -> Act:
        return Act(answer=RawReply((), "hang"))


class ContextLength(Fault):
    """The API refuses the request as too long for the model: 400, and no retry helps.

    ``context_length_exceeded`` in chat completions, ``prompt is too long`` in Anthropic's form. The request
    is not forwarded. With ``limit`` only longer requests are refused, so that an agent meets it when its
    conversation has grown; tokens are estimated at four bytes of the request each.
    """

    name = "context_length"
    family = "model"
    where = "model"
    needs_body = True
    chooses = True

    limit: int | None = Field(None, ge=1, description="tokens that the model takes; without it, any refusal")

    def act(self, this: Try) -> Act | None:
        tokens = len(this.request.body) // _CHARACTERS_PER_TOKEN + 1
        if self.limit is not None and tokens <= self.limit:
            return None
        limit = self.limit or max(1, tokens // 2)
        evidence = {"status": 400, "tokens": tokens, "limit": limit}
        return Act(answer=self._refusal(this, tokens, limit), evidence=evidence)

    def _refusal(self, this: Try, tokens: int, limit: int) -> Reply:
        id = request_id(this)
        if this.dialect == "anthropic":
            message = f"prompt is too long: {tokens} tokens > {limit} maximum"
            return typed_error("anthropic", 400, _INVALID, message, id=id)
        message = (
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in "
            f"{tokens} tokens. Please reduce the length of the messages."
        )
        return typed_error(this.dialect, 400, _INVALID, message, code="context_length_exceeded", id=id)


class ToolUseFailed(Fault):
    """The API refuses what the model made, since it could not read a tool call in it.

    Groq's 400 with ``tool_use_failed``: ``failed_generation`` holds the reply's own tool calls as models
    write them when they miss the form, or its text. Anthropic's API has no such error; there it is an
    ``invalid_request_error`` that says the same. A request that offers no tool is left alone.
    """

    name = "tool_use_failed"
    family = "model"
    where = "model"
    needs_body = True

    def act(self, this: Try) -> Act | Miss:
        return Act(reply=lambda reply: self._refused(reply, this))

    def _refused(self, reply: Reply, this: Try) -> Changed | Miss:
        api = APIS.get(this.dialect)
        if reply.status >= 300:
            return Miss("upstream_failed")
        if api is None:
            return Miss("unreadable")
        if not api.talk(this.request).tools:
            return Miss("nothing_to_change")
        try:
            said = api.read(whole_body(api, reply))
        except ValueError:
            return Miss("unreadable")
        generation = _as_written(said)
        return Changed(_tool_error(this, generation), {"status": 400, "failed_generation": kept(generation)})


def _as_written(said: ModelReply) -> str:
    """Tool calls as a model writes them when it misses the API's form; without any, the text."""
    calls = "\n".join(f"<function={call.name}>{call.arguments}</function>" for call in said.calls)
    return calls or said.text


def _tool_error(this: Try, generation: str) -> Reply:
    message = (
        "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
    )
    if this.dialect == "anthropic":
        return typed_error("anthropic", 400, _INVALID, f"{message} {generation}", id=request_id(this))
    return typed_error(
        this.dialect,
        400,
        _INVALID,
        message,
        code="tool_use_failed",
        id=request_id(this),
        failed_generation=generation,
    )


class ContentFilter(ContentFault):
    """The provider's filter stops the model's answer, or refuses the request.

    ``finish``: the answer breaks off, its tool calls are dropped, and the finish reason is
    ``content_filter`` (Anthropic: ``refusal``), which many clients never look at. ``error``: a 400, and
    the request is not forwarded.
    """

    name = "content_filter"

    form: Literal["finish", "error"] = Field("finish", description="what the client gets")
    fraction: float = Field(0.5, ge=0, le=1, description="for finish: share of the text that is left")

    def act(self, this: Try) -> Act | Miss:
        if self.form == "finish":
            return super().act(this)
        message = "The response was filtered because the prompt triggered the content management policy."
        reply = typed_error(this.dialect, 400, _INVALID, message, code="content_filter", id=request_id(this))
        return Act(answer=reply, evidence={"status": 400})

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        left = said.text[: int(len(said.text) * self.fraction)]
        return replace(said, text=left, calls=(), finish="content_filter")
