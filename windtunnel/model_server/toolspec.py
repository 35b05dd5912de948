"""The tools of a request, read from their JSON schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from windtunnel.model_server.lexicon import NOUN_VERBS, WRITES, operations, wordlist, words

_RECIPIENT = frozenset(
    wordlist("to recipient recipients receiver addressee contact email emails phone number person")
)
_SAID = frozenset(wordlist("body text message letter note content words"))
_OBJECTS = frozenset(
    wordlist(
        "a an the to all any one some someone somebody people this every your new text with "
        "out up off how for in it"
    )
)
_MADE = frozenset(wordlist("alarm timer reminder countdown"))


@dataclass(frozen=True)
class Param:
    """One parameter. ``kind`` is the JSON type; ``properties`` are those of an object or of array items."""

    name: str
    description: str = ""
    kind: str = "string"
    enum: tuple[Any, ...] = ()
    required: bool = False
    default: Any = field(default=None, compare=False)  # may not be hashable
    format: str = ""
    items: str = "string"
    properties: tuple[Param, ...] = ()

    @property
    def is_number(self) -> bool:
        return self.kind in ("integer", "number")


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    params: tuple[Param, ...]

    @property
    def required(self) -> tuple[Param, ...]:
        return tuple(param for param in self.params if param.required)

    @property
    def is_report(self) -> bool:
        """A tool that ends the conversation: its ``status`` is one of ``done``, ``failed`` ..."""
        return any(p.name == "status" and {"done", "failed"} <= set(map(str, p.enum)) for p in self.params)

    @cached_property
    def operation(self) -> str:
        """What it does: the first verb of its description, else of its name; ``read`` if neither has one."""
        found = (
            _described(self.description) or _named(self.name) or (("send",) if self._delivers else ("read",))
        )
        if found[0] != "read" and {"language", "lang", "into"} & {
            w for p in self.params for w in words(p.name)
        }:
            return "read"  # a translator "turns" a text into another language
        if {"create", "send"} <= set(found):
            return "send" if self._has_recipient else "create"
        if (
            found == ("send",)
            and words(self.description)[:1] in (["tells"], ["tell"])
            and not self._has_recipient
        ):
            return "read"  # "tells the time" informs its caller
        if found[0] == "update" and _MADE & {*words(self.name), *words(self.description)}:
            return "create"
        return next((each for each in WRITES if each in found), found[0])

    @property
    def _delivers(self) -> bool:
        """Whether it takes somebody and something to say to them."""
        return self._has_recipient and any(_SAID & set(words(param.name)) for param in self.params)

    @property
    def _has_recipient(self) -> bool:
        return any(_RECIPIENT & set(words(param.name)) for param in self.params)

    @property
    def writes(self) -> bool:
        return self.operation in WRITES


def parse_tools(raw: object) -> tuple[Tool, ...]:
    """The functions of a request's ``tools``; entries of another shape are left out."""
    return _parsed(json.dumps(raw, sort_keys=False, default=str)) if isinstance(raw, list | tuple) else ()


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[Tool, ...]:
    found = []
    for entry in json.loads(text):
        function = entry.get("function") if isinstance(entry, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            schema = function.get("parameters")
            schema = schema if isinstance(schema, Mapping) else {}
            description = function.get("description")
            description = description if isinstance(description, str) else ""
            found.append(Tool(function["name"], description, _params(schema, schema, 0)))
    return tuple(found)


def _params(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> tuple[Param, ...]:
    properties = schema.get("properties")
    required = schema.get("required")
    required = required if isinstance(required, Sequence) else ()
    if not isinstance(properties, Mapping) or depth > 3:
        return ()
    return tuple(
        _param(name, _resolve(raw, root), name in required, root, depth)
        for name, raw in properties.items()
        if isinstance(name, str) and isinstance(raw, Mapping)
    )


def _param(name: str, raw: Mapping[str, Any], required: bool, root: Mapping[str, Any], depth: int) -> Param:
    kind = raw.get("type")
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        kind = next((each for each in kind if each != "null"), "string")
    items = _resolve(raw.get("items"), root)
    enum = raw.get("enum") or items.get("enum") or ([raw["const"]] if "const" in raw else [])
    inner = raw if kind == "object" else items
    return Param(
        name=name,
        description=_text(raw.get("description")) or _text(raw.get("title")),
        kind=kind if isinstance(kind, str) else "string",
        enum=tuple(each for each in enum if isinstance(each, str | int | float))
        if isinstance(enum, Sequence)
        else (),
        required=required,
        default=raw.get("default"),
        format=_text(raw.get("format")),
        items=_text(items.get("type")) or "string",
        properties=_params(inner, root, depth + 1),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _resolve(raw: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follows one ``$ref`` and takes the first branch of ``anyOf`` that is not null."""
    if not isinstance(raw, Mapping):
        return {}
    reference = raw.get("$ref")
    if isinstance(reference, str):
        section, _, name = reference.removeprefix("#/").partition("/")
        target = root.get(section)
        target = target.get(name) if isinstance(target, Mapping) else None
        return {**target, **raw} if isinstance(target, Mapping) else raw
    for key in ("anyOf", "oneOf", "allOf"):
        branches = raw.get(key)
        if isinstance(branches, Sequence) and not isinstance(branches, str):
            for branch in branches:
                if isinstance(branch, Mapping) and branch.get("type") != "null":
                    return {**_resolve(branch, root), **{k: v for k, v in raw.items() if k != key}}
    return raw


def _described(description: str) -> tuple[str, ...]:
    """The operation of the first verb: the first word, or one after "to", or one that is no noun too."""
    sentence = words(re.split(r"[.;\n]", description)[0])
    for position, word in enumerate(sentence):
        found = operations(word)
        after = sentence[position - 1] if position else "to"
        noun = word in NOUN_VERBS or (word.endswith("s") and word[:-1] in NOUN_VERBS)
        leads = position == 0 and (not noun or _is_object(word, sentence[1:2]))
        if found and (leads or (position and after in ("to", "and", "will", "can", "tool")) or not noun):
            return found
    return ()


def _is_object(word: str, following: list[str]) -> bool:
    """Whether what follows makes a verb of a word that may be a noun ("Lists open items", not "Order
    status")."""
    if word.endswith("s") and following != ["of"]:
        return True
    return not following or following[0] in _OBJECTS


def _named(name: str) -> tuple[str, ...]:
    listed = words(name)
    for pass_nouns in (False, True):
        for word in listed:
            if operations(word) and (pass_nouns or not {word, word.rstrip("s")} & NOUN_VERBS):
                return operations(word)
    return ()


@dataclass(frozen=True)
class Step:
    """One call to make. ``text`` gives its arguments, ``context`` what was said before without a call of its
    own; ``refers``: it builds on earlier results; ``asked``: its values belong into the report; ``question``
    asks for these values where the text does not."""

    text: str
    tool: Tool
    context: tuple[str, ...] = ()
    refers: bool = False
    condition: str = ""
    asked: bool = True
    question: str = ""
