"""What happens in a run, as typed events: the words of its history.

Times ``t``, ``start`` and ``end`` are seconds since the epoch; ``*_ms`` are milliseconds of a monotonic
clock of the process that wrote them.

The runner writes ``agent-<lane>.jsonl``: the run, its episodes and attempts, and for the subject its calls
and its report. The gateway writes ``gateway-<lane>.jsonl``, the proxy manager ``manager-<lane>.jsonl``, the
front, which takes intercepted connections, ``front-<lane>.jsonl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from windtunnel.core.caller_errors import ErrorKind
from windtunnel.core.sockets import Address
from windtunnel.dialects.mcp import ToolAnswer
from windtunnel.faults.base import WhyNot
from windtunnel.links.links import Links
from windtunnel.links.wiring import lab_links
from windtunnel.toxiproxy.planned import PlannedToxic

# the link of the lab's model: ``ModelCall`` is of the lab's own agent, which has no other
LAB_MODEL = "model"
SELF_TEST = "self-test subject: scripted model"
Level = Literal["info", "warning", "error"]
EndedBy = Literal["report", "text", "empty", "limit", "exception"]
ToxicsAction = Literal["armed", "ended", "healed", "repaired", "disturbed"]
ErrorClass = Literal["agent", "server", "network", "none"]
RefusedBecause = Literal["unknown_tool", "bad_arguments", "malformed"]
HowEnded = Literal["fin", "rst", "refused", "open"]
TapKind = Literal["namespace", "proxy"]


@dataclass(frozen=True)
class PromptsSource:
    """Where a run's prompts are from: the file, as it was named, and the SHA-256 of its bytes.

    ``only`` and ``match`` picked some of its entries, as they were given; without them all were taken.
    ``texts`` were given one by one, in the place of a file.
    """

    file: str = ""
    sha256: str = ""
    only: list[str] = field(default_factory=list)
    match: str = ""
    texts: list[str] = field(default_factory=list)

    @property
    def picked(self) -> bool:
        return bool(self.only or self.match)


@dataclass(frozen=True)
class RunStarted:
    """``prompts`` are planned; ``skipped_prompts`` entries of the prompts file were bad and are not run.

    ``links``: those of the wiring, as ``Links.dump`` gives them; in a history without any, the lab's.
    ``flown_by``: the words of the command line that give this wiring, none for the lab's own.
    ``subject_kind``: command, service, http or python; empty for a subject that records what it does.
    """

    t: float
    run_id: str
    lab_id: str
    lane: int
    seed: int
    settings: Mapping[str, Any]
    subject: str
    prompts: int
    skipped_prompts: int = 0
    prompts_source: PromptsSource = field(default_factory=PromptsSource)
    links: list[dict[str, Any]] = field(default_factory=list)
    flown_by: list[str] = field(default_factory=list)
    subject_kind: str = ""
    event: Literal["run_started"] = "run_started"

    @property
    def wired(self) -> Links:
        """The links of the run's wiring."""
        return Links.load(self.links) if self.links or self.flown_by else lab_links()

    @property
    def subject_shown(self) -> str:
        """The subject's name, which says so if the scripted model plays its model."""
        if self.subject_kind:
            scripted = any(link["upstream"] == "scripted" for link in self.links)
        else:
            scripted = self.settings.get("model", "scripted") == "scripted"
        return f"{self.subject}, {SELF_TEST}" if scripted and SELF_TEST not in self.subject else self.subject


@dataclass(frozen=True)
class EpisodeStarted:
    """``episode`` is the prompt's key: its ``id``, or a hash of its text.

    ``expect`` is the prompt's oracle as it stands in the prompts file, None without one. ``recorded``: the
    subject keeps a record of its own calls and tries, so that what is not in it was not. ``turns``: those of
    a conversation, which ``prompt`` has all in one.
    """

    t: float
    episode: str
    prompt: str
    expect: Mapping[str, Any] | None
    recorded: bool = True
    turns: list[str] = field(default_factory=list)
    event: Literal["episode_started"] = "episode_started"


@dataclass(frozen=True)
class AttemptArmed:
    """The plan's toxics are in force, read back. ``configuration``: the fault set that it was drawn from."""

    t: float
    episode: str
    attempt: int
    arming_ms: float
    toxics: list[PlannedToxic]
    configuration: int = 0
    event: Literal["attempt_armed"] = "attempt_armed"


