"""YAML with the plain scalars of version 1.2 and unique keys. Pure.

A separate module, because PyYAML is slow to import.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

try:
    from yaml.cyaml import CParser
except ImportError:  # PyYAML built without libyaml
    from yaml import SafeLoader as CParser

_TAG = "tag:yaml.org,2002:"
_MAX_VALUES = 1_000_000  # aliases can expand to far more than the file's size


class YamlError(ValueError):
    """Invalid YAML or a duplicate key. ``line`` counts from 1; None if unknown."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(problem)
        self.line = line


def load_yaml(text: str) -> Any:
    """Load YAML. Raises ``YamlError``, and Python's errors for a value that does not fit its tag."""
    try:
        return _read(yaml.load, text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(f"not YAML: {error.reason}", line) from None
    except yaml.MarkedYAMLError as error:
        prefix = "" if isinstance(error, (_DuplicateKey, _TooLarge)) else "not YAML: "
        mark = error.problem_mark
        raise YamlError(f"{prefix}{error.problem}", mark.line + 1 if mark else None) from None


def dump_yaml(value: Any) -> str:
    """Dump plain data as YAML that ``load_yaml`` can read; mappings keep their order."""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100))


def yaml_lines(text: str) -> dict[tuple[str | int, ...], int]:
    """Return the line, from 1, of each key and list entry by its path. ``load_yaml`` must accept the text."""
    lines: dict[tuple[str | int, ...], int] = {(): 1}

    def visit(node: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                below = (*path, str(key.value))
                lines[below] = key.start_mark.line + 1
                visit(value, below)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                lines[*path, index] = value.start_mark.line + 1
                visit(value, (*path, index))

    visit(_read(yaml.compose, text), ())
    return lines


def _read(read: Callable[[str, type], Any], text: str) -> Any:
    """Parse with libyaml, six times as fast; PyYAML's own parser handles and reports what libyaml rejects."""
    with suppress(yaml.YAMLError, UnicodeEncodeError):
        return read(text, _QuickLoader)
    return read(text, _Loader)


class _DuplicateKey(yaml.MarkedYAMLError):  # type: ignore[misc]
    """A duplicate key. It has a separate class, since the text is valid YAML."""


class _TooLarge(yaml.MarkedYAMLError):  # type: ignore[misc]
    """Too many values. It has a separate class, since the text is valid YAML."""


def _expanded_size(node: Any, sizes: dict[int, int]) -> int:
    """Return the number of values in the node with aliases expanded. ``sizes``: known sizes by node id."""
    if isinstance(node, yaml.MappingNode):
        below = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        below = node.value
    else:
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = 1  # for a node that contains itself
        sizes[id(node)] = 1 + sum(_expanded_size(part, sizes) for part in below)
    return sizes[id(node)]


class _PlainWords(Composer, SafeConstructor, Resolver):  # type: ignore[misc]  # no types come with it
    """Resolve only the plain scalars of YAML 1.2: 1.1 reads 14:30 as 870, no as false, 1e-5 as a text."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def get_single_node(self) -> Any:
        node = super().get_single_node()
        if _expanded_size(node, {}) > _MAX_VALUES:
            raise _TooLarge(problem=f"more than {_MAX_VALUES:,} values with aliases expanded")
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise _DuplicateKey(problem=f"duplicate key {key.value}", problem_mark=key.start_mark)
                seen.add(key.value)
        return node


for _name, _words, _starts in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)",
        "-+0123456789.",
    ),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _PlainWords.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_words})$"), list(_starts))


class _Loader(_PlainWords, yaml.SafeLoader):  # type: ignore[misc]
    pass


class _QuickLoader(_PlainWords, CParser):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        for base in (Composer, SafeConstructor, Resolver):
            base.__init__(self)
