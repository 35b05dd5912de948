"""Playbooks: sentences with slots, the calls that they ask for, and what to read from the results.

A prompt is understood if all of it is sentences of playbooks, joined by "and", "then" or punctuation.
docs/scripted-model.md explains the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from windtunnel.core.strict_yaml import PlainDataError, read_yaml
from windtunnel.model_server.answer import RESULTS, Step
from windtunnel.model_server.evidence import QUOTED, SLOTS, NotThisKind, bare, read_slot
from windtunnel.model_server.reading import PlaybookReading, ValueRule, with_slots
from windtunnel.model_server.words import compiled

SHIPPED = Path(__file__).with_name("playbooks.yaml")
_LONGEST_PROMPT = 600
_JOINT = compiled("joint")
_SIGNS = {"[": "(?:", "]": ")?", "(": "(?:"}


class PlaybookError(ValueError):
    """A file of playbooks that cannot be used; the message says where and why."""


class Playbook(BaseModel):
    """One kind of request: ``call`` is the tool, empty for small talk; ``with`` has its arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))

    ask: list[str] = Field(min_length=1)
    call: str
    arguments: dict[str, str] = Field(default_factory=dict, alias="with")
    writes: bool = False
    values: list[ValueRule] = Field(default_factory=list)
    say: str = ""

    @cached_property
    def sentences(self) -> list[re.Pattern[str]]:
        return [compile_sentence(sentence) for sentence in self.ask]

    @model_validator(mode="after")
    def _compiled(self) -> Playbook:
        assert self.sentences
        return self

    def steps(self, slots: Mapping[str, Any], asked: str, after_all: bool) -> list[Step]:
        """The step for these slots; one for each item of a slot that holds several."""
        several = next((name for name, value in slots.items() if isinstance(value, list)), None)
        variants = [{**slots, several: item} for item in slots[several]] if several else [dict(slots)]
        return [self._step(variant, asked, after_all) for variant in variants]

    def _step(self, slots: Mapping[str, Any], asked: str, after_all: bool) -> Step:
        marked = {**slots, "results": RESULTS}
        arguments = {name: with_slots(value, marked) for name, value in self.arguments.items()}
        reading = PlaybookReading(self.values, self.say, slots)
        return Step(asked, self.call, arguments, reading, self.writes, True, after_all)


class Playbooks(BaseModel):
    """A file of playbooks. ``languages`` gives the code of a language's name in lower case."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    languages: dict[str, str] = Field(default_factory=dict)
    playbooks: list[Playbook] = Field(default_factory=list)

    def reply_to(self, prompt: str) -> str:
        """What to say to a prompt that needs no tool; empty for any other."""
        said, talks = bare(prompt), [playbook for playbook in self.playbooks if not playbook.call]
        return next((talk.say for talk in talks if any(s.fullmatch(said) for s in talk.sentences)), "")

    def plan(self, prompt: str, tools: Collection[str], today: date | None) -> list[Step]:
        """The steps that the prompt asks for; none if it is not understood as a whole with these tools."""
        text = " ".join(prompt.split())
        masked = QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), text)
        joints = [match for match in _JOINT.finditer(masked) if match["mark"] or match["words"]]
        usable = [playbook for playbook in self.playbooks if playbook.call in tools]

        @cache
        def steps_from(start: int, after_all: bool) -> list[Step]:
            """The steps of the text from there on, by the shortest sentences; none if not understood."""
            for joint in joints:
                clause = text[start : joint.start()]
                if steps := self._sentence(clause, usable, today, after_all) if clause else []:
                    then = re.search(r"then|after", joint["words"] or "", re.IGNORECASE) is not None
                    if following := steps_from(joint.end(), then):
                        return steps + following
            return self._sentence(text[start:], usable, today, after_all)

        return steps_from(0, False) if len(text) <= _LONGEST_PROMPT else []

    def _sentence(
        self, clause: str, usable: Sequence[Playbook], today: date | None, after_all: bool
    ) -> list[Step]:
        said = bare(clause)
        for playbook in usable:
            for match in filter(None, (sentence.fullmatch(said) for sentence in playbook.sentences)):
                with suppress(NotThisKind):
                    return playbook.steps(self._slots(match, today), said, after_all)
        return []

    def _slots(self, match: re.Match[str], today: date | None) -> dict[str, Any]:
        """The slots of a sentence's match. Raises ``NotThisKind``."""
        slots = {}
        for group, text in match.groupdict().items():
            name, _, kind = group.partition("__")
            if text is not None:
                slots[name] = read_slot(kind, text, today, self.languages)
        return slots

    def before(self, other: Playbooks) -> Playbooks:
        """These playbooks, and after them the other's."""
        languages = {**other.languages, **self.languages}
        return Playbooks(languages=languages, playbooks=[*self.playbooks, *other.playbooks])


def load_playbooks(path: Path = SHIPPED) -> Playbooks:
    """Reads a file. Raises ``PlaybookError`` that names the file, the key and what is wrong."""
    try:
        return Playbooks.model_validate(read_yaml(path.read_text(encoding="utf-8"), str(path)))
    except OSError as error:
        raise PlaybookError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise PlaybookError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (PlainDataError, UnicodeDecodeError) as error:
        raise PlaybookError(str(error) if isinstance(error, PlainDataError) else f"{path}: {error}") from None


def compile_sentence(sentence: str) -> re.Pattern[str]:
    """The pattern of a sentence: ``{slot}`` or ``{slot:kind}``, ``[optional]``, ``(one|other)``.

    Raises ``PlaybookError`` for a kind that there is not, and for brackets that do not close.
    """
    pattern = ""
    parts = r"\{(\w+)(?::(\w+))?\}|([\[\]()|])|([^{}\[\]()|]+)"
    for slot, named, sign, literal in re.findall(parts, sentence):
        kind = named or (slot if slot in SLOTS else "text")
        if kind not in SLOTS:
            raise PlaybookError(f"{sentence!r}: no kind of slot is {kind!r}; valid: {', '.join(SLOTS)}")
        words = re.escape(literal).replace("'", "['’]")
        pattern += f"(?P<{slot}__{kind}>{SLOTS[kind]})" if slot else words + _SIGNS.get(sign, sign)
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise PlaybookError(f"{sentence!r}: {error}") from None
