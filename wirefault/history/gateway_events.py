"""Events of the gateway: requests, the faults that they met, and budgets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from wirefault.core.caller_errors import ErrorKind
from wirefault.dialects.mcp import ToolAnswer
from wirefault.faults.base import BUDGET_ID, WhyNot
from wirefault.history.lines import BaseEvent, Clock, Record
from wirefault.settings.budgets import OF_SUBJECT

# ``Exchange.error`` if a client starts TLS on a plain HTTP link
TLS_ON_PLAIN = "a TLS handshake, but this address speaks plain HTTP: use http://"


# headers by which a client decides what to do next
GUIDING_HEADERS = ("Retry-After", "Retry-After-Ms", "X-Should-Retry", "Location")


# ... and all headers that the record of a faulted reply keeps
KEPT_HEADERS = (
    *GUIDING_HEADERS,
    *("Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding"),
)


# the lab's model link; the lab's agent, which records ``ModelCall``, has no other
LAB_MODEL = "model"


class FaultMet(Record, frozen=True):
    """A fault that one request met, and its effect."""

    id: str  # id of the fault set's entry; empty for ERROR_PROB, ``budget:NAME`` for a budget
    kind: str
    injected: bool
    why_not: WhyNot | None = None  # why it was not injected
    detail: str = ""  # type of the exception if it failed
    delay_ms: Clock = 0.0  # the added delay, measured
    # Its signature on the caller's side if delivered: ``status`` and ``digest`` of the body, ``lost``,
    # ``closed`` (connection closed), ``left`` (the caller left first), ``delay_ms``; None if it has none.
    shows: dict[str, Any] | None = None
    evidence: dict[str, Any] = {}
    content: bool = False  # the caller received a body that the upstream did not send to this request
    causes: list[ErrorKind] = []  # errors of a try that it can cause
    acted_ms: Clock | None = None  # when it began to act, from the first byte of the request
    answered: bool | None = None  # whether the upstream answered the changed or repeated request

    @property
    def of_budget(self) -> bool:
        """Return whether a budget caused it, instead of a fault set."""
        return self.id.startswith(BUDGET_ID)


class FaultedReply(Record, frozen=True):
    """Both sides of a reply that a fault or a toxic changed.

    Each body is cut to its first 4 KiB, as text without secrets. The exchange has the statuses:
    ``answered`` and ``status``.
    """

    upstream_reply: str | None = None  # None if the upstream was not asked or began no reply
    observed: str | None = None  # received by the client; None if it received none
    upstream_reply_cut: bool = False  # longer, or not text
    observed_cut: bool = False
    # The attempt has a toxic between gateway and client: ``observed`` was sent, and only the client's record
    # shows what arrived.
    toxic: bool = False
    # each side's headers of ``KEPT_HEADERS``
    upstream_headers: dict[str, str] = {}
    observed_headers: dict[str, str] = {}


class ShadowMet(Record, frozen=True):
    """A fault that a request of the control would have met in another ``arm``.

    It was not injected, and explains no error.
    """

    arm: str
    id: str
    kind: str


class Exchange(BaseEvent, frozen=True, tag="exchange"):
    """One request, from the gateway's view. Values that the request or the reply does not have are None."""

    start: Clock
    episode: str
    attempt: int
    link: str
    method: str
    target: str
    call: int
    # from the first byte of the request to the last byte of the reply, or to the end without a reply
    ms: Clock
    # status and sizes on the client's side
    status: int | None
    request_bytes: int
    reply_bytes: int
    fingerprint: str = ""
    try_: int = 1
    # baggage: the request named its attempt; counted: the gateway counted arrivals; late: it proved to be of
    # this earlier attempt (`late_request` has the one in progress)
    identity: Literal["baggage", "counted", "late"] = "baggage"
    request_complete: bool = True
    reply_complete: bool = True
    # whether the upstream received the whole request
    forwarded: bool = True
    # in the fault set's order
    faults: list[FaultMet] = []
    # number of the fault set
    configuration: int = 0
    error: str | None = None
    # ids of armed faults that select this request by header, body or message, whether or not it met them
    eligible: list[str] = []
    # a function of the subject that sends requests, or may: faults that do not name it act on these requests
    left_to_requests: bool = False
    # The upstream could not be reached or failed without a fault of ours (5xx, a reply that broke off, an
    # error in a 200); ``outage`` or ``error`` may say more.
    unavailable: bool = False
    # the reply's evidence for ``unavailable``: "it answered 503", "it answered 200 with an error: ..."
    outage: str = ""
    # the client left before its reply was complete
    client_left: bool = False
    # time until the client left; the exchange lasts until the upstream answered
    left_ms: Clock = 0.0
    dialect: str = ""
    # the wiring declares the call as a write, or the subject marks its function as one
    write: bool = False
    # identifies a repetition to the upstream: (X-)Idempotency-Key, or the field that the wiring names
    key: str = ""
    # digest of the client's authorisation
    credential: str = ""
    # product and version of the client, as it names itself (User-Agent); of a request that met a fault
    client: str = ""
    # W3C trace context that the subject's client sent; empty for the lab's agent, whose context follows from
    # its identity
    traceparent: str = ""
    # digest of the MCP session
    session: str = ""
    # seconds, of the reply's Retry-After
    retry_after: Clock | None = None
    # number of earlier sends, according to the client's SDK
    sdk_retry: int | None = None
    # First part of the bodies on the client's side, without secrets; None if not kept, only the length if
    # not text.
    request_body: str | None = None
    reply_body: str | None = None
    request_cut: bool = False
    reply_cut: bool = False
    # method of the MCP message
    message: str = ""
    # MCP tool that it called
    tool: str = ""
    # the header X-Amz-Target, by which AWS names the operation
    operation: str = ""
    # How the server answered that call before any fault: by a result or an error (of the tool or the
    # protocol); empty if no whole answer was seen or it cannot be read.
    tool_answer: ToolAnswer = ""
    # set if the client received another status, or none
    upstream_status: int | None = None
    # name and usage in a model's reply as the upstream sent it
    model: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    # of a stream: from the last byte of the request until the client got the first text or tool call
    first_token_ms: Clock | None = None
    # fresh: first request of a TLS connection, whose handshake crossed the toxics, too; kept: a later one
    tls: Literal["", "fresh", "kept"] = ""
    # time from the opening of its connection, or from the call of a function, to its first byte; None if an
    # earlier request came on that connection
    opened_ms: Clock | None = None
    # time until the request was complete, if 10 ms or more
    request_ms: Clock = 0.0
    # set for a reply that a fault changed, or that passed a toxic
    faulted_reply: FaultedReply | None = None
    # hit: a recorded reply of an audit's clean run replaced the model's; miss: none fitted
    replay: Literal["", "hit", "miss"] = ""
    # messages of the WebSocket connection that it opened
    client_messages: int = 0
    server_messages: int = 0
    # codes of the close frames that client and server sent
    client_close: int | None = None
    server_close: int | None = None
    # why its bytes could not be read as messages
    unread_messages: str = ""
    # faults of other arms that the request would have met there
    shadows: list[ShadowMet] = []

    @property
    def answered(self) -> int | None:
        """Return the upstream's status, even if the client received another one; None if unknown."""
        if not self.forwarded:
            return None
        return self.status if self.upstream_status is None else self.upstream_status

    @property
    def of_model(self) -> bool:
        """Return whether it called a model. Links of tools and services speak plain HTTP or MCP."""
        return self.dialect not in ("http", "mcp") if self.dialect else self.link == LAB_MODEL

    @property
    def tokens(self) -> int | None:
        """The tokens in and out that the model's reply reports; None if it reports neither."""
        if self.tokens_in is None:
            return self.tokens_out
        return self.tokens_in + (self.tokens_out or 0)


