"""status: any status, body and headers in the upstream's place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from wirefault.core.caller_errors import HTTP_ERRORS, ErrorKind, status_kind
from wirefault.core.identity import choose
from wirefault.dialects.base import error_reply, typed_error
from wirefault.dialects.http import FRAMING, JSON_TYPE, Headers, Reply, dump_json
from wirefault.dialects.registry import DIALECTS
from wirefault.dialects.tool import TOOL
from wirefault.faults.base import Act, Changed, Fault, Try
from wirefault.faults.catalogue.errors import error_for, request_id


def _sendable(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[\r\n\0]", value):
            raise ValueError(f"{name!r} cannot be sent as a header")
        if name.lower() in FRAMING:
            raise ValueError(f"{name} follows from the body; see the faults truncate and hang")
    return headers


class AnsweringFault(Fault):
    """Gives an answer of its own in the upstream's place."""

    executed: bool = Field(
        False, description="whether the upstream executes the request first; its reply is then thrown away"
    )

    def answer_with(self, reply: Reply, **evidence: Any) -> Act:
        """Gives this reply, after the upstream's has come if the request is ``executed``."""
        proof = {"status": reply.status, **evidence}
        if self.executed:
            return Act(reply=lambda upstream: Changed(reply, {**proof, "upstream_status": upstream.status}))
        return Act(answer=reply, evidence=proof)


class Status(AnsweringFault):
    """Any status with any body and headers, in the upstream's place.

    The request is not forwarded, unless ``executed``. Without a ``body`` it is an error in the link's own
    form (a tool's, OpenAI's or Anthropic's); a text is sent as it is, anything else as JSON. Most clients
    look at the status alone: from 400 on they report an error, below they take the body for an answer.
    """

    name = "status"
    family = "http"
    can_cause = HTTP_ERRORS | {"bad_reply"}

    status: int = Field(500, ge=200, le=599, description="the status")
    body: Any = Field(None, description="a text, or JSON; without it the link's own form of an error")
    headers: Annotated[Mapping[str, str], AfterValidator(_sendable)] = Field(
        default_factory=dict, description="headers to send with it"
    )

    @model_validator(mode="after")
    def _may_have_a_body(self) -> Status:
        if self.status in (204, 304) and self.body is not None:
            raise ValueError(f"a reply with status {self.status} has no body")
        return self

    @property
    def causes(self) -> frozenset[ErrorKind]:
        kind = status_kind(self.status)
        return frozenset({kind}) if kind else self.can_cause - HTTP_ERRORS

    def act(self, tried: Try) -> Act:
        return self.answer_with(self._reply(tried))

    def _reply(self, tried: Try) -> Reply:
        headers = tuple(self.headers.items())
        if self.status in (204, 304):
            return Reply(headers, b"", self.status)
        if self.body is None:
            words = _phrase(self.status)
            kind = words.lower().replace(" ", "_")
            error = typed_error(DIALECTS[tried.dialect], self.status, kind, words, id=request_id(tried))
            return Reply((*_without(error.headers, self.headers), *headers), error.body, self.status)
        usual, body = self._body(self.body)
        return Reply((*_without(usual, self.headers), *headers), body, self.status)

    @staticmethod
    def _body(value: Any) -> tuple[Headers, bytes]:
        if isinstance(value, str):
            return (("Content-Type", "text/plain; charset=utf-8"),), value.encode("utf-8", "replace")
        return JSON_TYPE, dump_json(value)


def _without(headers: Headers, given: Mapping[str, str]) -> Headers:
    names = {name.lower() for name in given}
    return tuple((name, value) for name, value in headers if name.lower() not in names)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"status {status}"


ERROR_KINDS: tuple[tuple[str, int], ...] = (("server_error", 500), ("unavailable", 503), ("rate_limit", 429))


