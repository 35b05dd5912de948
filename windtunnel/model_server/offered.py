"""The tools that a request offers: which take the final answer, and what words the others have. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from windtunnel.dialects.json_values import as_list, as_object, as_objects, as_text
from windtunnel.model_server.words import compiled, listed, stem, stems, verb_class, words_of

_NOUNS_TOO = listed("nouns_too")
_FORM_NAME, _FORM_DESCRIPTION = compiled("form_name"), compiled("form_description")
_EXTRACTS, _CLASS_NAME, _TOOL_VERB = map(compiled, ("extracts", "class_name", "tool_verb"))


def split_tools(
    tools: Sequence[dict[str, Any]], tool_choice: str | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tools that work, and the output tools that take the final answer: several are alternatives.

    ``tool_choice`` is ``none``, ``auto``, ``required``, the name of a tool, or None. A tool that is named
    is the only one. A form that is named after a class looks like any tool, so it counts as one only where a
    call is required.
    """
    if tool_choice == "none":
        return [], []
    named = [tool for tool in tools if tool["function"]["name"] == tool_choice]
    offered, required = named or list(tools), tool_choice not in (None, "auto")
    forms = [tool for tool in offered if _is_form(tool["function"], bool(named), required)]
    return [tool for tool in offered if tool not in forms], forms


def _is_form(function: Mapping[str, Any], named: bool, required: bool) -> bool:
    name, description = function["name"], as_text(function.get("description"))
    if _FORM_NAME.fullmatch(name) or _FORM_DESCRIPTION.search(description):
        return True
    # a class of data: no verb leads its name or its description
    first, *rest = words_of(name) or [""]
    leading = [*words_of(description)[:1], *([first] if rest else [])]
    is_class = _CLASS_NAME.fullmatch(name) and not any(map(_TOOL_VERB.fullmatch, leading))
    return bool((named and _EXTRACTS.match(name)) or (required and is_class))


@dataclass(frozen=True)
class Parameter:
    """One parameter of a tool, with its own schema."""

    name: str
    schema: Mapping[str, Any]
    required: bool

    @cached_property
    def kind(self) -> str:
        """The JSON type, without null; empty where the schema has several or none."""
        options = as_objects(self.schema.get("anyOf") or self.schema.get("oneOf"))
        untyped = "string" if self.enum else ""
        given = [each.get("type") for each in options] or self.schema.get("type") or untyped
        kinds = [kind for kind in (as_list(given) or [given]) if kind not in (None, "", "null")]
        return str(kinds[0]) if len(kinds) == 1 else ""

    @cached_property
    def enum(self) -> list[Any]:
        return list(self.schema.get("enum") or ([self.schema["const"]] if "const" in self.schema else []))

    @property
    def is_text(self) -> bool:
        return self.kind == "string" and not self.enum

    @cached_property
    def name_stems(self) -> frozenset[str]:
        return frozenset(map(stem, words_of(self.name)))

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
        return frozenset(map(stem, words_of(self.name)))

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
        said = [*sure, *re.findall(r"[A-Za-z]+", self.description)[:1], words[0]]
        return next(filter(None, map(verb_class, said)), "")


def read_tool(tool: Mapping[str, Any]) -> OfferedTool:
    """A tool in the form of chat completions, whose name has been checked."""
    function = tool["function"]
    schema = as_object(function.get("parameters"))
    required = as_list(schema.get("required"))
    properties = {name: p for name, p in as_object(schema.get("properties")).items() if isinstance(p, dict)}
    parameters = tuple(Parameter(name, inner, name in required) for name, inner in properties.items())
    return OfferedTool(str(function["name"]), as_text(function.get("description")), parameters)
