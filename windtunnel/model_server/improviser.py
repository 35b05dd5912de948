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
from windtunnel.model_server.evidence import Evidence, bare, blanked, gather, plain_words, with_message
from windtunnel.model_server.offered import OfferedTool, Parameter, read_tool
from windtunnel.model_server.reading import WholeResult
from windtunnel.model_server.words import WORDS, compiled, listed, stem, stems, verb_class, words_of

_LONGEST_PROMPT = 400
_MOST_ASSIGNMENTS = 5000
_MOST_UNEXPLAINED = 3
_FIXED = ("quote", "path", "url", "email", "id", "sum", "message")  # holds no value of an enum
# what else a parameter takes that is named for an id or a path
_LOOSE = {"id": ("number", "quote", "tag"), "path": ("quote", "id")}
_SILENT, _QUESTIONS, _TURNING = map(listed, ("silent", "questions", "turning"))
_TEXTUAL, _FREE_TEXT, _MESSAGE, _NAMING, _ARITHMETIC, _LANGUAGE = (
    stems(WORDS[name]) for name in ("textual", "free_text", "message", "naming", "arithmetic", "language")
)
_HINTS, _ROLES = ({key: stems(words) for key, words in WORDS[name].items()} for name in ("hints", "roles"))
_HOW_TO_SAY = compiled("how_to_say")


