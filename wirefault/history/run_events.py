"""Events of the runner: the run, its episodes and attempts, their worlds, and the end."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal

from msgspec import field

from wirefault.history.lines import BaseEvent, Clock, Record
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link, Links, lab_links
from wirefault.wiring.prompts import PromptsSource

_SIMILAR = 0.7


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

    @property
    def earlier_answers(self) -> list[str]:
        """Return the replies of a conversation before its last turn, which may have no answer."""
        return self.answers[:-1] if self.ended_by in ("report", "text", "empty") else self.answers


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
    word: str = ""  # what it showed, see ``judging.ending``


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
