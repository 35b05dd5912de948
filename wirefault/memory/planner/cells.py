"""The cells that the planner can try: a question about a call at one dose. Pure.

The questions are those of the audit, and some about tools that lie. Those whose fault has a dose are a ladder
of cells, from the smallest dose to the largest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.audit.calls import Call
from wirefault.audit.question import Question
from wirefault.audit.questions import PLANNER_QUESTIONS, QUESTIONS

_LADDERS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "hang": ("limit", (2, 6, 15)),
    "api_timeout": ("limit", (2, 6, 15)),
    "wrong_value": ("severity", (0.3, 0.6, 0.9)),
    "entity_swap": ("severity", (0.3, 0.6, 0.9)),
    "fabricated": ("severity", (0.3, 0.6, 0.9)),
}
"""By fault the number that is raised, and its doses."""
DOSE_NAMES = frozenset(name for name, _ in _LADDERS.values())


@dataclass(frozen=True)
class Cell:
    """A question about a call at one dose."""

    id: str
    ladder: str
    """The same for all doses of the question about the call."""
    rung: int
    text: str
    fault: str
    link: str
    component: str
    """The tool or the model, as memory names it."""
    entries: tuple[Mapping[str, Any], ...]
    """Of a fault set."""
    prompts: tuple[str, ...]
    """Ids of the prompts that lead to the call."""
    dose_name: str = ""
    dose: float | None = None
    seconds: float = 0.0
    """At most so long does the fault delay an episode."""
    parts: tuple[str, ...] = ()
    """Of a pair: the ids of both cells."""

    @property
    def place(self) -> str:
        """The dose in words; empty without one."""
        return "" if self.dose is None else f"{self.dose_name} {self.dose:g}"


def cells_for(clean: Mapping[str, Sequence[Call]], *, every_question: bool = False) -> list[Cell]:
    """All cells of the calls in clean episodes, by prompt, in the order of the audit's questions.

    A question is about each call once, whatever prompts lead to it. ``every_question``: also those that the
    audit asks only if they are named.
    """
    questions = [*QUESTIONS.values(), *PLANNER_QUESTIONS]
    chosen = [each for each in questions if (each.default or every_question) and not each.needs_resume]
    cells: dict[str, Cell] = {}
    for question in chosen:
        for prompt, remembered in clean.items():
            for call in question.calls(remembered):
                for cell in _ladder(question, call):
                    before = cells.get(cell.id)
                    prompts = (*(before.prompts if before else ()), prompt)
                    cells[cell.id] = _with_prompts(cell, prompts)
    return list(cells.values())


def _with_prompts(cell: Cell, prompts: Sequence[str]) -> Cell:
    return Cell(**{**cell.__dict__, "prompts": tuple(dict.fromkeys(prompts))})


def _ladder(question: Question, call: Call) -> Iterator[Cell]:
    name, doses = _LADDERS.get(question.fault, ("", ()))
    behind = f"model {call.key.link}" if call.kind == "model" else f"tool {call.key.link} {call.key.name}"
    ladder = _slug(f"{question.name}-{call.key.link}-{'' if call.kind == 'model' else call.key.name}")
    ladder += f"-{call.ordinal}" if call.ordinal > 1 else ""
    for rung, dose in enumerate(doses or (None,)):
        id = ladder if dose is None else f"{ladder}-{dose:g}"
        entry = question.entry(id, call, dose or 0.0)
        entry["only"] = {key: value for key, value in entry["only"].items() if key != "episodes"}
        if dose is not None:
            entry["with"] = {**entry["with"], name: dose}
        yield Cell(
            id=id,
            ladder=ladder,
            rung=rung,
            text=f"{call.text} of {call.key.link}, {question.sentence}",
            fault=question.fault,
            link=call.key.link,
            component=behind,
            entries=(entry,),
            prompts=(),
            dose_name=name,
            dose=dose,
            seconds=float(dose or 0) if question.hangs else 0.0,
        )


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-").lower()


def paired(first: Cell, second: Cell) -> Cell:
    """Both cells together, in the episodes of the prompts that lead to both calls."""
    return Cell(
        id=f"{first.id}+{second.id}",
        ladder=f"{first.ladder}+{second.ladder}",
        rung=0,
        text=f"{first.text}; and {second.text}",
        fault=f"{first.fault} + {second.fault}",
        link=first.link,
        component=first.component,
        entries=(*first.entries, *second.entries),
        prompts=tuple(each for each in first.prompts if each in second.prompts),
        seconds=first.seconds + second.seconds,
        parts=(first.id, second.id),
    )
