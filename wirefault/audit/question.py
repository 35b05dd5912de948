"""A question of the audit: what does the agent do when this happens to that call? Pure.

``questions.py`` has the table of all questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wirefault.audit.calls import Call

About = Literal["write", "read", "model", "mcp"]
Where = Literal[
    "each_write",  # executed in the clean run
    "first_write",
    "first_read",
    "read_with_second_source",  # a later reply of another call has one of its figures, too
    "first_model",
    "model_that_writes",  # whose reply calls a write, else the first model call
    "first_model_and_that_writes",
    "model_after_write",  # the first one after each executed write
    "first_tool",  # the first call of an MCP tool
]
PATIENCE = "patience"
"""As a parameter's value: the seconds until the gateway ends a hang."""
FIELD = "its field"
"""As a parameter's value: the path of the figure that a later reply of another call has, too."""
TOOL = "its tool"
"""As a parameter's value: the name of the call's tool."""


@dataclass(frozen=True)
class Place:
    """Where a question applies."""

    about: About
    text: str
    choose: Callable[[Sequence[Call]], list[Call]]
    """The calls of the clean run there."""


@dataclass(frozen=True)
class Question:
    """A row of the table."""

    name: str
    sentence: str
    """What happens to the call, after its name and a comma."""
    where: Where
    fault: str
    """The name of the fault in the catalogue."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the fault set's entry."""
    lasting: bool = False
    """The fault meets all later calls with the key, too; otherwise one try."""
    default: bool = True
    """Whether the audit asks it unless told otherwise."""
    hangs: bool = False
    needs_stream: bool = False
    needs_session: bool = False
    """Only calls of MCP that name a session: over pipes and in stateless requests none does."""
    needs_resume: bool = False
    """Asked by default where a command is named that resumes the agent, and only there."""
    over_stdio: str = ""
    """The sentence for a call over pipes, which has no headers; empty if it is the same."""
    right: str = ""
    """The agent's behaviour if all is well, for the documentation."""
    findings: tuple[str, ...] = ()
    """The rules whose findings usually answer it otherwise."""
    mistaken: tuple[str, ...] = ()
    """Known false positives."""

    @property
    def about(self) -> About:
        return PLACES[self.where].about

    def calls(self, clean: Sequence[Call]) -> list[Call]:
        """Return the calls of the clean run about which it asks."""
        return [
            call
            for call in PLACES[self.where].choose(clean)
            if (call.streams or not self.needs_stream) and (call.in_session or not self.needs_session)
        ]

    def entry(self, id: str, call: Call, patience: float) -> dict[str, Any]:
        """Return the fault set's entry that makes the fault certain at that call."""
        known: dict[Any, Any] = {PATIENCE: patience, TOOL: call.key.name, FIELD: call.shared_field}
        values = {
            name: known.get(value, value) if isinstance(value, str) else value
            for name, value in self.parameters.items()
        }
        if self.lasting:
            when: dict[str, Any] = {"nth": f"{call.ordinal}-"}
        else:
            when = {"nth": call.ordinal, "at_most": 1}
        return {
            "id": id,
            "fault": self.fault,
            "links": [call.key.link],
            "with": values,
            "when": when,
            **self.more,
            "only": {**self.more.get("only", call.only), "episodes": [id]},
        }


def _writes(clean: Sequence[Call]) -> list[Call]:
    return [call for call in clean if call.kind == "write" and call.executed]


def _reads(clean: Sequence[Call]) -> list[Call]:
    return [call for call in clean if call.kind == "read"]


def _models(clean: Sequence[Call]) -> list[Call]:
    return [call for call in clean if call.kind == "model"]


def _that_writes(clean: Sequence[Call]) -> list[Call]:
    models = _models(clean)
    return [call for call in models if call.calls_write] or models[:1]


def _after_write(clean: Sequence[Call]) -> list[Call]:
    """Return the first model call after each executed write; several writes may share it."""
    chosen: dict[int, Call] = {}
    for place, call in enumerate(clean):
        if call.kind == "write" and call.executed:
            later = next((each for each in clean[place + 1 :] if each.kind == "model"), None)
            if later is not None:
                chosen[later.number] = later
    return list(chosen.values())


PLACES: Mapping[Where, Place] = {
    "each_write": Place("write", "each write", _writes),
    "first_write": Place("write", "the first write", lambda clean: _writes(clean)[:1]),
    "first_read": Place("read", "the first read", lambda clean: _reads(clean)[:1]),
    "read_with_second_source": Place(
        "read",
        "the first read with a figure that a later reply of another call has, too",
        lambda clean: [call for call in _reads(clean) if call.shared_field][:1],
    ),
    "first_model": Place("model", "the first model call", lambda clean: _models(clean)[:1]),
    "model_that_writes": Place(
        "model", "each model call that leads to a write, else the first", _that_writes
    ),
    "first_model_and_that_writes": Place(
        "model",
        "the first model call, and each that leads to a write",
        lambda clean: list({c.number: c for c in _models(clean)[:1] + _that_writes(clean)}.values()),
    ),
    "model_after_write": Place("model", "the first model call after each write", _after_write),
    "first_tool": Place(
        "mcp", "the first call of an MCP tool", lambda clean: [c for c in clean if c.of_mcp][:1]
    ),
}


@dataclass(frozen=True)
class Ask:
    """A question about one call: an episode."""

    id: str
    question: Question
    call: Call

    @property
    def text(self) -> str:
        return f"{self.call.text}, {self.sentence}"

    @property
    def sentence(self) -> str:
        """What happens to the call."""
        other = self.question.over_stdio if self.call.over_stdio else ""
        return other or self.question.sentence

    @property
    def runs(self) -> int:
        """How often it is asked; once more where its runs differ or took another way."""
        return 1 if self.question.hangs else 2


def plan_asks(questions: Sequence[Question], clean: Sequence[Call]) -> Iterator[Ask]:
    """Yield the questions about each call, numbered."""
    number = 0
    for question in questions:
        for call in question.calls(clean):
            number += 1
            yield Ask(f"q{number:02}", question, call)
