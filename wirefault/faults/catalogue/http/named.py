"""The named errors: plain ones at a tool, the provider's own form on the model link."""

from __future__ import annotations

from pydantic import Field

from wirefault.faults.base import Act, Fault, Try
from wirefault.faults.catalogue.errors import error_for
from wirefault.faults.catalogue.http.status import AnsweringFault


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
