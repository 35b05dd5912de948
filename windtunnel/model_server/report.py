"""The last word: a structured report where the request has a tool for it, else a plain answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.model_server.findings import Finding, Value
from windtunnel.model_server.lexicon import words
from windtunnel.model_server.prose import details_of
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.toolspec import Param, Step, Tool


@dataclass(frozen=True)
class Outcome:
    """How one step ended. ``skipped`` is ``failed`` (it built on a failed one) or ``condition`` (not
    called for)."""

    step: Step
    finding: Finding | None = None
    unsure: bool = False
    error: str = ""
    missing: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def ended_well(self) -> bool:
        return self.finding is not None or self.skipped == "condition"


@dataclass(frozen=True)
class Report:
    """``status`` is ``done``, ``failed`` or ``unsure``; ``values`` what was asked for, in the order asked."""

    status: str
    answer: str
    values: tuple[Value, ...]

    def arguments_for(self, tool: Tool) -> dict[str, Any]:
        """The report as that tool's arguments, whatever it calls them."""
        filled: dict[str, Any] = {}
        for param in tool.params:
            if param.name == "status":
                filled["status"] = self._status(param)
            elif param.kind == "array":
                filled[param.name] = [self._value(value, param) for value in self.values]
            elif param.kind == "string" and not param.enum and (param.required or _is_answer(param)):
                filled[param.name] = self.answer
            elif param.required:
                filled[param.name] = _empty(param)
        return filled

    def _status(self, param: Param) -> str:
        allowed = [str(value) for value in param.enum]
        return self.status if self.status in allowed else "failed"

    def _value(self, value: Value, param: Param) -> Any:
        names = {p.name for p in param.properties}
        if not names:
            return value.value if param.items != "string" else value.text
        return {
            name: field for name, field in (("value", value.value), ("unit", value.unit)) if name in names
        }


def _is_answer(param: Param) -> bool:
    return bool(
        {"answer", "message", "summary", "text", "response", "result", "explanation"} & set(words(param.name))
    )


def _empty(param: Param) -> Any:
    if param.enum:
        return param.enum[0]
    return {"integer": 0, "number": 0, "boolean": False, "object": {}}.get(param.kind, "")


def final_report(outcomes: Sequence[Outcome]) -> Report:
    """Done only if every step ended well; unsure if all that went wrong is a write that cannot be
    confirmed."""
    bad = [outcome for outcome in outcomes if not outcome.ended_well]
    values = tuple(
        value for outcome in _asked(outcomes) for value in (outcome.finding.values if outcome.finding else ())
    )
    status = "done" if not bad else "unsure" if all(outcome.unsure for outcome in bad) else "failed"
    told = [_good(outcome) for outcome in outcomes if outcome.finding is not None]
    told += [_bad(outcome) for outcome in outcomes if not outcome.ended_well and outcome.skipped != "failed"]
    told += [_left(outcome) for outcome in outcomes if outcome.skipped == "condition"]
    told += (
        ["The rest depended on it and was left undone."] if any(o.skipped == "failed" for o in bad) else []
    )
    return Report(status, " ".join(part for part in told if part), values)


def _asked(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The steps whose values were asked for; what only fed a later calculation or translation is not among
    them."""
    kept = []
    for index, outcome in enumerate(outcomes):
        fed = any(
            later.finding and not later.finding.writes and later.step.refers and _transforms(later.step.tool)
            for later in outcomes[index + 1 :]
        )
        if outcome.step.asked and outcome.finding and not outcome.finding.writes and not fed:
            kept.append(outcome)
    return kept


def _transforms(tool: Tool) -> bool:
    kinds = {role_of(param, tool).kind for param in tool.params}
    return bool(kinds & {"expression", "language", "currency", "unit"}) and not kinds & {"place"}


def _good(outcome: Outcome) -> str:
    finding = outcome.finding
    if finding is None:
        return ""
    details = "" if finding.writes or len(finding.values) > 1 else details_of(finding)
    sentence = finding.sentence
    if details and not _transforms(finding.tool) and sentence.endswith("."):
        return f"{sentence[:-1]} ({details})."
    return sentence


def _bad(outcome: Outcome) -> str:
    what = outcome.step.text.strip(" .?!")[:80]
    if outcome.missing:
        lacking = " and the ".join(name.replace("_", " ") for name in outcome.missing)
        return f'I could not do "{what}": the {lacking} is missing.'
    if outcome.unsure:
        return f'I could not confirm "{what}": {outcome.error.rstrip(".")}; it may or may not have happened.'
    if outcome.error:
        return f'I could not do "{what}": {outcome.error.rstrip(".")}.'
    return f'I did not get to "{what}".'


def _left(outcome: Outcome) -> str:
    return f'"{outcome.step.text.strip(" .?!")[:80]}" was not called for.'


_GREETINGS = ("Hello! How can I help you?", "Hello, nice to hear from you!")


def small_talk(task: str, seed: int) -> str:
    """A direct answer to what needs no tool."""
    said = set(words(task))
    if said & {"thanks", "thank", "thx", "cheers"}:
        return "You are welcome!"
    if {"who", "name", "yourself", "what"} & said and {"you", "your", "yourself"} & said:
        return "I am the lab's scripted model, a deterministic stand-in that calls the tools it is given."
    if "joke" in said:
        return "Why did the packet cross the network? It was retried."
    if said & {"bye", "goodbye", "farewell"}:
        return "Goodbye!"
    if said & {"hello", "hi", "hey", "greet", "morning", "evening", "afternoon", "greetings"}:
        return _GREETINGS[seed % len(_GREETINGS)]
    if {"how", "are", "you"} <= said:
        return "I am fine, thank you."
    if said & {"haiku", "poem", "rhyme", "limerick", "verse", "story"}:
        return "Packets drift at dawn, a quiet link holds its breath, the reply arrives."
    return "I can answer that only in general terms: none of my tools is made for it, so I used none."
