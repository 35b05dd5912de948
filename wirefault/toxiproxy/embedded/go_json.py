"""JSON and errors of Toxiproxy's API: bodies are read and written as Go's ``encoding/json`` does.

The first value of a body counts, keys match in any letter case, null leaves a field as it is, and floats have
single precision. A malformed body gets a plain 400 with our own message.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NoReturn

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_INT_LIMIT = 2**63

FieldReader = Callable[[Any], Any]
"""Converts a field's JSON value; raises ``ValueError``, whose text continues "'name' must be"."""


class ApiError(Exception):
    """An error reply of the API: ``{"error": message, "status": status}``."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


@dataclass(frozen=True)
class NumberText:
    """A number as written: its field decides how it is read."""

    text: str


@dataclass(frozen=True)
class JsonObject:
    """A JSON object with its keys in order; a key may repeat."""

    pairs: list[tuple[str, Any]]


def first_value(body: bytes) -> Any:
    """Return the first JSON value of the body, whatever follows it; raises ``ApiError`` (400)."""
    text = body.decode("utf-8", "toxiproxy.each").lstrip(" \t\r\n")
    try:
        return _DECODER.raw_decode(text)[0]
    except ValueError as error:
        raise bad_request_body(f"invalid JSON: {error}") from None
    except RecursionError:
        raise bad_request_body("invalid JSON: nested too deep") from None


def read_fields(
    value: Any, readers: Mapping[str, FieldReader], fields: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Read the known fields of an object into ``fields``; raises ``ApiError`` (400).

    Other keys are ignored. As in the real server, the fields after a bad one are read before the error.
    """
    fields = {} if fields is None else fields
    if value is None:
        return fields
    if not isinstance(value, JsonObject):
        raise bad_request_body("expected a JSON object")
    names = {name.casefold(): name for name in readers}
    problems: list[str] = []
    for key, item in value.pairs:
        name = names.get(key.casefold())
        if name is None or item is None:
            continue
        try:
            fields[name] = readers[name](item)
        except ValueError as error:
            problems.append(f"'{name}' must be {error}")
    if problems:
        raise bad_request_body(problems[0])
    return fields


def bad_request_body(reason: str) -> ApiError:
    return ApiError(f"bad request body: {reason}", 400)


def read_string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def read_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def read_float32(value: Any) -> float:
    try:
        return as_float32(value.text)
    except (AttributeError, OverflowError):
        raise ValueError("a number in single precision") from None


def read_int64(value: Any) -> int:
    if isinstance(value, NumberText) and re.fullmatch(r"-?[0-9]{1,19}", value.text):
        number = int(value.text)
        if -_INT_LIMIT <= number < _INT_LIMIT:
            return number
    raise ValueError("a whole number in 64 bits")


def read_object(value: Any) -> JsonObject:
    if not isinstance(value, JsonObject):
        raise ValueError("an object")
    return value


def as_float32(text: str) -> float:
    """The number in single precision; raises ``OverflowError``."""
    number = float(text)
    if math.isinf(number):
        raise OverflowError(text)
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


# Go writes numbers from the first of these up to the second without an exponent.
_MIN_PLAIN = as_float32("1e-6")
_MIN_LARGE = as_float32("1e21")


def go_json_text(value: Any) -> str:
    """The value as Go writes it: JSON without spaces, floats in single precision."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(key)}:{go_json_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(go_json_text, value)) + "]"
    if isinstance(value, float):
        return _float32_text(value)
    return json.dumps(value)


def _string(text: str) -> str:
    return encode_basestring(text).translate(_ESCAPED)


def _float32_text(value: float) -> str:
    """The shortest decimal that reads as that float32."""
    short = Decimal(next(text for n in range(1, 10) if as_float32(text := f"{value:.{n}g}") == value))
    if value and not _MIN_PLAIN <= abs(value) < _MIN_LARGE:
        mantissa, _, exponent = f"{short.normalize():e}".partition("e")
        return f"{mantissa}e{int(exponent):+}"
    return f"{short.normalize():f}"


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    return JsonObject([(_without_surrogates(key), _clean_strings(value)) for key, value in pairs])


def _clean_strings(value: Any) -> Any:
    if isinstance(value, str):
        return _without_surrogates(value)
    return [_clean_strings(item) for item in value] if isinstance(value, list) else value


def _without_surrogates(text: str) -> str:
    """Replace each lone half of a surrogate pair, which is not a character."""
    return _SURROGATE.sub("\ufffd", text)


def _replace_byte(error: UnicodeError) -> tuple[str, int]:
    """Replace each byte that is not UTF-8 by its own replacement character."""
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd", error.start + 1


codecs.register_error("toxiproxy.each", _replace_byte)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=NumberText, parse_float=NumberText, parse_constant=_reject_constant
)
