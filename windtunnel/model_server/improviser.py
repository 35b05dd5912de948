"""The improviser: one call of a tool that no playbook knows, from its schema alone, or none. Pure.

It is sure only if every word of the prompt is accounted for: by the tool's own words, by an argument, as a
word that changes nothing, or (of a read) by the result. So a condition, a negation, a second request or an
unused figure makes it decline, and what it does it does for the whole of what was asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from math import prod
from typing import Any

from windtunnel.model_server.answer import Finding, Step, Value, scalars
from windtunnel.model_server.evidence import Evidence, bare, blanked, gather, plain_words, with_message
from windtunnel.model_server.offered import OfferedTool, Parameter, read_tool
from windtunnel.model_server.words import WORDS, stem, stems, verb_class, words_of

_LONGEST_PROMPT = 400
_MOST_ASSIGNMENTS = 5000
_MOST_UNEXPLAINED = 3
_LONGEST_SENTENCE = 2000
_SILENT, _QUESTIONS, _TURNING = (
    frozenset(WORDS[name].split()) for name in ("silent", "questions", "turning")
)
_TEXTUAL, _FREE_TEXT, _MESSAGE, _NAMING, _ARITHMETIC, _LANGUAGE = (
    stems(WORDS[name]) for name in ("textual", "free_text", "message", "naming", "arithmetic", "language")
)
_HINTS, _ROLES = ({key: stems(words) for key, words in WORDS[name].items()} for name in ("hints", "roles"))


@dataclass(frozen=True)
class _Fit:
    """A call that accounts for the prompt; ``unexplained`` are stems that its result must have."""

    tool: OfferedTool
    arguments: Mapping[str, Any]
    unexplained: frozenset[str]
    score: int


def improvise(
    prompt: str, tools: Sequence[Mapping[str, Any]], today: date | None, languages: Mapping[str, str]
) -> list[Step]:
    """One step for the whole prompt, or none if no tool is surely the one that is meant."""
    text = _plainer(prompt)
    evidence = gather(text, today)
    if not text or len(text) > _LONGEST_PROMPT or re.search(r"[.?!;]\s", blanked(text, evidence)):
        return []
    offered = [read_tool(tool) for tool in tools]
    message = with_message(text, evidence)
    for variant in [evidence] if message is None else [message, evidence]:
        fits = [fit for tool in offered if (fit := _Prompt(text, variant, tool, languages).fit()) is not None]
        fits.sort(key=lambda fit: -fit.score)
        if fits and (len(fits) == 1 or fits[1].score < fits[0].score):
            best = fits[0]
            reading = _WholeResult(best.tool, text, best.arguments, best.unexplained)
            return [Step(text, best.tool.name, best.arguments, reading, best.tool.verb != "read")]
        if fits:
            return []
    return []


def _plainer(prompt: str) -> str:
    """The prompt without politeness, and with two common questions as what they ask for."""
    text = re.sub(r"\bis it(?= in\b)", "is", bare(" ".join(prompt.split())))
    how_to_say = r"^(?:how (?:do|would) (?:you|i) say|what is(?= ['\"“].*['\"”] in [A-Z]))"
    return re.sub(how_to_say, "translate", text, flags=re.IGNORECASE)


@dataclass(frozen=True)
class _Prompt:
    """A prompt held against one tool."""

    text: str
    evidence: Sequence[Evidence]
    tool: OfferedTool
    languages: Mapping[str, str]

    def fit(self) -> _Fit | None:
        """The call that accounts for every word, if the tool does what the prompt's verb says."""
        words = [match[0] for match in plain_words(self.text, self.evidence)]
        bound = self._bind() if self._does(words) else None
        if bound is None:
            return None
        arguments, taken, strong = bound
        verb = next((word for word in words if word.casefold() not in _SILENT), "")
        others = [match for match in plain_words(self.text, taken) if match[0] != verb]
        left = [match for match in others if not self._accounted(match[0])]
        if any(_is_turning(match[0]) for match in left):
            return None
        rest = self._rest_of_sentence(left, taken, arguments)
        unexplained = {stem(match[0]) for match in left if match[0] not in rest.get("text", "")}
        arguments = {**arguments, **({rest["name"]: rest["text"]} if rest else {})}
        missing = any(p.required and p.name not in arguments for p in self.tool.parameters)
        unsaid = len(unexplained) > _MOST_UNEXPLAINED if self.tool.verb == "read" else unexplained
        if missing or unsaid or self._leaves_option(words, arguments):
            return None
        score = self._score(words, strong, len(unexplained))
        return _Fit(self.tool, arguments, frozenset(unexplained), score) if score else None

    def _score(self, words: Sequence[str], strong: int, unexplained: int) -> int:
        """How much of the prompt is the tool's own words; 0 if too little to be meant."""
        said = {stem(word) for word in words if word.casefold() not in _SILENT}
        in_name, mentioned = len(said & self.tool.name_stems), len(said & self.tool.stems)
        enough = 2 * in_name + mentioned + strong + unexplained >= 2
        return 1 + 3 * in_name + mentioned + 2 * strong - 2 * unexplained if enough else 0

    def _does(self, words: Sequence[str]) -> bool:
        """Whether the prompt's verb is what the tool does; a question asks for a read."""
        if any(piece.kind == "sum" for piece in self.evidence):
            return True
        spoken = [word.casefold().replace("’", "'") for word in words]
        while spoken and spoken[0] in _SILENT - _QUESTIONS:
            spoken.pop(0)
        if not spoken or spoken[0] in _QUESTIONS:
            return bool(spoken) and self.tool.verb == "read"
        telling = spoken[0] == "tell" and not {"me", "us"} & set(spoken[1:3])
        kind = "send" if telling else verb_class(spoken[0])
        if stem(spoken[0]) in self.tool.name_stems:
            return kind in ("", self.tool.verb) or self.tool.verb == ""
        known = stem(spoken[0]) in self.tool.stems if kind == "change" else kind != ""
        return known and kind == self.tool.verb

    def _accounted(self, word: str) -> bool:
        plain = word.casefold().replace("’", "'")
        if _is_turning(word):
            return plain == "all" and "all" in self.tool.stems
        same_verb = verb_class(plain) != "" and verb_class(plain) == self.tool.verb
        return plain in _SILENT | _QUESTIONS or stem(plain) in self.tool.stems or same_verb

    def _leaves_option(self, words: Sequence[str], arguments: Mapping[str, Any]) -> bool:
        """Whether the prompt seems to speak of an option that the call leaves out ("unread messages")."""
        bound = [p.stems for p in self.tool.parameters if p.name in arguments]
        options = [p.stems for p in self.tool.parameters if p.name not in arguments]
        said = {stem(word) for word in words if word.casefold() not in _SILENT | _QUESTIONS}
        return bool(said & frozenset().union(*options) - self.tool.own_stems.union(*bound))

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
        ranked = []
        for choice in product(*options):
            if len({parameter.name for parameter, _ in choice}) == len(choice):
                score = sum(fit + 2 * parameter.required for parameter, fit in choice)
                values = {p.name: self._value(piece, p) for piece, (p, _) in zip(free, choice, strict=True)}
                ranked.append((score, values, sum(fit // 3 for _, fit in choice)))
        ranked.sort(key=lambda entry: -entry[0])
        if not ranked or (len(ranked) > 1 and ranked[1][0] >= ranked[0][0]):
            return None
        _, values, strong = ranked[0]
        return {**arguments, **values}, [*taken, *free], 2 * len(arguments) + strong

    def _enums(self) -> tuple[dict[str, Any], list[Evidence]]:
        """The parameters with a list of values: of each the one that the prompt names outside quotes."""
        fixed = [
            p for p in self.evidence if p.kind in ("quote", "path", "url", "email", "id", "sum", "message")
        ]
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
        after = [word.casefold() for word in re.findall(r"^\s?([\w'’]+)", self.text[piece.end :])]
        near = {stem(word) for word in [*before, *(after if piece.kind in ("number", "quote") else [])]}
        hinted = _HINTS.get(before[-1], frozenset()) if before else frozenset()
        return 2 if parameter.name_stems & hinted or near & (parameter.name_stems - {"id"}) else 0

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
        inside = [match[0] for match in plain_words(self.text[start:end], [])]
        broken = any(map(_is_turning, inside)) or any(p.start < end and start < p.end for p in taken)
        if not textual or broken or not parameter.name_stems & _FREE_TEXT:
            return {}
        return {"name": parameter.name, "text": self.text[start:end]}


def _is_turning(word: str) -> bool:
    plain = word.casefold().replace("’", "'")
    return plain in _TURNING or plain.endswith("n't")


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
    if piece.kind in ("sum", "message"):
        fits = parameter.stems & _ARITHMETIC if piece.kind == "sum" else names & _TEXTUAL
        return (6 if piece.kind == "sum" else 4 if names & _MESSAGE else 1) * bool(fits)
    if names & _LANGUAGE:
        return 3 * (piece.value.casefold() in languages)
    roles = [role for role, words in _ROLES.items() if names & words or given == role]
    if piece.kind in roles:
        return 3
    if piece.kind in ("date", "time", "email", "url"):
        return int(piece.kind == "email" and not roles and bool(names & _NAMING))
    if roles:
        loose = {"id": ("number", "quote", "tag"), "path": ("quote", "id")}
        return int(len(roles) == 1 and piece.kind in loose.get(roles[0], ()))
    fitting = _TEXTUAL if piece.kind == "quote" else _NAMING if piece.kind in ("name", "tag") else frozenset()
    return 2 if names & fitting else 1


@dataclass(frozen=True)
class _WholeResult:
    """Passes the whole of a result on, if it speaks of what was asked.

    ``unexplained``: stems of words of the prompt that only the result can account for.
    """

    tool: OfferedTool
    prompt: str
    arguments: Mapping[str, Any]
    unexplained: frozenset[str]

    def read(self, data: Any) -> Finding | None:
        shown = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        if not self.unexplained <= {stem(word) for word in words_of(shown)}:
            return None
        facts = scalars(data)
        given = ", ".join(f"{name}: {value}" for name, value in self.arguments.items())
        sentence = f"{self.tool.name} ({given}) returned {shown}"[:_LONGEST_SENTENCE]
        return Finding(self._values(data, facts), sentence, {**self.arguments, **facts})

    def _values(self, data: Any, facts: Mapping[str, Any]) -> tuple[Value, ...]:
        """What a read found under a name of the prompt, or all that there is; else none."""
        asked = stems(self.prompt)
        named = [
            key
            for key in facts
            if {stem(word) for word in words_of(key)} <= asked - stems(" ".join(self.arguments))
        ]
        keys = (
            named if len(named) == 1 else list(facts) if isinstance(data, Mapping) and len(data) == 1 else []
        )
        if self.tool.verb != "read":
            return ()
        if isinstance(data, int | float):
            return (Value(data),)
        return (Value(facts[keys[0]], None, keys[0]),) if keys else ()

    def pretend(self, drawn: int) -> Finding:
        made_up = Value(round(4 + drawn % 240 / 10, 1))
        sentence = f"{self.tool.name} returned {made_up.value}"
        return Finding((made_up,) if self.tool.verb == "read" else (), sentence, self.arguments)
