"""The improviser: one call of a tool that no playbook knows, from its schema alone, or none. Pure.

It is sure only if every word of the prompt is accounted for: by the tool's own words, by an argument, as a
word that changes nothing, or (of a read) by the result. So a condition, a negation, a second request or an
unused figure makes it decline, and what it does it does for the whole of what was asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from math import prod
from typing import Any

from windtunnel.model_server.answer import Step
from windtunnel.model_server.evidence import Evidence, bare, blanked, gather, plain_words
from windtunnel.model_server.offered import OfferedTool, Parameter, read_tool
from windtunnel.model_server.reading import WholeResult
from windtunnel.model_server.words import WORDS, listed, stem, stems, verb_class, words_of

_LONGEST_PROMPT = 400
_MOST_ASSIGNMENTS = 5000
_MOST_UNEXPLAINED = 3
_FIXED = ("quote", "path", "url", "email", "id", "message")  # holds no value of an enum
_SILENT, _QUESTIONS, _TURNING = map(listed, ("silent", "questions", "turning"))
_HINTS, _TAKES = ({key: stems(words) for key, words in WORDS[name].items()} for name in ("hints", "takes"))


def improvise(prompt: str, tools: Sequence[Mapping[str, Any]], today: date | None) -> list[Step]:
    """One step for the whole prompt, or none if no tool is surely the one that is meant."""
    text = bare(" ".join(prompt.split()))
    evidence = gather(text, today)
    if not text or len(text) > _LONGEST_PROMPT or re.search(r"[.?!;]\s", blanked(text, evidence)):
        return []
    fits = [fit for tool in map(read_tool, tools) if (fit := _Prompt(text, evidence, tool).fit())]
    best = max((score for score, _ in fits), default=0)
    steps = [step for score, step in fits if score == best]
    return steps if len(steps) == 1 else []


def _plain(word: str) -> str:
    return word.casefold().replace("’", "'")


def _is_turning(word: str) -> bool:
    return _plain(word) in _TURNING or _plain(word).endswith("n't")


@dataclass(frozen=True)
class _Prompt:
    """A prompt held against one tool."""

    text: str
    evidence: Sequence[Evidence]
    tool: OfferedTool

    def fit(self) -> tuple[int, Step] | None:
        """The call that accounts for every word, if the tool does what the prompt's verb says, and how sure
        it is."""
        words = [_plain(match[0]) for match in plain_words(self.text, self.evidence)]
        leading = next((word for word in words if word not in _SILENT - _QUESTIONS), "")
        bound = self._bind() if self._does(leading) else None
        if bound is None:
            return None
        arguments, taken = bound
        outside = [match for match in plain_words(self.text, taken) if _plain(match[0]) != leading]
        left = [match for match in outside if not self._accounted(_plain(match[0]))]
        # a question is no search: what it is about must come back
        rest = {} if leading in _QUESTIONS else self._rest_of_sentence(left, taken, arguments)
        unexplained = frozenset(stem(match[0]) for match in left if match[0] not in "".join(rest.values()))
        arguments |= rest
        most = _MOST_UNEXPLAINED if self.tool.verb == "read" else 0
        missing = any(p.required and p.name not in arguments for p in self.tool.parameters)
        said = frozenset(stem(word) for word in words if word not in _SILENT | _QUESTIONS)
        turning = any(_is_turning(match[0]) for match in left)
        if missing or turning or len(unexplained) > most or self._leaves_option(said, arguments):
            return None
        mentioned = 2 * len(said & self.tool.name_stems) + len(said & self.tool.stems)
        score = mentioned + 2 * len(arguments)
        reading = WholeResult(self.tool, self.text, arguments, unexplained)
        step = Step(self.text, self.tool.name, arguments, reading, self.tool.verb != "read")
        return (score, step) if mentioned and score >= 2 + 2 * len(unexplained) else None

    def _does(self, leading: str) -> bool:
        """Whether the prompt's first verb is what the tool does; a question asks for a read."""
        kind = "read" if leading in _QUESTIONS else verb_class(leading)
        if kind in ("", "change") or self.tool.verb == "":
            return stem(leading) in self.tool.stems
        return kind == self.tool.verb

    def _accounted(self, word: str) -> bool:
        same_verb = verb_class(word) != "" and verb_class(word) == self.tool.verb
        known = word in _SILENT | _QUESTIONS or stem(word) in self.tool.stems or same_verb
        return known and not _is_turning(word)

    def _leaves_option(self, said: frozenset[str], arguments: Mapping[str, Any]) -> bool:
        """Whether the prompt seems to speak of an option that the call leaves out ("unread messages")."""
        bound = [p.stems for p in self.tool.parameters if p.name in arguments]
        options = [p.stems for p in self.tool.parameters if p.name not in arguments]
        return bool(said & frozenset().union(*options) - self.tool.own_stems.union(*bound))

    def _bind(self) -> tuple[dict[str, Any], list[Evidence]] | None:
        """Gives every piece of evidence to the one parameter that it fits; None if that is not clear."""
        arguments, taken = self._enums()
        free = [piece for piece in self.evidence if not any(map(piece.overlaps, taken))]
        unbound = [p for p in self.tool.parameters if p.name not in arguments]
        options = [[(p, fit) for p in unbound if (fit := self._affinity(piece, p))] for piece in free]
        if not 0 < prod(map(len, options)) <= _MOST_ASSIGNMENTS:
            return None
        choices = [c for c in product(*options) if len({p.name for p, _ in c}) == len(c)]
        scores = [sum(fit + 2 * p.required for p, fit in choice) for choice in choices]
        if scores.count(max(scores, default=0)) != 1:
            return None
        choice = choices[scores.index(max(scores))]
        values = {p.name: _value(piece, p) for piece, (p, _) in zip(free, choice, strict=True)}
        return {**arguments, **values}, [*taken, *free]

    def _enums(self) -> tuple[dict[str, Any], list[Evidence]]:
        """The parameters with a list of values: of each the one that the prompt names outside quotes."""
        taken = [piece for piece in self.evidence if piece.kind in _FIXED]
        arguments: dict[str, Any] = {}
        named: list[Evidence] = []
        for parameter in self.tool.parameters:
            for value in parameter.enum:
                written = r"[ _-]?".join(map(re.escape, words_of(str(value)))) or re.escape(str(value))
                match = re.search(
                    rf"(?<![\w-]){written}(?![\w-])", blanked(self.text, [*taken, *named]), re.I
                )
                if match and parameter.name not in arguments:
                    arguments[parameter.name] = value
                    named.append(Evidence("enum", match[0], *match.span()))
        return arguments, named

    def _affinity(self, piece: Evidence, parameter: Parameter) -> int:
        """How well the evidence fits; 0: not at all. A word beside it may name the parameter."""
        before = [word.casefold() for word in re.findall(r"[\w'’]+", self.text[: piece.start])[-2:]]
        after = re.findall(r"^\s?([\w'’]+)", self.text[piece.end :]) if piece.kind == "number" else []
        beside = {*map(stem, [*before, *after])} | (_HINTS.get(before[-1], frozenset()) if before else set())
        fit, hinted = _kind_fit(piece, parameter), bool(parameter.name_stems & (beside - {"id"}))
        return fit + 2 * hinted if fit and (parameter.required or hinted or fit >= 3) else 0

    def _rest_of_sentence(
        self, left: Sequence[re.Match[str]], taken: Sequence[Evidence], arguments: Mapping[str, Any]
    ) -> dict[str, str]:
        """The words that are left as a read's one missing text, if they stand together; else nothing."""
        unfilled = [p for p in self.tool.parameters if p.required and p.name not in arguments]
        if not left or len(unfilled) != 1 or self.tool.verb != "read":
            return {}
        start, end = left[0].start(), left[-1].end()
        broken = any(_is_turning(match[0]) for match in plain_words(self.text[start:end], []))
        if broken or any(p.start < end and start < p.end for p in taken):
            return {}
        return {p.name: self.text[start:end] for p in unfilled if p.is_text and p.name_stems & _TAKES["rest"]}


def _value(piece: Evidence, parameter: Parameter) -> Any:
    if parameter.kind in ("integer", "number"):
        return piece.number
    return piece.value.removeprefix("#") if piece.kind == "id" else piece.value


def _kind_fit(piece: Evidence, parameter: Parameter) -> int:
    """How well evidence of this kind fits a parameter of that name and type; 0: not at all."""
    if parameter.kind in ("integer", "number") and not parameter.enum:
        number = piece.number if piece.kind in ("number", "id") else None
        whole = parameter.kind == "number" or isinstance(number, int)
        low, high = (parameter.schema.get(bound, number) for bound in ("minimum", "maximum"))
        return 2 if number is not None and whole and low <= number <= high else 0
    form, names = str(parameter.schema.get("format") or ""), parameter.name_stems
    # a parameter whose name says what kind of text it takes, takes no other
    only = [
        kind
        for kind in ("date", "time", "email", "url", "path", "id")
        if names & _TAKES[kind] or form == kind
    ]
    if not parameter.is_text or (only and piece.kind not in only) or (form and not only):
        return 0
    return 3 if only else 2 if names & _TAKES.get(piece.kind, frozenset()) else int(piece.kind == "quote")
