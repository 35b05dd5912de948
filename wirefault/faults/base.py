"""The contract of a fault: it looks at one try and returns an ``Act``, which the gateway carries out. Pure.

A fault is a small class with typed parameters, listed in ``wirefault.faults.catalogue``. Its docstring is its
entry in the catalogue's page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import ConfigDict, Field

from wirefault.core.caller_errors import NOTHING, ErrorKind
from wirefault.dialects import Dialect
from wirefault.dialects.http import Ending, Reply, ReplyInPieces, Request, Step
from wirefault.wiring.spec_file import Constructed

_Family = Literal["http", "meaning", "model", "context", "mcp", "websocket"]
Where = Literal["any", "tool", "model", "mcp"]
McpView = Literal["reply", "message", "result"]
WhyNot = Literal[
    "outside_radius",  # outside the blast radius: this episode or call may not be faulted
    "already_faulted",  # another fault changed this try before it
    "no_tool_result_to_change",  # the reply has no value that the fault can change
    "nothing_to_change",  # the request or the model's reply has nothing that the fault can change
    "no_earlier_answer",  # the link has no earlier reply that differs
    "not_a_line",  # the fault acts on lines of stdio, and this message came over HTTP
    "answered_on_stream",  # MCP over HTTP+SSE: the response comes on the session's GET stream
    "not_in_dialect",  # the link's API has no such error, or no such reply
    "not_a_stream",  # the fault acts on event streams only
    "not_a_websocket",  # the fault acts on messages of WebSocket connections only
    "no_such_message",  # the connection had no message that the fault selects
    "cut_short",  # the client left or the attempt ended before the fault acted
    "upstream_failed",  # the upstream sent no complete reply to change
    "too_large",  # the message is larger than the gateway keeps
    "failed",  # the fault's own code raised an exception
    "unreadable",  # compressed in an unknown way, or not in the link's protocol
]

# prefix of the ids of a budget's acts; ids of fault sets must not have it
BUDGET_ID = "budget:"
MAX_EVIDENCE = 4096
# The usual limits of clients are 5, 10, 30 and 60 s: a client that still waits after that has none of them.
HANG_LIMIT_S = 65.0
HangLimit = Annotated[
    float,
    Field(
        ge=0,
        le=3600,
        description="seconds until the gateway closes the connection of a client that still waits; 0: never",
    ),
]
_MAX_EVIDENCE_BRACKETS = 100


@dataclass(frozen=True)
class Try:
    """One try that has met a fault, with its complete request."""

    link: str
    dialect: Dialect
    request: Request
    episode: str
    attempt: int
    call: int
    """Number of the logical call among those with the same fingerprint, from 1."""
    try_: int
    """Number of the HTTP try of the call, from 1."""
    ordinal: int
    """Number of the call among the entry's calls in the episode. If the fault is ``of_server``, number of the
    request among those on the link that met it. 1 unless ``by_order``."""
    chance: Callable[[str], float]
    """The schedule's keyed draw in [0, 1) for this try, entry and purpose."""
    earlier: Sequence[Reply] = ()
    """The link's complete replies in the episode, oldest first, if the fault ``remembers``."""
    lines: bool = False
    """Whether the message is a line (MCP over stdio) and not HTTP."""
    new_session: bool = False
    """Whether its session began after the fault had lost all others, if the fault ``restarts``."""


@dataclass(frozen=True)
class Miss:
    """The try met the fault, but the fault is not injected, for this reason."""

    why: WhyNot


@dataclass(frozen=True)
class Changed:
    """The replacement of a reply. ``evidence`` (JSON) documents the change in the history."""

    reply: Reply | ReplyInPieces
    evidence: Mapping[str, Any] = field(default_factory=dict)
    pace: float | None = None
    """Bytes per second of the body, which is sent with the chunks and trailers that the upstream sent."""


class EventEditor(Protocol):
    """Edits one event stream as it passes. The gateway adds the HTTP framing.

    After every call the gateway reads ``ending``: anything but ``keep`` ends the reply there. ``why_not`` is
    None once the editor has changed something. The gateway reads ``evidence`` after the stream's end.
    """

    ending: Ending
    why_not: WhyNot | None
    evidence: dict[str, Any]

    def event(self, data: bytes) -> Sequence[Step]:
        """The replacement of one complete event, including its blank line: bytes, and seconds to wait."""

    def end(self) -> Sequence[Step]:
        """Steps to send after the upstream's last event."""


@dataclass(frozen=True)
class Pings:
    """Events that come while a stream hangs, one every ``every_s`` seconds."""

    every_s: float
    event: bytes


Side = Literal["client", "server"]
MessageKind = Literal["text", "binary", "close"]


@dataclass(frozen=True)
class SocketMessage:
    """A whole message of a WebSocket connection."""

    sender: Side
    number: int
    """Among its sender's messages, from 1."""
    kind: MessageKind
    data: bytes


@dataclass(frozen=True)
class MessageAct:
    """Changes of a message; the defaults change nothing. They are applied in this order."""

    delay: float = 0.0
    """Seconds before it is passed on; later messages of its sender wait behind it."""
    drop: bool = False
    part: float = 1.0
    """The share of its bytes that is passed on."""
    event: bytes = b""
    """A text message for the client, after it."""
    ending: Literal["keep", "close", "reset"] = "keep"
    """How the connection ends after it, on both sides."""
    close_code: int | None = None
    """The code of a close frame for the client before that end."""


