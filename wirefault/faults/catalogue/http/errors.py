"""Error replies in the upstream's place: any status, named errors in the link's form, ``ERROR_PROB``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from wirefault.core.caller_errors import ERROR_KINDS, HTTP_ERRORS, ErrorKind, status_kind
from wirefault.core.identity import choose
from wirefault.dialects.base import NotInDialect, error_reply, typed_error
from wirefault.dialects.http import FRAMING, JSON_TYPE, Headers, Reply, dump_json
from wirefault.dialects.registry import DIALECTS
from wirefault.dialects.tool import TOOL
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.catalogue.errors import error_for, request_id


def _sendable(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[\r\n\0]", value):
            raise ValueError(f"invalid header {name!r}")
        if name.lower() in FRAMING:
            raise ValueError(f"{name} is derived from the body; use the faults truncate or hang")
    return headers


class AnsweringFault(Fault):
    """A fault that replies in the upstream's place."""

    executed: bool = Field(
        False, description="let the upstream execute the request first and discard its reply"
    )

    def answer_with(self, reply: Reply, **evidence: Any) -> Act:
        """Give this reply, after the upstream's has come if the request is ``executed``."""
        proof = {"status": reply.status, **evidence}
        if self.executed:
            return Act(reply=lambda upstream: Changed(reply, {**proof, "upstream_status": upstream.status}))
        return Act(answer=reply, evidence=proof)


class Status(AnsweringFault):
    """Return any status with any body and headers in the upstream's place.

    The request is not forwarded, unless ``executed``. The default body is an error in the link's form (a
    tool's, OpenAI's or Anthropic's); a text is sent unchanged, anything else as JSON. Most clients check
    only the status: from 400 on they report an error, below they use the body as the answer.
    """

    name = "status"
    family = "http"
    can_cause = HTTP_ERRORS | {"bad_reply"}

    status: int = Field(500, ge=200, le=599, description="HTTP status")
    body: Any = Field(None, description="text or JSON; default: an error in the link's form")
    headers: Annotated[Mapping[str, str], AfterValidator(_sendable)] = Field(
        default_factory=dict, description="additional headers"
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


class HttpError(Fault):
    """Return 500, 503 or 429 from a tool, drawn for each try, so that a retry can succeed.

    The request is not forwarded. ``ERROR_PROB`` arms this fault on every tool link.
    """

    name = "http_error"
    family = "http"
    where = "tool"
    chooses = True
    can_cause = frozenset({"http_429", "http_5xx"})

    chance: float = Field(0.1, ge=0, le=1, description="probability per try")
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
    """Returns the error of its name in the link's dialect."""

    family = "http"

    def act(self, tried: Try) -> Act | Miss:
        retry_after: float | None = getattr(self, "retry_after", None)
        try:
            return self.answer_with(error_for(tried, self.name, retry_after=retry_after), kind=self.name)
        except NotInDialect:
            return Miss("not_in_dialect")


class RateLimit(_NamedError):
    """Return 429 (too many requests) with Retry-After; on the model link with the provider's error body.

    The request is not forwarded. A client that retries should wait for the time in Retry-After.
    """

    name = "rate_limit"
    can_cause = frozenset({"http_429"})

    retry_after: float | None = Field(
        1.0, ge=0, le=3600, description="seconds in Retry-After (null: no header)"
    )


class Quota(_NamedError):
    """Report an exhausted quota: 429 insufficient_quota (OpenAI), 402 billing_error (Anthropic), 429 (tool).

    The request is not forwarded. It looks like a rate limit, but retries cannot succeed. Most clients retry
    anyway.
    """

    name = "quota"
    can_cause = frozenset({"http_429", "http_4xx"})


class AuthError(_NamedError):
    """Reject the API key: 401 (Gemini: 400).

    The request is not forwarded; a retry is pointless.
    """

    name = "auth_error"
    can_cause = frozenset({"http_4xx"})


class Forbidden(_NamedError):
    """Deny permission: 403. The request is not forwarded; a retry is pointless."""

    name = "forbidden"
    can_cause = frozenset({"http_4xx"})


class NotFoundError(_NamedError):
    """Return 404; on the model link for an unknown model.

    The request is not forwarded. An agent may take it for an answer ("unknown city").
    """

    name = "not_found"
    can_cause = frozenset({"http_4xx"})


class InternalServerError(_NamedError):
    """Return 500. The request is not forwarded, unless ``executed``.

    With ``executed`` the work is done before the error, and retrying a write executes it twice.
    """

    name = "server_error"
    can_cause = frozenset({"http_5xx"})


class BadGateway(_NamedError):
    """Return 502, as a proxy without upstream does; on the model link as a proxy's HTML page.

    The request is not forwarded, unless ``executed``.
    """

    name = "bad_gateway"
    can_cause = frozenset({"http_5xx"})


class Unavailable(_NamedError):
    """Return 503, optionally with Retry-After. The request is not forwarded."""

    name = "unavailable"
    can_cause = frozenset({"http_5xx"})

    retry_after: float | None = Field(
        None, ge=0, le=3600, description="seconds in Retry-After (null: no header)"
    )


class Overloaded(_NamedError):
    """Report overload: 529 overloaded_error (Anthropic), 503 elsewhere.

    The request is not forwarded. 529 is not a standard status: check whether your client retries it.
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
