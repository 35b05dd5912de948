"""YAML and JSON read as plain data: what JSON can hold, with every key once. Pure."""

from __future__ import annotations

import json
import math
from typing import Any

from wirefault.core.strict_json import unique

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