class SocketMessage(BaseEvent, frozen=True, tag="socket_message"):
    """A message of a WebSocket connection, which its request opened; the first 1000 are recorded."""

    t: Clock
    episode: str
    attempt: int
    link: str
    call: int  # of the request
    sender: Literal["client", "server"]
    number: int  # among its sender's messages; 0 for a message that a fault made
    kind: str  # text or binary
    size: int  # bytes
    type: str = ""  # of JSON
    # injected: made by a fault; replaced: an error event came in its place
    fate: Literal["passed", "delayed", "dropped", "replaced", "cut", "injected"] = "passed"
    fault: str = ""  # id of the fault that acted on it
    text: str | None = None  # its start, without secrets


class LateRequest(BaseEvent, frozen=True, tag="late_request"):
    """A request of an earlier attempt met this attempt's faults. Its exchange is in the earlier attempt."""

    t: Clock
    episode: str
    attempt: int
    link: str
    late_episode: str
    late_attempt: int
    wrote: bool  # it is a write, and the upstream did not refuse it


class FaultsSet(BaseEvent, frozen=True, tag="faults_set"):
    """A fault set replaced the previous one, starting with the next request of this attempt."""

    t: Clock
    episode: str
    attempt: int
    number: int  # of the lab's configuration; each exchange has the number that applied to it
    faults: str
    entries: list[str]  # ids of its faults and toxics


