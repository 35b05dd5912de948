"""YAML and JSON read as plain data: what JSON can hold, with every key once. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any


def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object's pairs; raises ``ValueError`` for a key that is given twice."""
    unique_pairs: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique_pairs:
            raise ValueError(f"{key} is given twice")
        unique_pairs[key] = value
    return unique_pairs


_DEEPEST = 100


class PlainDataError(ValueError):
    """A text or value that is no plain data; the message says which file, which key or line, and why."""


def read_yaml(text: str, where: str) -> Any:
    """Reads JSON or YAML. ``where`` (a file's name) is shown in errors. Raises ``PlainDataError``."""
    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError:
        pass
    except RecursionError:
        raise PlainDataError(f"{where}: nested too deep") from None
    except ValueError as error:  # a key given twice, a number too long
        raise PlainDataError(f"{where}: {_without_advice(error)}") from None
    from wirefault.core.yaml_text import YamlError, load_yaml  # what is JSON needs no PyYAML

    try:
        return load_yaml(text)
    except YamlError as error:
        place = f":{error.line}" if error.line else ""
        raise PlainDataError(f"{where}{place}: {error}") from None
    except RecursionError:
        raise PlainDataError(f"{where}: nested too deep") from None
    except (ValueError, TypeError, AttributeError) as error:  # a number too long, a value not of its !!tag
        raise PlainDataError(f"{where}: not YAML: {_without_advice(error)}") from None


def plain_data(value: Any, where: str, depth: int = 0) -> Any:
    """The value, its tuples as lists. Raises ``PlainDataError`` with the key of what JSON cannot hold."""
    if depth > _DEEPEST:
        raise PlainDataError(f"{where[:100]}: nested too deep, or inside itself")
    if isinstance(value, dict):
        return {
            _key(key, where): plain_data(item, _below(where, key, depth), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            plain_data(item, _below(where, number, depth), depth + 1)
            for number, item in enumerate(value, start=1)
        ]
    if isinstance(value, str):
        return _whole_text(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise PlainDataError(f"{where}: must be a finite number, not {value}")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise PlainDataError(
        f"{where}: {short_repr(value)} is no text, number, list or mapping; write a text in quotes"
    )


def _below(where: str, key: object, depth: int) -> str:
    if isinstance(key, int):
        return f"{where}[{key}]"
    return f"{where}.{key}" if depth else f"{where}: {key}"


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise PlainDataError(f"{where}: the key {short_repr(key)} must be a text: write it in quotes")
    return _whole_text(key, where)


def _whole_text(value: str, where: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise PlainDataError(f"{where}: has half a character in it (a lone surrogate)")
    return value


def _without_advice(error: Exception) -> str:
    # Python's message goes on with a function that would raise the limit
    return str(error).partition(" for integer string")[0]


def short_repr(value: object) -> str:
    """``repr``, cut to 60 characters, for an error message."""
    return repr(value)[:60]


_MEMORY = 1 << 20  # bytes


def checked_pattern(pattern: str) -> str:
    """The pattern itself. Raises ``ValueError`` that says what is wrong with it."""
    _compiled(pattern)
    return pattern


def occurs(pattern: str, text: str) -> bool:
    """Whether it matches somewhere in the text. Raises ``ValueError`` for a bad pattern."""
    return _compiled(pattern).search(text) is not None


def _compiled(pattern: str) -> Any:
    import re2  # here, since few files have a pattern, and it takes its time to load

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise ValueError(f"is no RE2 pattern: {reason}") from None
