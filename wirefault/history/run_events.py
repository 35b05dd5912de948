"""Events of the runner and its subject: episodes, attempts, calls, worlds and the end of the run."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal

from msgspec import field

from wirefault.core.sockets import Address
from wirefault.history.lines import BaseEvent, Clock, Record
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link, Links, lab_links
from wirefault.wiring.prompts import PromptsSource

_SIMILAR = 0.7
RefusalReason = Literal["unknown_tool", "bad_arguments", "malformed"]


class ModelCall(BaseEvent, frozen=True, tag="model_call"):
    """One HTTP try at the model."""

    t: Clock
    episode: str
    attempt: int
    ordinal: int  # number of the model request in the attempt, from 1
    ms: Clock
    status: int | None
    try_: int = 1
    error: str | None = None
    reply_digest: str = ""  # BLAKE2b (8 bytes, hexadecimal) of the body; empty if it was not read to its end


class ToolTry(BaseEvent, frozen=True, tag="tool_try"):
    """One HTTP try of a tool call, from the caller's view."""

    episode: str
    attempt: int
    tool: str
    link: str
    fingerprint: str
    call: int
    start: Clock
    end: Clock
    ms: Clock
    timeout_ms: Clock
    status: int | None
    reply_bytes: int
    try_: int = 1
    # None for a valid reply with a status below 400, ``http_<status>`` for another status, else read_timeout,
    # connect_timeout, connection_refused, connection_closed, connection_reset, bad_reply or cancelled
    error: str | None = None
    write: bool = False
    idempotency_key: str | None = None
    route: Literal["proxy", "direct"] = "proxy"  # direct: the fallback past proxies and gateway
    reply_digest: str = ""  # BLAKE2b (8 bytes, hexadecimal) of the body; empty if it did not arrive whole
    refused: int = 0  # refused connections before this one (PROXY_WAIT); ``ms`` includes that time


class ToolCalled(BaseEvent, frozen=True, tag="tool_call"):
    """One logical tool call and the result that the model received."""

    t: Clock
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
    side_effect: str  # none, done or unknown
    result: str
    error: str | None = None
    fallback_used: bool = False


class ToolCallRefused(BaseEvent, frozen=True, tag="tool_call_refused"):
    """A tool call of the model that the subject refused without sending a request."""

    t: Clock
    episode: str
    attempt: int
    reply: int
    index: int  # position in the reply; malformed calls are last
    tool: str  # as the model wrote it, like ``arguments``; long ones are cut
    arguments: str
    # unknown_tool, bad_arguments (of a tool or the report; they do not fit the schema), malformed (not JSON)
    why: RefusalReason
    detail: str


class SubjectKilled(BaseEvent, frozen=True, tag="subject_killed"):
    """The runner killed the subject's process tree at a point of the wire (fault ``kill_subject``)."""

    t: Clock
    episode: str
    attempt: int
    number: int  # among the attempt's kills, from 1
    link: str
    entry: str  # id of the fault set's entry
    point: str  # as the fault's ``at``
    signal: Literal["kill", "term"]
    dead: bool  # all its processes have ended
    ms: Clock  # from the gateway's order to the last process's end


class SubjectResumed(BaseEvent, frozen=True, tag="subject_resumed"):
    """The subject runs again after a kill, in the same attempt and the same world."""

    t: Clock
    episode: str
    attempt: int
    number: int  # of the kill
    command: str  # that resumed it, without secrets


class RecoveryTried(BaseEvent, frozen=True, tag="recovery"):
    """One attempt of the subject to recover from a failure, by one of the strategies of ``RECOVERY``."""

    t: Clock
    episode: str
    attempt: int
    strategy: str  # its name in ``RECOVERY``
    number: int  # from 1, of this strategy in this call, or in this attempt outside any call
    success: bool
    seconds: Clock  # that it took, waits included
    preserved: str  # what it kept that would have been lost otherwise, in words; empty: nothing
    link: str = ""
    call: int = 0  # as in ``ToolTry``; 0: no tool call
    detail: str = ""  # such as a breaker's change of state


class Report(Record, frozen=True):
    """The subject's structured report. Each value: ``{"value": number or text, "unit": text or None}``."""

    status: Literal["done", "failed", "unsure"]
    answer: str
    values: list[dict[str, Any]] = []


