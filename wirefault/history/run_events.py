"""Events of the runner and its subject: episodes, attempts, calls, worlds and the end of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from wirefault.core.sockets import Address
from wirefault.history.lines import omitted_if
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Links, lab_links
from wirefault.wiring.prompts import PromptsSource

_SIMILAR = 0.7
RefusalReason = Literal["unknown_tool", "bad_arguments", "malformed"]


@dataclass(frozen=True)
class ModelCall:
    """One HTTP try at the model."""

    t: float
    episode: str
    attempt: int
    ordinal: int  # number of the model request in the attempt, from 1
    try_: Annotated[int, omitted_if(1)]
    ms: float
    status: int | None
    error: Annotated[str | None, omitted_if(None)]
    reply_digest: str = ""  # BLAKE2b (8 bytes, hexadecimal) of the body; empty if it was not read to its end
    event: Literal["model_call"] = "model_call"


@dataclass(frozen=True)
class ToolTry:
    """One HTTP try of a tool call, from the caller's view."""

    episode: str
    attempt: int
    tool: str
    link: str
    fingerprint: str
    call: int
    try_: Annotated[int, omitted_if(1)]
    start: float
    end: float
    ms: float
    timeout_ms: float
    status: int | None
    # None for a valid reply with a status below 400, ``http_<status>`` for another status, else read_timeout,
    # connect_timeout, connection_refused, connection_closed, connection_reset, bad_reply or cancelled
    error: Annotated[str | None, omitted_if(None)]
    reply_bytes: int
    write: Annotated[bool, omitted_if(False)]
    idempotency_key: Annotated[str | None, omitted_if(None)]
    route: Literal["proxy", "direct"] = "proxy"  # direct: the fallback past proxies and gateway
    reply_digest: str = ""  # BLAKE2b (8 bytes, hexadecimal) of the body; empty if it did not arrive whole
    refused: int = 0  # refused connections before this one (PROXY_WAIT); ``ms`` includes that time
    event: Literal["tool_try"] = "tool_try"


@dataclass(frozen=True)
class ToolCalled:
    """One logical tool call and the result that the model received."""

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
    error: Annotated[str | None, omitted_if(None)]
    side_effect: str  # none, done or unknown
    result: str
    fallback_used: Annotated[bool, omitted_if(False)]
    event: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True)
class ToolCallRefused:
    """A tool call of the model that the subject refused without sending a request."""

    t: float
    episode: str
    attempt: int
    reply: int
    index: int  # position in the reply; malformed calls are last
    tool: str  # as the model wrote it, like ``arguments``; long ones are cut
    arguments: str
    # unknown_tool, bad_arguments (of a tool or the report; they do not fit the schema), malformed (not JSON)
    why: RefusalReason
    detail: str
    event: Literal["tool_call_refused"] = "tool_call_refused"


@dataclass(frozen=True)
class SubjectKilled:
    """The runner killed the subject's process tree at a point of the wire (fault ``kill_subject``)."""

    t: float
    episode: str
    attempt: int
    number: int  # among the attempt's kills, from 1
    link: str
    entry: str  # id of the fault set's entry
    point: str  # as the fault's ``at``
    signal: Literal["kill", "term"]
    dead: bool  # all its processes have ended
    ms: float  # from the gateway's order to the last process's end
    event: Literal["subject_killed"] = "subject_killed"


@dataclass(frozen=True)
class SubjectResumed:
    """The subject runs again after a kill, in the same attempt and the same world."""

    t: float
    episode: str
    attempt: int
    number: int  # of the kill
    command: str  # that resumed it, without secrets
    event: Literal["subject_resumed"] = "subject_resumed"


@dataclass(frozen=True)
class RecoveryTried:
    """One attempt of the subject to recover from a failure, by one of the strategies of ``RECOVERY``."""

    t: float
    episode: str
    attempt: int
    strategy: str  # its name in ``RECOVERY``
    number: int  # from 1, of this strategy in this call, or in this attempt outside any call
    success: bool
    seconds: float  # that it took, waits included
    preserved: str  # what it kept that would have been lost otherwise, in words; empty: nothing
    link: Annotated[str, omitted_if("")] = ""
    call: Annotated[int, omitted_if(0)] = 0  # as in ``ToolTry``; 0: no tool call
    detail: Annotated[str, omitted_if("")] = ""  # such as a breaker's change of state
    event: Literal["recovery"] = "recovery"


