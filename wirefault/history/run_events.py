"""What the runner records of a run: its episodes and attempts, what it read, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from wirefault.core.sockets import Address
from wirefault.history.lines import usually
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Links, lab_links
from wirefault.wiring.prompts import PromptsSource

RefusedBecause = Literal["unknown_tool", "bad_arguments", "malformed"]


@dataclass(frozen=True)
class ModelCall:
    """One HTTP try at the model. ``ordinal`` counts the attempt's model requests from 1.

    ``reply_digest``: BLAKE2b (8 bytes, hexadecimal) of the reply's body; empty where it was not read whole.
    """

    t: float
    episode: str
    attempt: int
    ordinal: int
    try_: Annotated[int, usually(1)]
    ms: float
    status: int | None
    error: Annotated[str | None, usually(None)]
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
    try_: Annotated[int, usually(1)]
    start: float
    end: float
    ms: float
    timeout_ms: float
    status: int | None
    error: Annotated[str | None, usually(None)]
    reply_bytes: int
    write: Annotated[bool, usually(False)]
    idempotency_key: Annotated[str | None, usually(None)]
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
    error: Annotated[str | None, usually(None)]
    side_effect: str
    result: str
    fallback_used: Annotated[bool, usually(False)]
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


SELF_TEST = "self-test subject: scripted model"


Level = Literal["info", "warning", "error"]


EndedBy = Literal["report", "text", "empty", "limit", "exception"]


ErrorClass = Literal["agent", "server", "network", "none"]


@dataclass(frozen=True)
class RunStarted:
    """``prompts`` are planned; ``skipped_prompts`` entries of the prompts file were bad and are not run.

    ``links``: those of the wiring, as ``Links.dump`` gives them; in a history without any, the lab's.
    ``wiring_arguments``: the words of the command line that give this wiring, none for the lab's own.
    ``versions``: what it was flown with, by name; empty in the history of a version that did not say.
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
    wiring_arguments: list[str] = field(default_factory=list)
    subject_kind: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    event: Literal["run_started"] = "run_started"

    @property
    def wired(self) -> Links:
        """The links of the run's wiring."""
        return Links.load(self.links) if self.links or self.wiring_arguments else lab_links()

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
    expect: Annotated[Mapping[str, Any] | None, usually(None)]
    recorded: bool = True
    turns: list[str] = field(default_factory=list)
    event: Literal["episode_started"] = "episode_started"


@dataclass(frozen=True)
class ShadowToxic:
    """A toxic that an attempt of the control would have had in another ``arm``. It was not armed."""

    arm: str
    toxic: PlannedToxic


@dataclass(frozen=True)
class AttemptArmed:
    """The plan's toxics are in force, read back. ``configuration``: the fault set that it was drawn from.

    ``shadows``: the toxics of other arms that it would have had there.
    """

    t: float
    episode: str
    attempt: int
    arming_ms: float
    toxics: Annotated[list[PlannedToxic], usually([])]
    configuration: int = 0
    shadows: list[ShadowToxic] = field(default_factory=list)
    event: Literal["attempt_armed"] = "attempt_armed"


@dataclass(frozen=True)
class TurnBegun:
    """The user's next turn of a conversation begins, from 2 on; what strikes in it is in force.

    ``text``: what is said in it; empty in histories of before it was kept.
    """

    t: float
    episode: str
    attempt: int
    turn: int
    text: str = ""
    event: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True)
class AttemptEnded:
    """``ended_by``: report, text (an answer without a report), empty, limit or exception.

    ``error_class``: what failed where an error ended it: the agent itself, a server (it answered with an
    error), or the network (no whole answer came). ``answers``: those to the turns of a conversation, the last
    of which is ``response``; ``turn_ends``: when each of them was there, None where the subject was not asked
    turn by turn, or by a version that did not keep it.
    """

    episode: str
    attempt: int
    start: float
    end: float
    ms: float
    ended_by: EndedBy
    report: Annotated[Report | None, usually(None)]
    response: str
    error_type: Annotated[str | None, usually(None)]
    error: Annotated[str | None, usually(None)]
    error_class: ErrorClass = "none"
    answers: list[str] = field(default_factory=list)
    turn_ends: list[float] | None = None
    event: Literal["attempt_ended"] = "attempt_ended"


@dataclass(frozen=True)
class WentPastLab:
    """In this attempt ``count`` connections of a program of the subject's were seen that no link carried.

    They led to ``host``, an address, and ``port``. What was open only between two looks was not seen.
    """

    t: float
    episode: str
    attempt: int
    host: str
    port: int
    protocol: Literal["tcp", "udp"]
    program: str
    count: int
    event: Literal["went_past_lab"] = "went_past_lab"

    @property
    def text(self) -> str:
        """What went where, as a part of a sentence."""
        udp = " by UDP" if self.protocol == "udp" else ""
        often = f" ({self.count} connections)" if self.count > 1 else ""
        return f"{self.program} to {Address(self.host, self.port)}{udp}{often}"


@dataclass(frozen=True)
class AttemptHealed:
    """``invalid`` names what went wrong with the lab in this attempt; it was not run if it never armed."""

    t: float
    episode: str
    attempt: int
    settled: Annotated[bool | None, usually(True)]
    invalid: Annotated[str | None, usually(None)]
    event: Literal["attempt_healed"] = "attempt_healed"


@dataclass(frozen=True)
class WorldRead:
    """All side effects in the episode's world at that time. ``error`` if it could not be read."""

    t: float
    episode: str
    effects: Annotated[list[dict[str, Any]], usually([])]
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
    """The verdict on an episode as it was given; ``wirefault runs verify`` gives it again."""

    t: float
    episode: str
    outcome: str
    world: str
    claim: str
    value: str
    flags: Annotated[list[str], usually([])]
    attempts: int
    first_attempt_outcome: str
    faults: Annotated[list[dict[str, Any]], usually([])]
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
