"""The improviser: plans one call of a tool that no playbook knows, from its schema alone, or none. Pure.

Every word of the prompt must be accounted for: by the tool's own words, by an argument, or as a word that
changes nothing. So it declines conditions, negations, second requests and unused figures, and a call
covers the whole request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, compact
from wirefault.model_server.language import (
    WORDS,
    Evidence,
    bare,
    blanked,
    gather,
    listed,
    name_stems,
    stem,
    stems,
    verb_class,
    words_of,
)
from wirefault.model_server.playbooks import Finding, PlannedCall, Step, Value, made_up_number, scalars

_MAX_PROMPT, _MAX_SENTENCE = 400, 2000  # characters
_FIXED = ("quote", "path", "url", "email", "id")  # never contains an enum's value
_NAMED_KINDS = (
    "date",
    "time",
    "email",
    "url",
    "path",
    "id",
)  # a parameter of such a name takes no other
_SILENT, _QUESTIONS, _TURNING, _NOUNS_TOO = map(listed, ("silent", "questions", "turning", "nouns_too"))
_UNDOING = listed("undoing")
_TAKES = {kind: stems(words) for kind, words in WORDS["takes"].items()}


def improvise(prompt: str, tools: Sequence[Mapping[str, Any]], today: date | None) -> list[Step]:
    """Plan one step for the whole prompt; none unless exactly one tool surely fits."""
    text = bare(" ".join(prompt.split()))
    evidence = gather(text, today)
    if not text or len(text) > _MAX_PROMPT or re.search(r"[.?!;]\s", blanked(text, evidence)):
        return []
    fits = [fit for tool in tools if (fit := _Fit(text, evidence, tool["function"]).step())]
    best = [step for score, step in fits if score == max(score for score, _ in fits)]
    return best if len(best) == 1 else []


def verb_of(function: Mapping[str, Any]) -> str:
    """Classify a tool by the verb that begins or ends its name, else by its description's first word."""
    words = words_of(str(function["name"])) or [""]
    sure = [word for word in (words[0], words[-1]) if word not in _NOUNS_TOO]
    candidates = [*sure, *re.findall(r"[A-Za-z]+", as_text(function.get("description")))[:1], words[0]]
    return next(filter(None, map(verb_class, candidates)), "")