SELF_TEST = "self-test subject: scripted model"


Level = Literal["info", "warning", "error"]


EndedBy = Literal["report", "text", "empty", "limit", "exception"]


ErrorClass = Literal["agent", "server", "network", "none"]
EXIT_CODE = "ExitCode"
"""``error_type`` of a command that ended with a non-zero exit code."""


class RunStarted(BaseEvent, frozen=True, dict=True, tag="run_started"):
    """The start of a run: its settings, subject, prompts and links."""

    t: Clock
    run_id: str
    lab_id: str
    lane: int
    seed: int
    settings: Mapping[str, Any]
    subject: str
    prompts: int  # planned
    skipped_prompts: int = 0  # bad entries of the prompts file, which are not run
    prompts_source: PromptsSource = field(default_factory=PromptsSource)
    links: list[Link] = []  # without secrets
    wiring_arguments: list[str] = []  # from the command line; empty for the lab's wiring
    subject_kind: str = ""  # command, service, http, python; empty for a subject that records its calls
    versions: Mapping[str, str] = {}  # by name
    faults_name: str = ""  # the user's name for the fault set; empty for a text
    lab_files: Mapping[str, str] = {}  # replacements of shipped files, by variable

    @cached_property
    def wired(self) -> Links:
        """The links of the run's wiring."""
        return Links(self.links) if self.links or self.wiring_arguments else lab_links()


class EpisodeStarted(BaseEvent, frozen=True, tag="episode_started"):
    """An episode starts, in a new world."""

    t: Clock
    episode: str  # the prompt's key
    prompt: str
    expect: Mapping[str, Any] | None = None  # the oracle in the prompts file
    recorded: bool = True  # the subject records all of its calls and tries
    turns: list[str] = []  # of a conversation; ``prompt`` contains all of them
    metadata: Mapping[str, Any] = {}  # of the prompt, for readers of the run
    tool_links: list[str] | None = None  # named in the prompts file
    place: int = 0  # the number of the prompt in its file; 0: not recorded


class ShadowToxic(Record, frozen=True):
    """A toxic that an attempt of the control would have had in another ``arm``. It was not armed."""

    arm: str
    toxic: PlannedToxic


class AttemptArmed(BaseEvent, frozen=True, tag="attempt_armed"):
    """The planned toxics are in force, read back."""

    t: Clock
    episode: str
    attempt: int
    arming_ms: Clock
    toxics: list[PlannedToxic] = []
    configuration: int = 0  # number of the toxics' fault set
    shadows: list[ShadowToxic] = []


class TurnStarted(BaseEvent, frozen=True, tag="turn_started"):
    """The user's next turn of a conversation starts, and its faults are in force."""

    t: Clock
    episode: str
    attempt: int
    turn: int  # from 2
    text: str = ""


class AttemptEnded(BaseEvent, frozen=True, tag="attempt_ended"):
    """An attempt ended, with this answer or error."""

    episode: str
    attempt: int
    start: Clock
    end: Clock
    ms: Clock
    ended_by: EndedBy  # text: an answer without a report
    response: str
    report: Report | None = None
    error_type: str | None = None
    error: str | None = None
    # the cause if an error ended it: the agent, a server (an error reply) or the network (no whole reply)
    error_class: ErrorClass = "none"
    answers: list[str] = []  # one for each turn; the last one is ``response``
    turn_ends: list[Clock] | None = None  # times of the answers; None unless the turns were sent one by one

    @property
    def exited_with_reason(self) -> bool:
        """Return whether a command printed a reason and ended with a non-zero exit code."""
        return self.ended_by == "text" and self.error_type == EXIT_CODE


_ONLY_HTTP2 = (
    "its client speaks only HTTP/2, as gRPC does: no fault of single requests can act on it; make it speak"
    " HTTP/1.1 (for gRPC, the server's REST interface)"
)
ONLY_HTTP2 = f"{_ONLY_HTTP2}, or let it pass (--pass)"
"""Reason why an intercepted connection was not read, and what helps."""


