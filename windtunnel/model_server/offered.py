"""A tool as it is offered: its words, its verb and its parameters. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from windtunnel.model_server.words import WORDS, stem, stems, verb_class, words_of

_NOUNS_TOO = WORDS["nouns_too"].split()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a tool, with its own schema."""

    name: str
    schema: Mapping[str, Any]
    required: bool

    @cached_property
    def kind(self) -> str:
        """The JSON type, without null; empty where the schema has several or none."""
        options = self.schema.get("anyOf") or self.schema.get("oneOf") or []
        kinds = (
            [option.get("type") for option in options]
            or self.schema.get("type")
            or ("string" if self.enum else [])
        )
        listed = [
            kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind not in (None, "null")
        ]
        return str(listed[0]) if len(listed) == 1 else ""

    @cached_property
    def enum(self) -> list[Any]:
        return list(self.schema.get("enum") or ([self.schema["const"]] if "const" in self.schema else []))

    @cached_property
    def name_stems(self) -> frozenset[str]:
        return frozenset(stem(word) for word in words_of(self.name))

    @cached_property
    def stems(self) -> frozenset[str]:
        said = [str(self.schema.get("description") or ""), *map(str, self.enum)]
        return self.name_stems | stems(" ".join(said))


@dataclass(frozen=True)
class OfferedTool:
    """A tool in a request."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]

    @cached_property
    def name_stems(self) -> frozenset[str]:
        return frozenset(stem(word) for word in words_of(self.name))

    @cached_property
    def own_stems(self) -> frozenset[str]:
        """Of its name and description."""
        return self.name_stems | stems(self.description)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Of all that it says, its parameters with it."""
        return self.own_stems.union(*(parameter.stems for parameter in self.parameters))

    @cached_property
    def verb(self) -> str:
        """The class of the verb that its name begins or ends with, else of its description's first word."""
        words = words_of(self.name) or [""]
        sure = [word for word in (words[0], words[-1]) if word not in _NOUNS_TOO]
        kinds = [
            verb_class(word) for word in [*sure, *re.findall(r"[A-Za-z]+", self.description)[:1], words[0]]
        ]
        return next((kind for kind in kinds if kind), "")


def read_tool(tool: Mapping[str, Any]) -> OfferedTool:
    """A tool in the form of chat completions, whose name has been checked."""
    function = tool["function"]
    schema = function.get("parameters") or {}
    required = schema.get("required") or []
    properties = {name: p for name, p in (schema.get("properties") or {}).items() if isinstance(p, Mapping)}
    parameters = tuple(Parameter(name, inner, name in required) for name, inner in properties.items())
    return OfferedTool(str(function["name"]), str(function.get("description") or ""), parameters)
