"""Read YAML and JSON as plain data: the types of JSON, each key once. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any


def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Build a dict from a JSON object's pairs; raises ``ValueError`` for a duplicate key."""
    unique_pairs: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique_pairs:
            raise ValueError(f"duplicate key {key}")
        unique_pairs[key] = value
    return unique_pairs


_MAX_DEPTH = 100


class PlainDataError(ValueError):
    """Not plain data; the message names the file, the key or line, and the reason."""


_NESTING = re.compile(r'"(?:[^"\\\n]|\\.)*"|[\[{\]}\n]')


def too_deep(where: str, text: str) -> str:
    """Return the error for a file that is nested too deeply, with the line if brackets show it."""
    depth, line = 0, 1
    for sign in _NESTING.finditer(text):
        line += sign[0] == "\n"
        depth += (sign[0] in "[{") - (sign[0] in "]}")
        if depth > _MAX_DEPTH:
            return f"{where}:{line}: nested too deeply"
    return f"{where}: nested too deeply"


def no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which are not JSON; for ``parse_constant``."""
    raise ValueError(f"{name} is not a number in JSON")


def read_yaml(text: str, where: str) -> Any:
    """Read JSON or YAML. ``where`` (a file name) is used in errors. Raises ``PlainDataError``."""
    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError:
        pass
    except RecursionError:
        raise PlainDataError(too_deep(where, text)) from None
    except ValueError as error:  # a duplicate key, or a number that is too long
        raise PlainDataError(f"{where}: {_without_advice(error)}") from None
    # JSON does not need PyYAML, which is slow to import
    from wirefault.core.yaml_text import YamlError, load_yaml

    try:
        return load_yaml(text)
    except YamlError as error:
        place = f":{error.line}" if error.line else ""
        raise PlainDataError(f"{where}{place}: {error}") from None
    except RecursionError:
        raise PlainDataError(too_deep(where, text)) from None
    # a number that is too long, or a value that does not fit its !!tag
    except (ValueError, TypeError, AttributeError) as error:
        raise PlainDataError(f"{where}: not YAML: {_without_advice(error)}") from None


def plain_data(value: Any, where: str, depth: int = 0) -> Any:
    """Return the value with tuples as lists. Raises ``PlainDataError`` with the key of an invalid value."""
    if depth > _MAX_DEPTH:
        raise PlainDataError(f"{where[:100]}: nested too deeply, or contains itself")
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
        f"{where}: {short_repr(value)} must be a text, number, list or mapping; put a text in quotes"
    )


def _below(where: str, key: object, depth: int) -> str:
    if isinstance(key, int):
        return f"{where}[{key}]"
    return f"{where}.{key}" if depth else f"{where}: {key}"


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise PlainDataError(f"{where}: the key {short_repr(key)} must be a text: put it in quotes")
    return _whole_text(key, where)


def _whole_text(value: str, where: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise PlainDataError(f"{where}: contains a lone surrogate (half a character)")
    return value


def _without_advice(error: Exception) -> str:
    # drop Python's advice to call a function that raises the limit
    return str(error).partition(" for integer string")[0]


def short_repr(value: object) -> str:
    """Return ``repr``, cut to 60 characters, for error messages."""
    return repr(value)[:60]


_MAX_PATTERN_BYTES = 1 << 20


def checked_pattern(pattern: str) -> str:
    """Return the pattern. Raises ``ValueError`` with the problem if it is invalid."""
    _compiled(pattern)
    return pattern


def occurs(pattern: str, text: str) -> bool:
    """Return whether the pattern matches anywhere in the text. Raises ``ValueError`` for a bad pattern."""
    return _compiled(pattern).search(text) is not None


def _compiled(pattern: str) -> Any:
    import re2  # imported here: slow to load, and few files use patterns

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise ValueError(f"is not an RE2 pattern: {reason}") from None