@dataclass(frozen=True)
class Report:
    """The subject's structured report. Each value: ``{"value": number or text, "unit": text or None}``."""

    status: Literal["done", "failed", "unsure"]
    answer: str
    values: list[dict[str, Any]] = field(default_factory=list)


SELF_TEST = "self-test subject: scripted model"


Level = Literal["info", "warning", "error"]


EndedBy = Literal["report", "text", "empty", "limit", "exception"]


ErrorClass = Literal["agent", "server", "network", "none"]
EXIT_CODE = "ExitCode"
"""``error_type`` of a command that ended with a non-zero exit code."""


@dataclass(frozen=True)
class RunStarted:
    """The start of a run: its settings, subject, prompts and links."""

    t: float
    run_id: str
    lab_id: str
    lane: int
    seed: int
    settings: Mapping[str, Any]
    subject: str
    prompts: int  # planned
    skipped_prompts: int = 0  # bad entries of the prompts file, which are not run
    prompts_source: PromptsSource = field(default_factory=PromptsSource)
    # the result of ``Links.dump``; empty in a history without it: the lab's links
    links: list[dict[str, Any]] = field(default_factory=list)
    wiring_arguments: list[str] = field(
        default_factory=list
    )  # from the command line; empty for the lab's wiring
    subject_kind: str = ""  # command, service, http, python; empty for a subject that records its calls
    versions: Mapping[str, str] = field(default_factory=dict)  # by name; empty in old histories
    faults_name: str = ""  # the user's name for the fault set; empty for a text
    lab_files: Mapping[str, str] = field(default_factory=dict)  # replacements of shipped files, by variable
    event: Literal["run_started"] = "run_started"

    @property
    def wired(self) -> Links:
        """Return the links of the run's wiring."""
        return Links.load(self.links) if self.links or self.wiring_arguments else lab_links()


@dataclass(frozen=True)
class EpisodeStarted:
    """An episode starts, in a new world."""

    t: float
    episode: str  # the prompt's key
    prompt: str
    expect: Annotated[Mapping[str, Any] | None, omitted_if(None)]  # the oracle in the prompts file
    recorded: bool = True  # the subject records all of its calls and tries
    turns: list[str] = field(default_factory=list)  # of a conversation; ``prompt`` contains all of them
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of the prompt, for readers of the run
    tool_links: Annotated[list[str] | None, omitted_if(None)] = None  # named in the prompts file
    place: int = 0  # the number of the prompt in its file; 0: not recorded
    event: Literal["episode_started"] = "episode_started"


@dataclass(frozen=True)
class ShadowToxic:
    """A toxic that an attempt of the control would have had in another ``arm``. It was not armed."""

    arm: str
    toxic: PlannedToxic


@dataclass(frozen=True)
class AttemptArmed:
    """The planned toxics are in force, read back."""

    t: float
    episode: str
    attempt: int
    arming_ms: float
    toxics: Annotated[list[PlannedToxic], omitted_if([])]
    configuration: int = 0  # number of the toxics' fault set
    shadows: list[ShadowToxic] = field(default_factory=list)
    event: Literal["attempt_armed"] = "attempt_armed"


@dataclass(frozen=True)
class TurnStarted:
    """The user's next turn of a conversation starts, and its faults are in force."""

    t: float
    episode: str
    attempt: int
    turn: int  # from 2
    text: str = ""  # empty in old histories
    event: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True)
class AttemptEnded:
    """An attempt ended, with this answer or error."""

    episode: str
    attempt: int
    start: float
    end: float
    ms: float
    ended_by: EndedBy  # text: an answer without a report
    report: Annotated[Report | None, omitted_if(None)]
    response: str
    error_type: Annotated[str | None, omitted_if(None)]
    error: Annotated[str | None, omitted_if(None)]
    # the cause if an error ended it: the agent, a server (an error reply) or the network (no whole reply)
    error_class: ErrorClass = "none"
    answers: list[str] = field(default_factory=list)  # one for each turn; the last one is ``response``
    turn_ends: list[float] | None = None  # times of the answers; None unless the turns were sent one by one
    event: Literal["attempt_ended"] = "attempt_ended"

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


