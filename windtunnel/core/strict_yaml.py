"""The text of a fault set as plain data: what JSON can hold, with every key once. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import Any, ClassVar

import yaml

from windtunnel.core.strict_json import unique

_DEEPEST = 100
_TAG = "tag:yaml.org,2002:"


class FaultSetError(ValueError):
    """A fault set that cannot be used; the message says which file, which key and what would do."""


def read_plain(text: str, where: str) -> Any:
    """Reads JSON or YAML. ``where`` (a file's name) is shown in errors. Raises ``FaultSetError``."""
    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError:
        pass
    except RecursionError:
        raise FaultSetError(f"{where}: nested too deep") from None
    except ValueError as error:  # a key given twice, a number too long
        raise FaultSetError(f"{where}: {_first(error)}") from None
    try:
        return yaml.load(text, _Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise FaultSetError(f"{where}:{line}: not YAML: {error.reason}") from None
    except yaml.MarkedYAMLError as error:
        place = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        prefix = "" if isinstance(error, _Twice) else "not YAML: "
        raise FaultSetError(f"{where}{place}: {prefix}{error.problem}") from None
    except RecursionError:
        raise FaultSetError(f"{where}: nested too deep") from None
    except (ValueError, TypeError, AttributeError) as error:  # a number too long, a value not of its !!tag
        raise FaultSetError(f"{where}: not YAML: {_first(error)}") from None


class _Twice(yaml.MarkedYAMLError):  # type: ignore[misc]
    pass


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # no types come with it
    """YAML 1.2's few plain words, since 1.1 takes 14:30 for 870, no for false and 1e-5 for a text."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise _Twice(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
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
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_words})$"), list(_starts))


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """The value, its tuples as lists. Raises ``FaultSetError`` with the key of what JSON cannot hold."""
    if depth > _DEEPEST:
        raise FaultSetError(f"{where[:100]}: nested too deep, or inside itself")
    if isinstance(value, dict):
        return {
            _key(key, where): plain(one, _below(where, key, depth), depth + 1) for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            plain(one, _below(where, number, depth), depth + 1) for number, one in enumerate(value, start=1)
        ]
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise FaultSetError(f"{where}: must be a finite number, not {value}")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise FaultSetError(
        f"{where}: {shown(value)} is no text, number, list or mapping; write a text in quotes"
    )


def _below(where: str, key: object, depth: int) -> str:
    if isinstance(key, int):
        return f"{where}[{key}]"
    return f"{where}.{key}" if depth else f"{where}: {key}"


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise FaultSetError(f"{where}: the key {shown(key)} must be a text: write it in quotes")
    return _text(key, where)


def _text(value: str, where: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FaultSetError(f"{where}: has half a character in it (a lone surrogate)")
    return value


def _first(error: Exception) -> str:
    # what follows is advice to programmers
    return str(error).partition(" for integer string")[0]


def shown(value: object) -> str:
    """For an error message: short."""
    return repr(value)[:60]