def undoing_call(
    call: PlannedCall, tools: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> PlannedCall | None:
    """Return the call that undoes that one: a tool that deletes or cancels the same kind of thing.

    Its required arguments must be known from the call, or from ``facts``, its result.
    """
    if _undoes(call.name):
        return None
    known, subject = {**facts, **call.arguments}, _subject(call.name)
    for function in (as_object(tool["function"]) for tool in tools):
        name = str(function["name"])
        required = as_list(as_object(function.get("parameters")).get("required"))
        if _undoes(name) and subject & _subject(name) and set(required) <= set(known):
            return PlannedCall(name, {argument: known[argument] for argument in required})
    return None


def _undoes(name: str) -> bool:
    return any(verb_class(word) == "delete" or word in _UNDOING for word in words_of(name))


def _subject(name: str) -> frozenset[str]:
    """Return the stems of the words that name things: ``order`` of ``place_order``."""
    things = [word for word in words_of(name) if not verb_class(word) or word in _NOUNS_TOO]
    return frozenset(map(stem, things)) - _SILENT


def _turns(word: str) -> bool:
    """Return whether the word may change a sentence's meaning: a negation, a condition."""
    return word in _TURNING or word.endswith("n't")


@dataclass(frozen=True)
class _Parameter:
    """One parameter of a tool."""

    name: str
    required: bool
    schema: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its JSON type without null; empty if it may have several."""
        options = as_objects(self.schema.get("anyOf")) or [self.schema]
        kinds = [kind for each in options if (kind := as_text(each.get("type"))) not in ("", "null")]
        return kinds[0] if len(kinds) == 1 else ""

    @property
    def stems(self) -> frozenset[str]:
        texts = [as_text(self.schema.get("description")), *map(str, self.schema.get("enum", []))]
        return name_stems(self.name) | stems(" ".join(texts))

    def affinity(self, piece: Evidence) -> float:
        """Return how well evidence of that kind fits its name and type; 0: not at all."""
        names, form = name_stems(self.name), self.schema.get("format")
        if self.kind in ("integer", "number"):
            fits = isinstance(piece.number, int) or (piece.number is not None and self.kind == "number")
            return 2 if fits and piece.kind in ("number", "id") else 0
        only = [kind for kind in _NAMED_KINDS if names & _TAKES[kind] or form == kind]
        if self.kind != "string" or "enum" in self.schema or (form and not only):
            return 0
        if only and piece.kind not in only:  # an id may be a figure, or any text in quotes
            return 0.5 if "id" in only and piece.kind in ("number", "quote") else 0
        if only:
            return 3
        return 2 if names & _TAKES.get(piece.kind, frozenset()) else int(piece.kind == "quote")


@dataclass
class _Fit:
    """The fit of a prompt to one tool."""

    text: str
    evidence: Sequence[Evidence]
    function: Mapping[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    taken: list[Evidence] = field(default_factory=list)  # evidence used by the arguments

    def __post_init__(self) -> None:
        schema = as_object(self.function.get("parameters"))
        required, properties = as_list(schema.get("required")), as_object(schema.get("properties")).items()
        self.parameters = [_Parameter(name, name in required, as_object(part)) for name, part in properties]
        self.verb, self.name = verb_of(self.function), str(self.function["name"])
        self.own = name_stems(self.name) | stems(as_text(self.function.get("description")))

    def step(self) -> tuple[int, Step] | None:
        """Return a score and the step, if the tool does what the prompt asks and every word is explained."""
        words = self._words(self.evidence)
        leading = next((word for word in words.values() if word not in _SILENT - _QUESTIONS), "")
        if not self._does(leading) or not self._bind():
            return None
        outside = {at: word for at, word in self._words(self.taken).items() if word != leading}
        own = self.own.union(*(p.stems for p in self.parameters))
        turning = {word for word in outside.values() if _turns(word)}
        known = {word for word in outside.values() if word in _SILENT | _QUESTIONS or stem(word) in own}
        left = [at for at, word in outside.items() if word not in known - turning]
        # a question is not a search: its subject must be in the tool's own words
        if left and (leading in _QUESTIONS or not self._takes_rest(left[0])):
            return None
        spoken = frozenset(map(stem, {*words.values()} - _SILENT - _QUESTIONS))
        mentioned = len(spoken & self.own)
        omitted = [p for p in self.parameters if p.name not in self.arguments]
        explained = self.own.union(*(p.stems for p in self.parameters if p not in omitted))
        # the prompt names an option that the call leaves out: "unread messages"
        option = spoken & frozenset().union(*(p.stems for p in omitted)) - explained
        if option or not mentioned or any(p.required for p in omitted):
            return None
        call, score = PlannedCall(self.name, self.arguments), mentioned + 2 * len(self.arguments)
        return score, Step(self.text, call, self._read, self._pretend, self.verb != "read")

    def _words(self, taken: Sequence[Evidence]) -> dict[int, str]:
        """Return the words outside the evidence, by their start."""
        words = re.finditer(r"(?<![\0'’\w])[^\W_][\w'’-]*", blanked(self.text, taken))
        return {word.start(): word[0].casefold().replace("’", "'") for word in words}

    def _does(self, leading: str) -> bool:
        """Return whether the tool does what the prompt's first verb requests; a question requests a read."""
        kind = "read" if leading in _QUESTIONS else verb_class(leading)
        unclear = kind in ("", "change") or self.verb == ""
        return stem(leading) in self.own if unclear else kind == self.verb

    def _bind(self) -> bool:
        """Assign every piece of evidence to the one parameter that it fits; False if that is not clear."""
        self._bind_enums()
        for piece in self.evidence:
            unbound = [p for p in self.parameters if p.name not in self.arguments]
            fits = [(fit + 2 * p.required, p) for p in unbound if (fit := p.affinity(piece))]
            best = [p for fit, p in fits if fit == max(fit for fit, _ in fits)]
            if not any(piece.start < other.end and other.start < piece.end for other in self.taken):
                if len(best) != 1:
                    return False
                takes_number = best[0].kind in ("integer", "number")
                self.arguments[best[0].name] = piece.number if takes_number else piece.value
                self.taken.append(piece)
        return True

    def _bind_enums(self) -> None:
        """Assign to each enum parameter the value that the prompt names outside quotes."""
        fixed = [piece for piece in self.evidence if piece.kind in _FIXED]
        choices = [(p, value) for p in self.parameters for value in as_list(p.schema.get("enum"))]
        for parameter, value in choices:
            written = r"[ _-]?".join(map(re.escape, words_of(str(value)))) or re.escape(str(value))
            outside = blanked(self.text, [*fixed, *self.taken])
            match = re.search(rf"(?<![\w-]){written}(?![\w-])", outside, re.IGNORECASE)
            if match and parameter.name not in self.arguments:
                self.arguments[parameter.name] = value
                self.taken.append(Evidence("enum", match[0], *match.span()))

    def _takes_rest(self, start: int) -> bool:
        """Assign the rest of the sentence, if it is only words, to a read's one missing text."""
        missing = [p for p in self.parameters if p.required and p.name not in self.arguments]
        turning = any(_turns(word) for at, word in self._words([]).items() if at >= start)
        broken = turning or any(each.end > start for each in self.taken)
        if broken or self.verb != "read" or len(missing) != 1:
            return False
        self.arguments[missing[0].name] = self.text[start:]
        takes = name_stems(missing[0].name) & _TAKES["rest"]
        return bool(takes) and missing[0].kind == "string" and "enum" not in missing[0].schema

    def _read(self, data: Any) -> Finding:
        """Pass the whole result on; the requested value is known if the result has only one."""
        arguments = ", ".join(f"{name}: {value}" for name, value in self.arguments.items())
        sentence = f"{self.name} ({arguments}) returned {data if isinstance(data, str) else compact(data)}"
        facts = {"": data} if isinstance(data, int | float) else scalars(data)
        values = [Value(fact, None, name) for name, fact in facts.items() if self.verb == "read"]
        requested = tuple(values) if len(values) == 1 else ()
        return Finding(requested, sentence[:_MAX_SENTENCE], {**self.arguments, **facts})

    def _pretend(self, drawn: int) -> Finding:
        return replace(self._read(made_up_number(drawn)), facts=self.arguments)