class MessageEditor(Protocol):
    """Edits one WebSocket connection; the gateway asks it about every message in the order of arrival."""

    def message(self, message: SocketMessage) -> MessageAct | None:
        """What happens to the message; None lets it pass to the next fault."""


KillPoint = Literal["before_reply", "after_reply", "mid_stream", "before_request"]


@dataclass(frozen=True)
class Kill:
    """The end of the subject's processes at a point of the wire. The reply's ending is ``hang`` then."""

    point: KillPoint
    signal: Literal["kill", "term"]
    grace_s: float
    """From SIGTERM to SIGKILL."""
    wait_s: float
    """From the point to the signal."""


@dataclass(frozen=True)
class Act:
    """A fault's effect on a try; the defaults change nothing."""

    delay: float = 0.0
    """Seconds before the request is forwarded; delays of several faults add up."""
    answer: Reply | ReplyInPieces | None = None
    """A reply in place of the upstream, which does not get the request."""
    request: Request | None = None
    """The request to forward instead of the original."""
    copies: int = 1
    """How many times the request is forwarded; the client gets the last reply."""
    reply: Callable[[Reply], Changed | Miss] | None = None
    """Changes the upstream's complete reply; with ``events`` only a reply that is not an event stream."""
    events: Callable[[], EventEditor] | None = None
    """Creates an editor for an event stream."""
    packed: bool = False
    """``reply`` gets the body as it was sent, perhaps compressed, with its Content-Encoding."""
    messages: Callable[[], MessageEditor] | None = None
    """Creates an editor for the messages of a WebSocket connection."""
    pings: Pings | None = None
    """Keeps an event stream alive that ends with ``hang``."""
    hang_s: float | None = None
    """Replaces the fault's ``hang_s`` for this try."""
    kill: Kill | None = None
    """Where the try hangs, the subject is killed and resumed."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """JSON that documents the effect in the history."""

    @property
    def only_delays(self) -> bool:
        """Whether the try is delayed but otherwise unchanged."""
        return self == Act(delay=self.delay, evidence=self.evidence)


class Fault(Constructed):
    """One kind of fault with its parameters. Subclasses are frozen and refuse unknown parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: ClassVar[str]
    """The fault's name in fault sets, the history and the catalogue."""
    family: ClassVar[_Family]
    """The catalogue's section with the fault."""
    where: ClassVar[Where] = "any"
    """The links on which it can act."""
    needs_body: ClassVar[bool] = False
    """It reads the request's body, so the gateway keeps long bodies too."""
    remembers: ClassVar[bool] = False
    """It needs the link's earlier replies."""
    of_server: ClassVar[bool] = False
    """It is about the state of one server, which does not know calls."""
    session_header: ClassVar[str] = ""
    """The header with a session whose state the fault is about: once met, it strikes these sessions alone."""
    restarts: ClassVar[bool] = False
    """It strikes new sessions, too, as ``Try.new_session``: a server that is down is down for all of them."""
    lab_only: ClassVar[bool] = False
    """It acts only on links to the lab's own servers."""
    messages: ClassVar[tuple[str, ...]] = ("tools/call",)
    """On MCP links: patterns of the methods of the messages that it acts on."""
    mcp_view: ClassVar[McpView] = "reply"
    """Its view of an exchange on an MCP link: the ``reply`` as sent; only the response ``message``, in
    any transport; or the tool's arguments as the request and its ``result`` as the reply."""
    chooses: ClassVar[bool] = False
    """``act`` may return None, which lets the try pass."""
    kills: ClassVar[bool] = False
    """It ends the subject's processes, so the subject must be one that can be resumed."""
    can_cause: ClassVar[frozenset[ErrorKind]] = NOTHING
    """The errors of a try that it can cause; it explains no others."""

    @property
    def max_kills(self) -> int:
        """How often it may kill the subject in one attempt; it lets later tries pass."""
        return 0

    @property
    def memory_limit(self) -> int:
        """Bytes that the subject's process may take during an attempt; 0: no limit."""
        return 0

    @property
    def causes(self) -> frozenset[ErrorKind]:
        """The subset of ``can_cause`` that is possible with these parameters."""
        return self.can_cause

    @property
    def by_order(self) -> bool:
        """Whether it depends on ``ordinal`` or ``earlier``, and thus on the order of arrival."""
        return self.remembers

    @property
    def hang_s(self) -> float:
        """Seconds after which the gateway closes a connection that the fault lets hang; 0: never."""
        return 0.0

    def wants(self, chance: Callable[[str], float]) -> bool:
        """Whether a try with these draws meets a fault that ``chooses`` by chance.

        The matcher calls this before it builds the ``Try``, which costs more.
        """
        return True

    def act(self, tried: Try) -> Act | Miss | None:
        """The effect on the try; None lets it pass as if it had not met the fault. Never raises.

        ``faults/plan.py`` calls it; ``gateway/exchange/reply_changes.py`` applies its changes of a reply.
        """
        raise NotImplementedError


def evidence_of(value: Any) -> Any:
    """A JSON value as evidence: unchanged, or the first 4096 characters of its JSON text if that is longer
    or has more than 100 objects and lists (the history's readers refuse deep nesting)."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deep)"
    shallow = text.count("{") + text.count("[") <= _MAX_EVIDENCE_BRACKETS
    return value if shallow and len(text) <= MAX_EVIDENCE else evidence_text(text)


def evidence_text(text: str | bytes) -> str:
    """A text, or bytes as text, as evidence: at most the first 4096 characters or bytes of it."""
    head = text[:MAX_EVIDENCE]
    return head if isinstance(head, str) else head.decode("utf-8", "replace")