def improvise(
    prompt: str, tools: Sequence[Mapping[str, Any]], today: date | None, languages: Mapping[str, str]
) -> list[Step]:
    """One step for the whole prompt, or none if no tool is surely the one that is meant."""
    # "is it" asks for what "is" asks for, and how something is said for a translation
    text = _HOW_TO_SAY.sub("translate", re.sub(r"\bis it(?= in\b)", "is", bare(" ".join(prompt.split()))))
    evidence = gather(text, today)
    if not text or len(text) > _LONGEST_PROMPT or re.search(r"[.?!;]\s", blanked(text, evidence)):
        return []
    offered = list(map(read_tool, tools))
    message = with_message(text, evidence)
    for variant in [evidence] if message is None else [message, evidence]:
        fits = [fit for tool in offered if (fit := _Prompt(text, variant, tool, languages).fit())]
        if fits:
            best = max(score for score, _ in fits)
            steps = [step for score, step in fits if score == best]
            return steps if len(steps) == 1 else []
    return []


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
    languages: Mapping[str, str]

    def fit(self) -> tuple[int, Step] | None:
        """The call that accounts for every word, if the tool does what the prompt's verb says, and how sure
        it is."""
        words = [_plain(match[0]) for match in plain_words(self.text, self.evidence)]
        bound = self._bind() if self._does(words) else None
        if bound is None:
            return None
        arguments, taken, strong = bound
        said = [word for word in words if word not in _SILENT]
        outside = [match for match in plain_words(self.text, taken) if _plain(match[0]) not in said[:1]]
        left = [match for match in outside if not self._accounted(_plain(match[0]))]
        if any(_is_turning(match[0]) for match in left):
            return None
        rest = self._rest_of_sentence(left, taken, arguments)
        # a question is no search: what it is about must come back
        sure = "" if self._leading(words) in _QUESTIONS else "".join(rest.values())
        unexplained = frozenset(stem(match[0]) for match in left if match[0] not in sure)
        arguments |= rest
        most = _MOST_UNEXPLAINED if self.tool.verb == "read" else 0
        missing = any(p.required and p.name not in arguments for p in self.tool.parameters)
        if missing or len(unexplained) > most or self._leaves_option(said, arguments):
            return None
        # how much of the prompt is the tool's own words
        spoken = {*map(stem, said)}
        in_name, mentioned = len(spoken & self.tool.name_stems), len(spoken & self.tool.stems)
        enough = 2 * in_name + mentioned + strong + len(unexplained) >= 2
        score = 1 + 3 * in_name + mentioned + 2 * strong - 2 * len(unexplained)
        reading = WholeResult(self.tool, self.text, arguments, unexplained)
        step = Step(self.text, self.tool.name, arguments, reading, self.tool.verb != "read")
        return (score, step) if enough and score > 0 else None

    def _does(self, words: Sequence[str]) -> bool:
        """Whether the prompt's verb is what the tool does; a question asks for a read."""
        if any(piece.kind == "sum" for piece in self.evidence):
            return True
        first = self._leading(words)
        if not first or first in _QUESTIONS:
            return bool(first) and self.tool.verb == "read"
        telling = first == "tell" and not {"me", "us"} & set(words[words.index("tell") :][1:3])
        kind = "send" if telling else verb_class(first)
        if stem(first) in self.tool.name_stems:
            return kind in ("", self.tool.verb) or self.tool.verb == ""
        known = stem(first) in self.tool.stems if kind == "change" else kind != ""
        return known and kind == self.tool.verb

    @staticmethod
    def _leading(words: Sequence[str]) -> str:
        """The verb or the question word that the prompt begins with; empty without one."""
        return next((word for word in words if word not in _SILENT - _QUESTIONS), "")

    def _accounted(self, word: str) -> bool:
        if _is_turning(word):
            return word == "all" and "all" in self.tool.stems
        same_verb = verb_class(word) != "" and verb_class(word) == self.tool.verb
        return word in _SILENT | _QUESTIONS or stem(word) in self.tool.stems or same_verb

    def _leaves_option(self, said: Sequence[str], arguments: Mapping[str, Any]) -> bool:
        """Whether the prompt seems to speak of an option that the call leaves out ("unread messages")."""
        bound = [p.stems for p in self.tool.parameters if p.name in arguments]
        options = [p.stems for p in self.tool.parameters if p.name not in arguments]
        stems_said = {stem(word) for word in said if word not in _QUESTIONS}
        return bool(stems_said & frozenset().union(*options) - self.tool.own_stems.union(*bound))

    # arguments

    def _bind(self) -> tuple[dict[str, Any], list[Evidence], int] | None:
        """Gives every piece of evidence to the one parameter that it fits; None if that is not clear.

        The third is how much of it fits well.
        """
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
        values = {p.name: self._value(piece, p) for piece, (p, _) in zip(free, choice, strict=True)}
        strong = 2 * len(arguments) + sum(fit // 3 for _, fit in choice)
        return {**arguments, **values}, [*taken, *free], strong

    def _enums(self) -> tuple[dict[str, Any], list[Evidence]]:
        """The parameters with a list of values: of each the one that the prompt names outside quotes."""
        fixed = [piece for piece in self.evidence if piece.kind in _FIXED]
        arguments: dict[str, Any] = {}
        taken: list[Evidence] = []
        for parameter in self.tool.parameters:
            named = []
            for value in parameter.enum:
                written = r"[ _-]?".join(map(re.escape, words_of(str(value)))) or re.escape(str(value))
                for match in re.finditer(rf"(?<![\w-]){written}(?![\w-])", self.text, re.IGNORECASE):
                    piece = Evidence("enum", match[0], *match.span())
                    if not any(map(piece.overlaps, (*fixed, *taken))):
                        named.append((value, piece))
            if len(named) == 1:
                arguments[parameter.name] = named[0][0]
                taken.append(named[0][1])
        return arguments, taken

    def _affinity(self, piece: Evidence, parameter: Parameter) -> int:
        """How well the evidence fits; 0: not at all. An optional parameter needs a word that names it."""
        base = _kind_fit(piece, parameter, self.languages)
        hint = self._hinted(piece, parameter) if base else 0
        return base + hint if base and (parameter.required or hint or base >= 3) else 0

    def _hinted(self, piece: Evidence, parameter: Parameter) -> int:
        """2 if a word beside the evidence names the parameter: its own words, or a preposition; else 0."""
        before = [word.casefold() for word in re.findall(r"[\w'’]+", self.text[: piece.start])[-2:]]
        after = re.findall(r"^\s?([\w'’]+)", self.text[piece.end :])
        hinted = _HINTS.get(before[-1], frozenset()) if before else frozenset()
        beside = {*map(stem, [*before, *(after if piece.kind in ("number", "quote") else [])])}
        return 2 if parameter.name_stems & (hinted | (beside - {"id"})) else 0

    def _value(self, piece: Evidence, parameter: Parameter) -> Any:
        if parameter.kind in ("integer", "number"):
            return piece.number
        if parameter.name_stems & _LANGUAGE and parameter.stems & {"code", "iso"}:
            return self.languages[piece.value.casefold()]
        return piece.value.removeprefix("#") if piece.kind == "id" else piece.value

    def _rest_of_sentence(
        self, left: Sequence[re.Match[str]], taken: Sequence[Evidence], arguments: Mapping[str, Any]
    ) -> dict[str, str]:
        """The words that are left as a read's one missing text, if they stand together; else nothing."""
        unfilled = [p for p in self.tool.parameters if p.required and p.name not in arguments]
        if not left or len(unfilled) != 1 or self.tool.verb != "read":
            return {}
        parameter, start, end = unfilled[0], left[0].start(), left[-1].end()
        textual = parameter.kind == "string" and not parameter.enum and not parameter.schema.get("format")
        broken = any(_is_turning(match[0]) for match in plain_words(self.text[start:end], []))
        if not textual or broken or any(p.start < end and start < p.end for p in taken):
            return {}
        return {parameter.name: self.text[start:end]} if parameter.name_stems & _FREE_TEXT else {}


def _kind_fit(piece: Evidence, parameter: Parameter, languages: Mapping[str, str]) -> int:
    """How well evidence of this kind fits a parameter of that name and type; 0: not at all."""
    if parameter.enum:
        return 0
    if parameter.kind in ("integer", "number"):
        number = piece.number if piece.kind in ("number", "id") else None
        whole = parameter.kind == "number" or isinstance(number, int)
        low, high = (parameter.schema.get(bound, number) for bound in ("minimum", "maximum"))
        return 2 if number is not None and whole and low <= number <= high else 0
    given, names = str(parameter.schema.get("format") or ""), parameter.name_stems
    if parameter.kind != "string" or given not in ("", "uri", *_ROLES):
        return 0
    if piece.kind == "sum":
        return 6 if parameter.stems & _ARITHMETIC else 0
    if piece.kind == "message":
        return 4 if names & _MESSAGE else 1 if names & _TEXTUAL else 0
    if names & _LANGUAGE:
        return 3 * (piece.value.casefold() in languages)
    roles = [role for role, words in _ROLES.items() if names & words or given == role]
    if piece.kind in roles:
        return 3
    if piece.kind in ("date", "time", "email", "url"):
        return int(piece.kind == "email" and not roles and bool(names & _NAMING))
    if roles:
        return int(len(roles) == 1 and piece.kind in _LOOSE.get(roles[0], ()))
    fitting = _TEXTUAL if piece.kind == "quote" else _NAMING if piece.kind in ("name", "tag") else frozenset()
    return 2 if names & fitting else 1