class BudgetWarned(BaseEvent, frozen=True, tag="budget_warned"):
    """A budget's use reached its ``warn_at``. Recorded once per account.

    A ``run`` budget has one account for all episodes; ``episode`` is the episode that reached it.
    """

    t: Clock
    episode: str
    attempt: int
    budget: str  # its place, such as ``episode.tokens``
    used: Clock  # in the budget's unit, like ``limit``
    limit: Clock

    @property
    def of_subject(self) -> bool:
        """Return whether the runner recorded it."""
        return self.budget in OF_SUBJECT


class BudgetSpent(BaseEvent, frozen=True, tag="budget_spent"):
    """A request needed more than a budget's remainder. Recorded once per episode; exchanges show refusals."""

    t: Clock
    episode: str
    attempt: int
    budget: str
    used: Clock
    limit: Clock
    ends: bool = False  # it ends the episode as ``runaway``

    @property
    def of_subject(self) -> bool:
        """Return whether the runner recorded it."""
        return self.budget in OF_SUBJECT


class BudgetUnknown(BaseEvent, frozen=True, tag="budget_unknown"):
    """From now on a budget's count may be too low. Recorded once per episode and reason."""

    t: Clock
    episode: str
    attempt: int
    budget: str
    why: Literal["no_usage", "no_price", "no_memory"]  # tokens not in a reply, no price, memory unreadable
    model: str = ""  # model of the reply

    @property
    def of_subject(self) -> bool:
        """Return whether the runner recorded it."""
        return self.budget in OF_SUBJECT


WhyNotIntercepted = Literal[
    "authority_refused",
    "closed_at_certificate",
    "http2_only",
    "upstream_untrusted",
    "upstream_refused",
]


# errors of verification if the authority is unknown; only against these a file of authorities helps
_UNKNOWN_ISSUER = re.compile("self.signed|issuer cert|first certificate|unknown ca", re.IGNORECASE)


_NAME_AUTHORITY = "name its authority in a file (SSL_CERT_FILE=ca.pem wirefault ...), or "


_CLIENT_TRUSTS_OTHERS = (
    "as one with compiled-in roots, a pinned key or its own authority does: let it pass (--pass {host}), give"
    " it the link's address in a wiring, or make it trust the lab's authority (the file that SSL_CERT_FILE"
    " names in its environment; for PHP an ini file with curl.cainfo=${SSL_CERT_FILE} and"
    " openssl.cafile=${SSL_CERT_FILE})"
)


_WHY_NOT_INTERCEPTED: Mapping[WhyNotIntercepted, str] = {
    "authority_refused": f"the client refused the lab's certificate, {_CLIENT_TRUSTS_OTHERS}",
    "closed_at_certificate": (
        "the client closed the connection after the lab's certificate, without any request, "
        f"{_CLIENT_TRUSTS_OTHERS}"
    ),
    "http2_only": (
        "the client speaks only HTTP/2, and the lab's own servers and cassettes speak HTTP/1.1: make it"
        " speak that, too"
    ),
    "upstream_untrusted": (
        "the lab does not trust the server's certificate, which the client may not check: {authority}let it"
        " pass (--pass {host})"
    ),
    "upstream_refused": (
        "the server refused the lab's TLS, as one does that asks for the client's certificate: let it pass"
        " (--pass {host})"
    ),
}


class ConnectionUnanswered(BaseEvent, frozen=True, tag="connection_unanswered"):
    """A plain connection on a link that may have a toxic, which ended without a request, or within one."""

    t: Clock
    episode: str
    attempt: int
    link: str
    ms: Clock  # from its opening at the gateway
    received: int  # bytes from the client, those of answered requests included
    how: Literal["fin", "rst", "open"]  # open: the gateway ended it


class InterceptionFailed(BaseEvent, frozen=True, tag="interception_failed"):
    """The lab could not intercept the subject's connection to ``host``: a failure of the lab."""

    t: Clock
    episode: str
    attempt: int
    link: str
    host: str
    why: WhyNotIntercepted
    detail: str = ""  # the TLS error

    @property
    def text(self) -> str:
        """Return what happened and what helps, as a sentence."""
        detail = f" ({self.detail})" if self.detail else ""
        authority = _NAME_AUTHORITY if _UNKNOWN_ISSUER.search(self.detail) else ""
        why = _WHY_NOT_INTERCEPTED[self.why].replace("{host}", self.host).replace("{authority}", authority)
        return f"{self.host} cannot be intercepted{detail}: {why}"
