"""What a request brings, checked: query parameters, a JSON body, the text in them, and its world.

Everything here raises ``ToolError`` with a 4xx status that names the parameter or field.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from flask import Request

from flask_tools.errors import ToolError, bad_value
from wirefault.core.worlds import DEFAULT_WORLD, WORLD_HEADER

MAX_PARAMETERS = 20
MAX_WORLD_LENGTH = 200


def query(request: Request, *allowed: str) -> dict[str, str]:
    """The query parameters: each at most once, none unknown, strictly UTF-8."""
    try:
        raw = request.query_string.decode("utf-8")
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError:
        raise ToolError(400, "bad_encoding", "The query string is not UTF-8.") from None
    except ValueError:
        raise bad_value(f"The query string has more than {MAX_PARAMETERS} parameters.") from None
    return _once(pairs, allowed, "parameter")


def json_object(request: Request, *allowed: str) -> dict[str, Any]:
    """The body, a JSON object without unknown or repeated fields, strictly UTF-8."""
    if request.mimetype != "application/json":
        message = f"Send the body as application/json, not as {request.mimetype or 'an unnamed type'}."
        raise ToolError(415, "unsupported_media_type", message)
    try:
        text = request.get_data(cache=True).decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(400, "bad_encoding", "The body is not UTF-8.") from None
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ToolError(400, "not_json", f"The body is not JSON: {error}.") from None
    if not isinstance(pairs, _Pairs):
        raise bad_value("The body must be a JSON object.")
    return _once(pairs, allowed, "field")


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a repeated name is seen."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _once(pairs: list[tuple[str, Any]], allowed: Collection[str], what: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in allowed:
            known = f"known are {', '.join(allowed)}" if allowed else "there are none here"
            raise ToolError(400, f"unknown_{what}", f"Unknown {what} {name[:40]!a}; {known}.")
        if name in values:
            raise ToolError(400, f"repeated_{what}", f"The {what} {name!r} is given more than once.")
        values[name] = value
    return values


def required_text(values: Mapping[str, Any], name: str, max_length: int, *, lines: bool = False) -> str:
    """The text called ``name``, trimmed: there, not empty, at most ``max_length`` characters.

    Control characters are refused, but for tab and line breaks where ``lines`` allows them.
    """
    value = values.get(name)
    if value is None:
        raise ToolError(400, "missing_value", f"{name!r} is missing or null.")
    if not isinstance(value, str):
        raise bad_value(f"{name!r} must be text, not {_kind(value)}.")
    value = value.strip()
    if not value:
        raise bad_value(f"{name!r} is empty.")
    if len(value) > max_length:
        raise bad_value(f"{name!r} has {len(value)} characters; at most {max_length} are allowed.")
    _printable(name, value, "\n\r\t" if lines else "")
    return value


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return "an object" if isinstance(value, _Pairs) else "a list"


def _printable(name: str, value: str, extra: str) -> None:
    for character in value:
        # Cc are control characters, Cs lone surrogates, which no encoding can store
        if unicodedata.category(character) in ("Cc", "Cs") and character not in extra:
            raise bad_value(f"{name!r} holds the character U+{ord(character):04X}, which is not allowed.")


def whole_number(values: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    """The whole number called ``name``, in decimal digits, within the bounds."""
    raw = values.get(name)
    if raw is None:
        return default
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 9 and low <= int(raw) <= high):
        raise bad_value(f"{name!r} must be a whole number from {low} to {high}, not {raw[:40]!a}.")
    return int(raw)


def printable_ascii(value: str, max_length: int) -> bool:
    """Whether the text has 1 to ``max_length`` characters, all of them printable ASCII."""
    return 0 < len(value) <= max_length and value.isascii() and value.isprintable()


def header_text(request: Request, name: str, code: str, max_length: int) -> str | None:
    """A header of 1 to ``max_length`` printable ASCII characters; None if it is absent."""
    value = request.headers.get(name)
    if value is None:
        return None
    if not printable_ascii(value, max_length):
        raise ToolError(400, code, f"{name} must be 1 to {max_length} printable ASCII characters.")
    return value


def world_of_request(request: Request) -> str:
    """The world of the request's header, else ``default``; raises ``ToolError`` for a malformed one."""
    return header_text(request, WORLD_HEADER, "bad_world", MAX_WORLD_LENGTH) or DEFAULT_WORLD