@dataclass(frozen=True)
class PipeServer:
    """The subject started an MCP server over a pipe past the lab: no fault can act on its messages.

    The runner polls for them: one that is not named so may be missing.
    """

    t: float
    episode: str
    attempt: int
    # program and script
    command: str
    event: Literal["pipe_server"] = "pipe_server"

    @property
    def text(self) -> str:
        """Return what it is and what helps, as a clause."""
        return f"MCP server over a pipe ({self.command}): wirefault mcp --config FILE"


@dataclass(frozen=True)
class WentPastLab:
    """The subject's program opened ``count`` connections to ``host`` whose requests the lab did not see.

    The runner polls for connections that no link carried: short ones may be missing. The ingress and the
    gateway record connections that they pass on unread.
    """

    t: float
    episode: str
    attempt: int
    host: str
    port: int
    protocol: Literal["tcp", "udp"]
    program: str
    count: int
    # recorded by the gateway: the link that carried it unread, whose toxics could act
    link: Annotated[str, omitted_if("")] = ""
    only_http2: Annotated[bool, omitted_if(False)] = False  # its client speaks only HTTP/2
    # bytes from and to the subject, recorded by the ingress and the gateway
    sent: Annotated[int | None, omitted_if(None)] = None
    received: Annotated[int | None, omitted_if(None)] = None
    event: Literal["went_past_lab"] = "went_past_lab"

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


@dataclass(frozen=True)
class AttemptHealed:
    """The toxics are removed. ``invalid``: the lab's failure in this attempt; None without one."""

    t: float
    episode: str
    attempt: int
    settled: Annotated[bool | None, omitted_if(True)]
    invalid: Annotated[str | None, omitted_if(None)]
    event: Literal["attempt_healed"] = "attempt_healed"


@dataclass(frozen=True)
class WorldRead:
    """All side effects in the episode's world at that time, or the ``error`` if they cannot be read."""

    t: float
    episode: str
    effects: Annotated[list[dict[str, Any]], omitted_if([])]
    error: str | None = None
    event: Literal["world_read"] = "world_read"


@dataclass(frozen=True)
class WorldProbed:
    """State read by the wiring's probe before the episode (after the reset of its world) or after it.

    ``error``: why the reset or the probe failed; ``state`` is then None.
    """

    t: float
    episode: str
    when: Literal["before", "after"]
    state: Any = None
    error: str | None = None
    event: Literal["world_probed"] = "world_probed"


@dataclass(frozen=True)
class EpisodeJudged:
    """The judgement of an episode, which ``wirefault runs verify`` computes again."""

    t: float
    episode: str
    outcome: str
    world: str
    claim: str
    value: str
    flags: Annotated[list[str], omitted_if([])]
    attempts: int
    first_attempt_outcome: str
    faults: Annotated[list[dict[str, Any]], omitted_if([])]
    event: Literal["episode_judged"] = "episode_judged"


@dataclass(frozen=True)
class NeverCalled:
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


@dataclass(frozen=True)
class RunFinished:
    t: float
    completed: bool
    reason: str
    toxics_left: int | None
    never_called: Annotated[list[NeverCalled], omitted_if([])] = field(default_factory=list)
    event: Literal["run_finished"] = "run_finished"


@dataclass(frozen=True)
class SealedFile:
    """The number of lines in a file, and the last line's hash; empty without lines."""

    lines: int
    head: str


@dataclass(frozen=True)
class RunSealed:
    """The runner's last event: the state of the other processes' files, by name.

    The number and the hash on this line seal the runner's own file.
    """

    files: Mapping[str, SealedFile]
    event: Literal["run_sealed"] = "run_sealed"


@dataclass(frozen=True)
class Note:
    t: float
    level: Level
    message: str
    event: Literal["note"] = "note"
