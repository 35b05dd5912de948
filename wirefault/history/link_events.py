"""What the gateway records: each request that came to it, and the faults that it met."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from wirefault.core.caller_errors import ErrorKind
from wirefault.core.sockets import Address
from wirefault.dialects.mcp import ToolAnswer
from wirefault.faults.base import BUDGET_ID, WhyNot
from wirefault.history.lines import usually
from wirefault.settings.budgets import OF_SUBJECT
from wirefault.toxiproxy.planned import PlannedToxic

# the link of the lab's model: ``ModelCall`` is of the lab's own agent, which has no other
LAB_MODEL = "model"


@dataclass(frozen=True)
class FaultMet:
    """A fault that one request has met, and what became of it.

    ``id`` is its entry's in the fault set, empty for ``ERROR_PROB``, ``budget:`` and the budget's name for
    what a budget did. ``why_not``: why it was not injected;
    ``detail``: of one that failed, the exception's type. ``delay_ms``: what it really added, as measured.
    ``shows``: what the caller must have seen if it was delivered (``status`` and ``digest`` of the body,
    ``lost``, ``closed`` if the connection was closed on it, ``left`` if it left in the midst, ``delay_ms``);
    None if it cannot see it.
    ``content``: the caller got a body that the upstream did not give to this request. ``causes``: the errors
    of a try that it can lead to; None in the history of a version that did not know. ``acted_ms``: when it
    began to act, in ms from the request's first byte. ``answered``, of a fault that changes or repeats the
    request: whether the upstream answered what became of it.
    """

    id: str
    kind: str
    injected: bool
    why_not: WhyNot | None = None
    detail: str = ""
    delay_ms: float = 0.0
    shows: dict[str, Any] | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    content: bool = False
    causes: list[ErrorKind] | None = None
    acted_ms: float | None = None
    answered: bool | None = None

    @property
    def of_budget(self) -> bool:
        """Whether a budget did it, and no fault of a set."""
        return self.id.startswith(BUDGET_ID)


@dataclass(frozen=True)
class StruckReply:
    """A reply that a fault or a toxic struck: ``natural`` is what the upstream said, ``observed`` what the
    client got.

    Each is the first 4 KiB of the body as text, without secrets; ``*_cut``: there was more, or it is no text.
    ``natural`` is None where the upstream was not asked or began no reply, ``observed`` where the client got
    none. The statuses are the exchange's own: ``answered`` and ``status``. ``toxic``: the attempt has a toxic
    between the gateway and the client, so that ``observed`` is what set out to it; what arrived is in the
    client's own record.
    """

    natural: str | None = None
    observed: str | None = None
    upstream_reply_cut: bool = False
    observed_cut: bool = False
    toxic: bool = False


@dataclass(frozen=True)
class ShadowMet:
    """A fault of another ``arm`` that a request of the control would have met: ``id`` and ``kind`` as there.

    Nothing came of it: it was not delivered, and explains no error.
    """

    arm: str
    id: str
    kind: str


@dataclass(frozen=True)
class Exchange:
    """One request as the gateway saw it; ``ms`` from its first request byte to its last reply byte.

    Where it got no reply, ``ms`` is to its end.

    ``identity``: ``baggage`` if the request named itself, ``counted`` if the gateway counted arrivals,
    ``mismatch`` if what it said was not the lane's attempt. ``forwarded`` tells whether the upstream got
    the whole request. ``status`` and the sizes are those of what crossed the client's side. ``faults`` are
    those that it has met, in the order of their set; ``configuration`` is the number of that set.
    ``eligible``: the ids of armed faults whose selectors chose it by a header, its body or its message,
    met or not.
    ``unavailable``: its upstream could not be reached or failed by itself (a 5xx, a reply that broke off),
    and no fault of the gateway's on it is why; ``error`` may say more.
    ``client_left``: the client was gone before its reply was complete.
    ``message``: the method of the message of MCP that the request carried, ``tool`` the tool that it called.
    ``tool_answer``: how the server itself answered that call, before any fault changed it: by a result, or by
    an error (of the tool or of the protocol); empty where no whole answer was seen, or it cannot be read.

    ``dialect``: what was spoken, on a link that was found as this request told it; empty in the history of a
    version that did not know. ``write``: the
    wiring declares the call as one that changes state. ``key``: by which its upstream knows a repetition
    (Idempotency-Key, or the field that the wiring names). ``credential``: a digest of what the client
    authorised itself with. ``retry_after``: the seconds of the reply's Retry-After. ``sdk_retry``: how often
    the client's SDK says that it sent the request before. ``request_body`` and ``reply_body``: their first
    part as it crossed the client's side, without secrets; None where none is kept, and cut off where
    ``request_cut`` or ``reply_cut`` says so; of one that is no text only its length is said, as one cut off.
    ``upstream_status``: what the upstream answered, where the client got another status or none.
    Of a model's reply: ``model`` is its name there, ``tokens_in`` and ``tokens_out`` are its usage as the
    upstream sent it. ``first_token_ms``, of a stream: from the request's last byte until the event with the
    first text or tool call went out to the client. What the reply does not tell is None.
    ``tls``: ``fresh`` for the first request of a TLS connection, whose handshake crossed the link's toxics,
    too; ``kept`` for a later one; empty without TLS. ``request_ms``: until its request was whole, where that
    took 10 ms or more, else 0. ``struck``: both sides of a reply that a fault acted on, or that had a toxic
    before it; None for any other.
    ``shadows``: the faults of other arms that it would have met there.
    """

    start: float
    episode: str
    attempt: int
    link: str
    method: str
    target: str
    fingerprint: Annotated[str, usually("")]
    call: int
    try_: Annotated[int, usually(1)]
    identity: Annotated[Literal["baggage", "counted", "mismatch"], usually("baggage")]
    ms: float
    status: int | None
    request_complete: Annotated[bool, usually(True)]
    reply_complete: Annotated[bool, usually(True)]
    forwarded: Annotated[bool, usually(True)]
    request_bytes: int
    reply_bytes: int
    faults: list[FaultMet] = field(default_factory=list)
    configuration: int = 0
    error: str | None = None
    eligible: list[str] = field(default_factory=list)
    unavailable: bool = False
    client_left: bool = False
    dialect: str = ""
    write: bool = False
    key: str = ""
    credential: str = ""
    retry_after: float | None = None
    sdk_retry: int | None = None
    request_body: str | None = None
    reply_body: str | None = None
    request_cut: bool = False
    reply_cut: bool = False
    message: str = ""
    tool: str = ""
    tool_answer: ToolAnswer = ""
    upstream_status: int | None = None
    model: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    first_token_ms: float | None = None
    tls: Literal["", "fresh", "kept"] = ""
    request_ms: float = 0.0
    struck: StruckReply | None = None
    shadows: list[ShadowMet] = field(default_factory=list)
    event: Literal["exchange"] = "exchange"

    @property
    def answered(self) -> int | None:
        """The status that the upstream itself answered, whatever the client got; None if none is known."""
        if not self.forwarded:
            return None
        return self.status if self.upstream_status is None else self.upstream_status

    @property
    def of_model(self) -> bool:
        """Whether a model was asked: a tool's or a service's link speaks plain HTTP, or MCP."""
        return self.dialect not in ("http", "mcp") if self.dialect else self.link == LAB_MODEL


@dataclass(frozen=True)
class FaultsSet:
    """A fault set took the place of the one before, from the next request of this attempt on.

    ``number`` counts the configurations of the lab; exchanges name the one that they were decided under.
    ``entries``: the ids of the set's faults and toxics.
    """

    t: float
    episode: str
    attempt: int
    number: int
    faults: str
    entries: list[str]
    event: Literal["faults_set"] = "faults_set"


@dataclass(frozen=True)
class BudgetWarned:
    """So much of a budget is used up that a warning was asked for (``warn_at``), once for each account.

    ``budget``: its place, as ``episode.tokens``; ``used`` and ``limit`` in its own unit. The account of a
    ``run`` budget is one for all its episodes; then ``episode`` is the one in which that was seen.
    """

    t: float
    episode: str
    attempt: int
    budget: str
    used: float
    limit: float
    event: Literal["budget_warned"] = "budget_warned"

    @property
    def of_subject(self) -> bool:
        """Whether the runner recorded it."""
        return self.budget in OF_SUBJECT


@dataclass(frozen=True)
class BudgetSpent:
    """A budget is used up and was asked for more, told once in an episode: what it has refused is in the
    exchanges. ``ends``: the episode is to end by it, as ``runaway``. Fields as of ``BudgetWarned``."""

    t: float
    episode: str
    attempt: int
    budget: str
    used: float
    limit: float
    ends: bool = False
    event: Literal["budget_spent"] = "budget_spent"

    @property
    def of_subject(self) -> bool:
        """Whether the runner recorded it."""
        return self.budget in OF_SUBJECT


@dataclass(frozen=True)
class BudgetUnknown:
    """How much of a budget is used up cannot be known from now on, so that more may be than was counted.

    ``why``: a reply did not tell its tokens, its model has no price, or the memory cannot be read; told once
    in an episode for each. ``model``: whose reply it was.
    """

    t: float
    episode: str
    attempt: int
    budget: str
    why: Literal["no_usage", "no_price", "no_memory"]
    model: str = ""
    event: Literal["budget_unknown"] = "budget_unknown"

    @property
    def of_subject(self) -> bool:
        """Whether the runner recorded it."""
        return self.budget in OF_SUBJECT


HowEnded = Literal["fin", "rst", "refused", "open"]


TapKind = Literal["namespace", "proxy"]


@dataclass(frozen=True)
class ConnectionEnded:
    """One intercepted connection, as the ingress saw it on the subject's side of the link's Toxiproxy proxy.

    ``opened`` and ``t``: its begin and its end. ``ms`` runs from the subject's first byte to the end (from
    the begin, if it sent none), ``first_byte_ms`` from there to the first byte that it got, None if it got
    none. ``sent`` and ``received``: bytes from and to the subject.
    ``ended_by`` is who ended it first, ``how`` in order (``fin``), by a reset, or that the proxy could not be
    dialled (``refused``); by nobody, and ``open``, if its attempt ended before it did. ``tls``: its first
    byte began a TLS handshake. ``host`` and ``port`` are where the subject meant to go, ``tap`` is the tap
    that it came by. ``link`` is empty where it crossed none; ``tunnelled``: it was carried past the gateway,
    so that nothing else is known of it. ``why``: what made it go past the lab or be refused, as a part of a
    sentence, where that was no fault. ``lab_failed``: the lab could not carry it, as it should have.
    """

    t: float
    link: str
    episode: str
    attempt: int
    opened: float
    ms: float
    first_byte_ms: float | None
    sent: int
    received: int
    ended_by: Literal["client", "proxy", "nobody"]
    how: HowEnded
    tls: bool
    host: str
    port: int
    tap: TapKind
    tunnelled: bool = False
    why: str = ""
    lab_failed: bool = False
    event: Literal["connection_ended"] = "connection_ended"

    @property
    def not_intercepted(self) -> str:
        """What became of it instead and why, as a sentence; empty for one that a link has carried."""
        became = "went past the lab" if self.tunnelled else "was refused"
        return f"{Address(self.host, self.port)} {became}: {self.why}" if self.why else ""


ToxicsAction = Literal["armed", "started", "ended", "healed", "repaired", "disturbed"]


@dataclass(frozen=True)
class LinkOpened:
    """In this attempt the subject called a server for the first time, and a ``link`` to it was made.

    ``toxics``: those of the plan that the attempt has on it from now on, which were read back.
    """

    t: float
    episode: str
    attempt: int
    link: dict[str, Any]
    toxics: Annotated[list[PlannedToxic], usually([])]
    event: Literal["link_opened"] = "link_opened"


@dataclass(frozen=True)
class ToxicsChanged:
    """What the manager did to Toxiproxy, and in ``toxics`` what it read back afterwards.

    ``action``: armed; started (the time of some planned toxics had come, which are in ``started`` with the
    attributes of their dose, or they got another dose; others may have ended at the same moment); ended (the
    time of those in ``ended`` was over); healed, repaired, disturbed. ``begun``: when it began with that
    change, so that it came into force between then and ``t``.
    """

    t: float
    episode: str
    attempt: int
    action: ToxicsAction
    toxics: Annotated[list[dict[str, Any]], usually([])]
    detail: str = ""
    ended: list[PlannedToxic] = field(default_factory=list)
    begun: float = 0.0
    started: list[PlannedToxic] = field(default_factory=list)
    event: Literal["toxics_changed"] = "toxics_changed"