@dataclass(frozen=True)
class AttemptEnded:
    """``ended_by``: report, text (an answer without a report), empty, limit or exception.

    ``error_class``: what failed where an error ended it: the agent itself, a server (it answered with an
    error), or the network (no whole answer came). ``answers``: those to the turns of a conversation, the last
    of which is ``response``.
    """

    episode: str
    attempt: int
    start: float
    end: float
    ms: float
    ended_by: EndedBy
    report: Report | None
    response: str
    error_type: str | None
    error: str | None
    error_class: ErrorClass = "none"
    answers: list[str] = field(default_factory=list)
    event: Literal["attempt_ended"] = "attempt_ended"


@dataclass(frozen=True)
class AttemptHealed:
    """``invalid`` names what went wrong with the lab in this attempt; it was not run if it never armed."""

    t: float
    episode: str
    attempt: int
    settled: bool | None
    invalid: str | None
    event: Literal["attempt_healed"] = "attempt_healed"


@dataclass(frozen=True)
class WorldRead:
    """All side effects in the episode's world at that time. ``error`` if it could not be read."""

    t: float
    episode: str
    effects: list[dict[str, Any]]
    error: str | None = None
    event: Literal["world_read"] = "world_read"


@dataclass(frozen=True)
class WorldProbed:
    """What the wiring's probe read, as JSON, before the episode (and after its reset) or after it.

    ``error``: why it could not be reset or read; ``state`` is None then.
    """

    t: float
    episode: str
    when: Literal["before", "after"]
    state: Any = None
    error: str | None = None
    event: Literal["world_probed"] = "world_probed"


@dataclass(frozen=True)
class EpisodeJudged:
    """The verdict on an episode as it was given; ``windtunnel judge`` gives it again."""

    t: float
    episode: str
    outcome: str
    world: str
    claim: str
    value: str
    flags: list[str]
    attempts: int
    first_attempt_outcome: str
    faults: list[dict[str, Any]]
    event: Literal["episode_judged"] = "episode_judged"


@dataclass(frozen=True)
class RunFinished:
    t: float
    completed: bool
    reason: str
    toxics_left: int | None
    event: Literal["run_finished"] = "run_finished"


@dataclass(frozen=True)
class SealedFile:
    """How many lines a file had, and the hash of the last one; empty for a file without any."""

    lines: int
    head: str


@dataclass(frozen=True)
class RunSealed:
    """The runner's last event: ``files`` has what the others wrote, by file name, until the run was over.

    Its own file is sealed by the number and the hash that this line carries as each line does.
    """

    files: Mapping[str, SealedFile]
    event: Literal["run_sealed"] = "run_sealed"


@dataclass(frozen=True)
class Note:
    t: float
    level: Level
    message: str
    event: Literal["note"] = "note"


@dataclass(frozen=True)
class ModelCall:
    """One HTTP try at the model. ``ordinal`` counts the attempt's model requests from 1.

    ``reply_digest``: BLAKE2b (8 bytes, hexadecimal) of the reply's body; empty where it was not read whole.
    """

    t: float
    episode: str
    attempt: int
    ordinal: int
    try_: int
    ms: float
    status: int | None
    error: str | None
    reply_digest: str = ""
    event: Literal["model_call"] = "model_call"


@dataclass(frozen=True)
class ToolTry:
    """One HTTP try of a tool call, as the caller saw it.

    ``error`` is None for a valid reply of status below 400, ``http_<status>`` for any other status, else
    read_timeout, connect_timeout, connection_refused, connection_closed, connection_reset, bad_reply.
    ``route`` is ``proxy``, or ``direct`` for the fallback past proxies and gateway. ``reply_digest``:
    BLAKE2b (8 bytes, hexadecimal) of the reply's body; empty where it did not come whole. ``refused``: how
    often its connection was refused before it got one (PROXY_WAIT); that time is in ``ms`` too.
    """

    episode: str
    attempt: int
    tool: str
    link: str
    fingerprint: str
    call: int
    try_: int
    start: float
    end: float
    ms: float
    timeout_ms: float
    status: int | None
    error: str | None
    reply_bytes: int
    write: bool
    idempotency_key: str | None
    route: Literal["proxy", "direct"] = "proxy"
    reply_digest: str = ""
    refused: int = 0
    event: Literal["tool_try"] = "tool_try"


@dataclass(frozen=True)
class ToolCalled:
    """One logical tool call and what the model was told. ``side_effect``: none, done or unknown."""

    t: float
    episode: str
    attempt: int
    reply: int
    index: int
    tool: str
    link: str
    arguments: Mapping[str, Any]
    fingerprint: str
    call: int
    tries: int
    ok: bool
    error: str | None
    side_effect: str
    result: str
    fallback_used: bool
    event: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True)
