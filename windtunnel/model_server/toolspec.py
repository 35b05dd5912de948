"""The tools of a request, read from their JSON schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.model_server.lexicon import NOUN_VERBS, WRITES, operations, words


@dataclass(frozen=True)
class Param:
    """One parameter. ``kind`` is the JSON type; ``properties`` are those of an object or of array items."""

    name: str
    description: str = ""
    kind: str = "string"
    enum: tuple[Any, ...] = ()
    required: bool = False
    default: Any = None
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

    @property
    def operation(self) -> str:
        """What it does: the first verb of its description, else of its name; ``read`` if neither has one."""
        return _described(self.description) or _named(self.name) or "read"

    @property
    def writes(self) -> bool:
        return self.operation in WRITES


def parse_tools(raw: object) -> tuple[Tool, ...]:
    """The functions of a request's ``tools``; entries of another shape are left out."""
    found = []
    for entry in raw if isinstance(raw, Sequence) and not isinstance(raw, str) else ():
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


def _described(description: str) -> str:
    """The operation of the first verb: the first word, or one after "to", or one that is no noun too."""
    sentence = words(re.split(r"[.;\n]", description)[0])
    for position, word in enumerate(sentence):
        found = operations(word)
        after = sentence[position - 1] if position else "to"
        noun = word in NOUN_VERBS or (word.endswith("s") and word[:-1] in NOUN_VERBS)
        if found and (position == 0 or after in ("to", "and", "will", "can", "tool") or not noun):
            return _prefer(found)
    return ""


def _named(name: str) -> str:
    listed = words(name)
    for pass_nouns in (False, True):
        for position, word in enumerate(listed):
            if operations(word) and (pass_nouns or position == 0 or word not in NOUN_VERBS):
                return _prefer(operations(word))
    return ""


def _prefer(found: tuple[str, ...]) -> str:
    return next((each for each in WRITES if each in found), found[0])
