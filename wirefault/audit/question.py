"""A question of the audit: what does the agent do when this happens to that call? Pure.

Each question is a file of ``wirefault.audit.questions``; installed packages add some by the entry point group
``wirefault.questions``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

from wirefault.audit.calls import Call
from wirefault.core.plugins import WithPlugins

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
PLACES: Mapping[Where, str] = {
    "each_write": "each write",
    "first_write": "the first write",
    "first_read": "the first read",
    "read_with_second_source": "the first read with a figure that a later reply of another call has, too",
    "first_model": "the first model call",
    "model_that_writes": "each model call that leads to a write, else the first",
    "first_model_and_that_writes": "the first model call, and each that leads to a write",
    "model_after_write": "the first model call after each write",
    "first_tool": "the first call of an MCP tool",
}
PATIENCE = "patience"
"""As a parameter's value: the seconds until the gateway ends a hang."""
FIELD = "its field"
"""As a parameter's value: the path of the figure that a later reply of another call has, too."""
TOOL = "its tool"
"""As a parameter's value: the name of the call's tool."""


@dataclass(frozen=True)
class Question:
    """One question."""

    name: str
    about: About
    sentence: str
    """What happens to the call, after its name and a comma."""
    where: Where
    fault: str
    """The name of the fault in the catalogue."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    lasting: bool = False
    """The fault meets all later calls with the key, too; otherwise one try."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the fault set's entry."""
    default: bool = True
    """Whether the audit asks it unless told otherwise."""
    hangs: bool = False
    needs_stream: bool = False
    needs_session: bool = False
    """Only calls of MCP that name a session: over pipes and in stateless requests none does."""
    needs_resume: bool = False
    """Asked by default where a command is named that resumes the agent, and only there."""
    rule: str = ""
    """The findings that usually answer it, for the documentation."""
    mistaken: tuple[str, ...] = ()
    """Known false positives."""

    def calls(self, clean: Sequence[Call]) -> list[Call]:
        """Return the calls of the clean run about which it asks."""
        return [
            call
            for call in _CHOSEN[self.where](clean)
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


def _first(calls: Sequence[Call]) -> list[Call]:
    return list(calls[:1])


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


_CHOSEN: Mapping[Where, Callable[[Sequence[Call]], list[Call]]] = {
    "each_write": _writes,
    "first_write": lambda clean: _first(_writes(clean)),
    "first_read": lambda clean: _first([c for c in clean if c.kind == "read"]),
    "read_with_second_source": lambda clean: _first(
        [c for c in clean if c.kind == "read" and c.shared_field]
    ),
    "first_model": lambda clean: _first(_models(clean)),
    "model_that_writes": _that_writes,
    "first_model_and_that_writes": lambda clean: list(
        {call.number: call for call in _first(_models(clean)) + _that_writes(clean)}.values()
    ),
    "model_after_write": _after_write,
    "first_tool": lambda clean: _first([c for c in clean if c.of_mcp]),
}


def _own() -> Mapping[str, Question]:
    package = import_module("wirefault.audit.questions")
    modules = [import_module(f"{package.__name__}.{each.name}") for each in iter_modules(package.__path__)]
    questions: list[Question] = [module.QUESTION for module in modules]
    order: Sequence[About] = ("write", "read", "model", "mcp")
    # defaults first, so that the ids of an audit stay the same when others are asked, too
    questions.sort(key=lambda each: (not each.default, order.index(each.about)))
    return {question.name: question for question in questions}


def _checked(name: str, value: object) -> Question:
    if not isinstance(value, Question) or value.name != name:
        raise TypeError(f"must be a wirefault.audit.question.Question named {name!r}")
    return value


QUESTIONS: Mapping[str, Question] = WithPlugins("wirefault.questions", _own, _checked)


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
        """What happens to the call; a message over stdio has no headers."""
        sentence = self.question.sentence
        return sentence.partition(" and Retry-After")[0] if self.call.over_stdio else sentence

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
