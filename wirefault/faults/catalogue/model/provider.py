"""Errors specific to model providers, in the provider's form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, model_validator

from wirefault.core.caller_errors import CLOSED, NOTHING, TIMEOUT, ErrorKind
from wirefault.dialects.base import (
    HidesCutCalls,
    ModelDialect,
    ModelReply,
    ModelRequest,
    NotInDialect,
    reply_body,
)
from wirefault.dialects.http import Reply, ReplyInPieces
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.dialects.token_usage import output_limit, read_usage, with_output_tokens
from wirefault.faults.base import HANG_LIMIT_S, Act, Changed, Fault, HangLimit, Miss, Try, evidence_of
from wirefault.faults.catalogue.errors import error_for
from wirefault.faults.catalogue.model.content import ContentFault

_CHARACTERS_PER_TOKEN = 4


class ApiTimeout(Fault):
    """Accept the request and never reply, until the client gives up, or for 65 s.

    The request is not forwarded. Most clients with a timeout retry. Of one that still waits after 65 s
    (``limit``), the gateway closes the connection. With ``at_least`` each try draws its limit between the
    two.
    """

    name = "api_timeout"
    family = "model"
    where = "model"
    can_cause = TIMEOUT | CLOSED

    limit: HangLimit = HANG_LIMIT_S
    at_least: float | None = Field(
        None, gt=0, description="seconds; each try's limit is drawn between these and `limit`, evenly"
    )

    @property
    def hang_s(self) -> float:
        return self.limit

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return self.can_cause if self.limit else TIMEOUT

    @model_validator(mode="after")
    def _in_order(self) -> ApiTimeout:
        if self.at_least is not None and self.at_least > self.limit:
            raise ValueError(f"at_least must be at most limit, which is {self.limit:g}")
        return self

    def act(self, tried: Try) -> Act:
        if self.at_least is None:
            return Act(answer=ReplyInPieces(ending="hang"))
        drawn = round(self.at_least + (self.limit - self.at_least) * tried.chance("limit"), 3)
        return Act(answer=ReplyInPieces(ending="hang"), hang_s=drawn, evidence={"hang_s": drawn})


class ContextLength(Fault):
    """Refuse the request as too long for the model: 400; a retry is pointless.

    ``context_length_exceeded`` in chat completions, ``prompt is too long`` from Anthropic. The request is not
    forwarded. With ``limit`` only longer requests are refused, as when a conversation has grown too long; a
    token is estimated as four bytes of the request.
    """

    name = "context_length"
    family = "model"
    where = "model"
    needs_body = True
    chooses = True
    can_cause = frozenset({"http_4xx"})

    limit: int | None = Field(None, ge=1, description="token limit; default: refuse every request")

    def act(self, tried: Try) -> Act | Miss | None:
        if tried.dialect not in MODEL_DIALECTS:
            return Miss("unreadable")
        tokens = len(tried.request.body) // _CHARACTERS_PER_TOKEN + 1
        if self.limit is not None and tokens <= self.limit:
            return None
        limit = self.limit or max(1, tokens // 2)
        try:
            refusal = error_for(tried, self.name, tokens=tokens, limit=limit)
        except NotInDialect:
            return Miss("not_in_dialect")
        return Act(answer=refusal, evidence={"status": refusal.status, "tokens": tokens, "limit": limit})


class ToolUseFailed(Fault):
    """Refuse the model's output because of an unreadable tool call.

    Groq's 400 with ``tool_use_failed``: ``failed_generation`` holds the reply's tool calls in the malformed
    form that models produce, or its text. Anthropic's and Gemini's APIs lack this error; there it is an
    ``invalid_request_error`` or ``INVALID_ARGUMENT`` with the same message. Requests without tools pass.
    """

    name = "tool_use_failed"
    family = "model"
    where = "model"
    needs_body = True
    can_cause = frozenset({"http_4xx"})

    def act(self, tried: Try) -> Act | Miss:
        return Act(reply=lambda reply: self._refused(reply, tried))

    def _refused(self, reply: Reply, tried: Try) -> Changed | Miss:
        dialect = MODEL_DIALECTS.get(tried.dialect)
        if reply.status >= 300:
            return Miss("upstream_failed")
        if dialect is None:
            return Miss("unreadable")
        if not dialect.read_request(tried.request).tools:
            return Miss("nothing_to_change")
        try:
            generation = _as_written(dialect.read_reply(reply_body(dialect, reply)))
            refusal = error_for(tried, self.name, failed_generation=generation)
        except NotInDialect:
            return Miss("not_in_dialect")
        except ValueError:
            return Miss("unreadable")
        return Changed(refusal, {"status": refusal.status, "failed_generation": evidence_of(generation)})


def _as_written(reply: ModelReply) -> str:
    """The tool calls in the malformed form that models produce; without tool calls the text."""
    calls = "\n".join(f"<function={call.name}>{call.arguments}</function>" for call in reply.calls)
    return calls or reply.text


class ContentFilter(ContentFault):
    """Stop the answer or refuse the request by the provider's content filter.

    ``finish``: the answer is cut off, its tool calls are dropped, and the finish reason is
    ``content_filter`` (Anthropic: ``refusal``, Gemini: ``SAFETY``, the Responses API: the status
    ``incomplete`` with that reason), which many clients never check. ``error``: a 400, and the request is not
    forwarded; Gemini returns a 200 with a block reason and no candidate. Ollama has no filter: not in this
    dialect.
    """

    name = "content_filter"
    can_cause = frozenset({"http_4xx"})

    form: Literal["finish", "error"] = Field("finish", description="cut off the answer, or return an error")
    fraction: float = Field(0.5, ge=0, le=1, description="share of the text that is kept (finish)")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return self.can_cause if self.form == "error" else NOTHING

    def act(self, tried: Try) -> Act | Miss:
        if self.form == "finish" or tried.dialect not in MODEL_DIALECTS:
            return super().act(tried)
        try:
            refusal = error_for(tried, self.name)
        except NotInDialect:
            return Miss("not_in_dialect")
        return Act(answer=refusal, evidence={"status": refusal.status})

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        left = reply.text[: int(len(reply.text) * self.fraction)]
        return replace(reply, text=left, calls=(), finish="content_filter")


class TokenLimit(ContentFault):
    """End the reply by the token limit, in its text or inside its last tool call.

    The finish reason is ``length`` (Anthropic and Bedrock: ``max_tokens``, Gemini: ``MAX_TOKENS``, the
    Responses API: the status ``incomplete`` with ``max_output_tokens``). The usage has as many output tokens
    as the request allows; if the request names no limit, its count shrinks with the reply. A tool call breaks
    off inside its arguments; outside streams, Anthropic and Bedrock send empty arguments. Gemini and Ollama
    leave the call out. A client that does not check the reason takes half an answer for a whole one, or makes
    a call without some of its arguments.
    """

    name = "token_limit"

    at: Literal["text", "call"] | None = Field(
        None, description="the part that the limit ends; default: the last tool call, without one the text"
    )
    fraction: float = Field(0.5, ge=0, lt=1, description="share that is kept of the text or the arguments")

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        at = self.at or ("call" if reply.calls else "text")
        if at == "text":
            left = self._left(reply.text)
            return replace(reply, text=left, calls=(), finish="length") if reply.text else None
        if not reply.calls:
            return None
        *whole, last = reply.calls
        cut = replace(last, arguments=self._left(last.arguments))
        return replace(reply, calls=(*whole, cut), finish="length")

    def written(
        self, dialect: ModelDialect, body: dict[str, Any], changed: ModelReply, tried: Try, *, stream: bool
    ) -> dict[str, Any]:
        before = _length(dialect.read_reply(body))
        kept = _length(changed) / before if before else 0.0
        if changed.calls and isinstance(dialect, HidesCutCalls):
            last = dialect.cut_call(changed.calls[-1], stream=stream)
            changed = replace(changed, calls=(*changed.calls[:-1], *([last] if last else [])))
        used = read_usage(body).tokens_out or 0
        tokens = output_limit(tried.request.json_object()) or max(1, int(used * kept))
        return with_output_tokens(dialect.write_reply(body, changed), tokens)

    def _left(self, text: str) -> str:
        return text[: int(len(text) * self.fraction)]


def _length(reply: ModelReply) -> int:
    """The characters of its text and its calls."""
    return len(reply.text) + sum(len(call.name) + len(call.arguments) for call in reply.calls)