class PipeServer(BaseEvent, frozen=True, tag="pipe_server"):
    """The subject started an MCP server over a pipe past the lab: no fault can act on its messages.

    The runner polls for them: one that is not named so may be missing.
    """

    t: Clock
    episode: str
    attempt: int
    # program and script
    command: str

    @property
    def text(self) -> str:
        """Return what it is and what helps, as a clause."""
        return f"MCP server over a pipe ({self.command}): wirefault mcp --config FILE"


class WentPastLab(BaseEvent, frozen=True, tag="went_past_lab"):
    """The subject's program opened ``count`` connections to ``host`` whose requests the lab did not see.

    The runner polls for connections that no link carried: short ones may be missing. The ingress and the
    gateway record connections that they pass on unread.
    """

    t: Clock
    episode: str
    attempt: int
    host: str
    port: int
    protocol: Literal["tcp", "udp"]
    program: str
    count: int
    # recorded by the gateway: the link that carried it unread, whose toxics could act
    link: str = ""
    only_http2: bool = False  # its client speaks only HTTP/2
    # bytes from and to the subject, recorded by the ingress and the gateway
    sent: int | None = None
    received: int | None = None

    @property
    def text(self) -> str:
        """Return program and destination, as part of a sentence."""
        how = " by UDP" if self.protocol == "udp" else " over HTTP/2" if self.only_http2 else ""
        often = f" ({self.count} connections)" if self.count > 1 else ""
        link = f" (link {self.link})" if self.link else ""
        return f"{self.program} to {Address(self.host, self.port)}{link}{how}{often}"

    @property
    def sentence(self) -> str:
        """Return a sentence with the event, and for HTTP/2 with the reason and what helps."""
        if self.only_http2:
            why = _ONLY_HTTP2 if self.link else ONLY_HTTP2
            return f"connection whose requests the lab cannot read: {self.text}: {why}"
        return f"connection bypassed the lab: {self.text}"


class AttemptHealed(BaseEvent, frozen=True, tag="attempt_healed"):
    """The toxics are removed. ``invalid``: the lab's failure in this attempt; None without one."""

    t: Clock
    episode: str
    attempt: int
    settled: bool | None = True
    invalid: str | None = None


class WorldRead(BaseEvent, frozen=True, tag="world_read"):
    """All side effects in the episode's world at that time, or the ``error`` if they cannot be read."""

    t: Clock
    episode: str
    effects: list[dict[str, Any]] = []
    error: str | None = None


class WorldProbed(BaseEvent, frozen=True, tag="world_probed"):
    """State read by the wiring's probe before the episode (after the reset of its world) or after it.

    ``error``: why the reset or the probe failed; ``state`` is then None.
    """

    t: Clock
    episode: str
    when: Literal["before", "after"]
    state: Any = None
    error: str | None = None


class NeverCalled(Record, frozen=True):
    """A link or host that a file of the run names, and that the subject never called."""

    by: str  # faults, toxics, expect, tool_links, only, pass or refuse
    name: str
    called: list[str]  # the links that it called, and the hosts that it called past all links

    @property
    def meant(self) -> str:
        """Return the one called that has a similar name; empty if none has."""
        return next(iter(get_close_matches(self.name, self.called, n=1, cutoff=_SIMILAR)), "")

    @property
    def sentence(self) -> str:
        """Return what was not called, and what was."""
        called = f"it called: {', '.join(self.called)}" if self.called else "it called no server"
        hint = f"; did you mean {self.meant!r}?" if self.meant else ""
        name = "name" if self.by in ("faults", "toxics", "tool_links") else "names"
        return f"{self.by} {name} {self.name!r}, which the agent never called; {called}{hint}"


class RunFinished(BaseEvent, frozen=True, tag="run_finished"):
    t: Clock
    completed: bool
    reason: str
    toxics_left: int | None
    never_called: list[NeverCalled] = []
    worst: str | None = None  # severity and rule of the worst finding; empty: none; None: not recorded


class SealedFile(Record, frozen=True):
    """The number of lines in a file, and the last line's hash; empty without lines."""

    lines: int
    head: str


class RunSealed(BaseEvent, frozen=True, tag="run_sealed"):
    """The runner's last event: the state of the other processes' files, by name.

    The number and the hash on this line seal the runner's own file.
    """

    files: Mapping[str, SealedFile]


class Note(BaseEvent, frozen=True, tag="note"):
    t: Clock
    level: Level
    message: str