class HttpError(Fault):
    """A tool answers 500, 503 or 429, drawn for each try, so that a retry can get past it (``ERROR_PROB``).

    The request is not forwarded. ``ERROR_PROB`` arms this fault on every tool link.
    """

    name = "http_error"
    family = "http"
    where = "tool"
    chooses = True
    can_cause = frozenset({"http_429", "http_5xx"})

    chance: float = Field(0.1, ge=0, le=1, description="chance per try")
    retry_after: float = Field(0.2, ge=0, le=60, description="seconds in Retry-After of a 429")

    def wants(self, chance: Callable[[str], float]) -> bool:
        return chance("error") < self.chance

    def act(self, tried: Try) -> Act | None:
        if not self.wants(tried.chance):
            return None
        kind, status = choose(tried.chance("error-kind"), ERROR_KINDS)
        retry_after = self.retry_after if status == 429 else None
        evidence = {"kind": kind, "status": status}
        return Act(answer=error_reply(TOOL, kind, retry_after=retry_after), evidence=evidence)


class _NamedError(AnsweringFault):
    """Answers with the error of its name in the link's dialect."""

    family = "http"

    def act(self, tried: Try) -> Act:
        retry_after: float | None = getattr(self, "retry_after", None)
        return self.answer_with(error_for(tried, self.name, retry_after=retry_after), kind=self.name)


class RateLimit(_NamedError):
    """Too many requests: 429 with Retry-After; the provider's own error body on the model link.

    The request is not forwarded. A client that retries should wait as long as Retry-After says.
    """

    name = "rate_limit"
    can_cause = frozenset({"http_429"})

    retry_after: float | None = Field(
        1.0, ge=0, le=3600, description="seconds in Retry-After (null: no such header)"
    )


class Quota(_NamedError):
    """The quota is used up: 429 insufficient_quota (OpenAI), 402 billing_error (Anthropic), 429 at a tool.

    The request is not forwarded. It looks like a rate limit, but no retry gets past it: most clients retry
    it all the same.
    """

    name = "quota"
    can_cause = frozenset({"http_429", "http_4xx"})


class AuthError(_NamedError):
    """The key is missing or not valid: 401 (Gemini: 400).

    The request is not forwarded; a retry is pointless.
    """

    name = "auth_error"
    can_cause = frozenset({"http_4xx"})


class Forbidden(_NamedError):
    """The key may not do that: 403. The request is not forwarded; a retry is pointless."""

    name = "forbidden"
    can_cause = frozenset({"http_4xx"})


class NotFoundError(_NamedError):
    """Nothing is found: 404; on the model link the model is unknown.

    The request is not forwarded. An agent may take it for an answer ("there is no such city").
    """

    name = "not_found"
    can_cause = frozenset({"http_4xx"})


class InternalServerError(_NamedError):
    """The server failed: 500. The request is not forwarded, unless ``executed``.

    With ``executed`` the work was done before the error: a client that retries a write does it twice.
    """

    name = "server_error"
    can_cause = frozenset({"http_5xx"})


class BadGateway(_NamedError):
    """A proxy before the server got no answer: 502; on the model link an HTML page, as proxies send.

    The request is not forwarded, unless ``executed``.
    """

    name = "bad_gateway"
    can_cause = frozenset({"http_5xx"})


class Unavailable(_NamedError):
    """The server is not available now: 503, with Retry-After if asked for. The request is not forwarded."""

    name = "unavailable"
    can_cause = frozenset({"http_5xx"})

    retry_after: float | None = Field(
        None, ge=0, le=3600, description="seconds in Retry-After (null: no such header)"
    )


class Overloaded(_NamedError):
    """The server has too much to do: 529 overloaded_error (Anthropic), 503 elsewhere.

    The request is not forwarded. 529 is no standard status: check whether your client retries it.
    """

    name = "overloaded"
    can_cause = frozenset({"http_5xx"})


NAMED_ERRORS: tuple[type[Fault], ...] = (
    RateLimit,
    Quota,
    AuthError,
    Forbidden,
    NotFoundError,
    InternalServerError,
    BadGateway,
    Unavailable,
    Overloaded,
)