class ToolCallRefused:
    """A tool call that the model asked for and the subject refused by itself: no request was made of it.

    ``why``: there is no such tool, the arguments (or those of the report) do not fit the tool's schema, or
    they are no JSON; ``detail`` in words. ``tool`` and ``arguments`` are as the model gave them, cut off
    where they are long. ``index`` is the place in the reply, malformed calls counted after the others.
    """

    t: float
    episode: str
    attempt: int
    reply: int
    index: int
    tool: str
    arguments: str
    why: RefusedBecause
    detail: str
    event: Literal["tool_call_refused"] = "tool_call_refused"


@dataclass(frozen=True)
class Report:
    """The subject's structured report. Each value: ``{"value": number or text, "unit": text or None}``."""

    status: Literal["done", "failed", "unsure"]
    answer: str
    values: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class FaultMet:
    """A fault that one request has met, and what became of it.

    ``id`` is its entry's in the fault set, empty for ``ERROR_PROB``. ``why_not``: why it was not injected;
    ``detail``: of one that failed, the exception's type. ``delay_ms``: what it really added, as measured.
    ``shows``: what the caller must have seen if it was delivered (``status`` and ``digest`` of the body,
    ``lost``, ``closed`` if the connection was closed on it, ``delay_ms``); None if it cannot see it.
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

    ``dialect``: what the link speaks; empty in the history of a version that did not know. ``write``: the
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
    took 10 ms or more, else 0.
    """

    start: float
    run: str
    episode: str
    attempt: int
    link: str
    method: str
    target: str
    fingerprint: str
    call: int
    try_: int
    identity: Literal["baggage", "counted", "mismatch"]
    ms: float
    status: int | None
    request_complete: bool
    reply_complete: bool
    forwarded: bool
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
class LinkOpened:
    """In this attempt the subject called a server for the first time, and a ``link`` to it was made.

    ``toxics``: those of the plan that the attempt has on it from now on, which were read back.
    """

    t: float
    episode: str
    attempt: int
    link: dict[str, Any]
    toxics: list[PlannedToxic]
    event: Literal["link_opened"] = "link_opened"


@dataclass(frozen=True)
class ToxicsChanged:
    """What the manager did to Toxiproxy, and in ``toxics`` what it read back afterwards.

    ``action``: armed, ended (the time of some planned toxics was over, which are in ``ended``), healed,
    repaired, disturbed. ``begun``: when it began to end them, so that they were gone between then and ``t``.
    """

    t: float
    episode: str
    attempt: int
    action: ToxicsAction
    toxics: list[dict[str, Any]]
    detail: str = ""
    ended: list[PlannedToxic] = field(default_factory=list)
    begun: float = 0.0
    event: Literal["toxics_changed"] = "toxics_changed"


@dataclass(frozen=True)
class ConnectionEnded:
    """One intercepted connection, as the front saw it on the subject's side of the link's Toxiproxy proxy.

    ``opened`` and ``t``: its begin and its end. ``ms`` runs from the subject's first byte to the end (from
    the begin, if it sent none), ``first_byte_ms`` from there to the first byte that it got, None if it got
    none. ``sent`` and ``received``: bytes from and to the subject.
    ``ended_by`` is who ended it first, ``how`` in order (``fin``), by a reset, or that the proxy could not be
    dialled (``refused``); by nobody, and ``open``, if its attempt ended before it did. ``tls``: its first
    byte began a TLS handshake. ``host`` and ``port`` are where the subject meant to go, ``way`` is the tap
    that it came by. ``link`` is empty where it crossed none; ``tunnelled``: it was carried past the gateway,
    so that nothing else is known of it. ``why``: what made it go past the lab or be refused, as a part of a
    sentence, where that was no fault.
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
    way: TapKind
    tunnelled: bool = False
    why: str = ""
    event: Literal["connection_ended"] = "connection_ended"

    @property
    def not_intercepted(self) -> str:
        """What became of it instead and why, as a sentence; empty for one that a link has carried."""
        became = "went past the lab" if self.tunnelled else "was refused"
        return f"{Address(self.host, self.port)} {became}: {self.why}" if self.why else ""


Event = (
    RunStarted
    | EpisodeStarted
    | AttemptArmed
    | ModelCall
    | ToolTry
    | ToolCalled
    | ToolCallRefused
    | AttemptEnded
    | AttemptHealed
    | WorldRead
    | WorldProbed
    | EpisodeJudged
    | RunFinished
    | RunSealed
    | Note
    | Exchange
    | FaultsSet
    | LinkOpened
    | ToxicsChanged
    | ConnectionEnded
)
