"""JSON as the real server reads and writes it: the first value of a body; its own way to write numbers."""

from __future__ import annotations

import codecs
import json
import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NoReturn

from wirefault.toxiproxy.embedded.errors import bad_request_body
from wirefault.toxiproxy.embedded.go_json_errors import go_json_error

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class NumberText:
    """A number as it was written: the field that it is for decides how it is read."""

    text: str


@dataclass(frozen=True)
class JsonObject:
    """A JSON object with its keys in order; a key may come twice."""

    pairs: list[tuple[str, Any]]


def first_value(body: bytes) -> Any:
    """The first JSON value of the body, whatever follows it; raises ``ApiError`` (400)."""
    text = body.decode("utf-8", "toxiproxy.each").lstrip(" \t\r\n")
    try:
        value = _DECODER.raw_decode(text)[0]
    except ValueError as error:
        raise bad_request_body(go_json_error(body) or str(error)) from None
    except RecursionError:
        raise bad_request_body("exceeded max depth") from None
    # Python reads "1." as the number 1 with something after it, where Go sees an error.
    if isinstance(value, NumberText) and (error_text := go_json_error(body)):
        raise bad_request_body(error_text)
    return value


def as_float32(text: str) -> float:
    """The number in single precision; raises ``OverflowError``."""
    number = float(text)
    if math.isinf(number):
        raise OverflowError(text)
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


# Go writes a number without an exponent from the first of these up to the second.
_SMALLEST_PLAIN = as_float32("1e-6")
_SMALLEST_LARGE = as_float32("1e21")


def go_json_text(value: Any) -> str:
    """The value as Go writes it: JSON without spaces, with floats in single precision."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(key)}:{go_json_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(go_json_text, value)) + "]"
    if isinstance(value, float):
        return _float32(value)
    return json.dumps(value)


def _string(text: str) -> str:
    return encode_basestring(text).translate(_ESCAPED)


def _float32(value: float) -> str:
    """The shortest decimal that reads as that float32."""
    short = Decimal(next(text for n in range(1, 10) if as_float32(text := f"{value:.{n}g}") == value))
    if value and not _SMALLEST_PLAIN <= abs(value) < _SMALLEST_LARGE:
        mantissa, _, exponent = f"{short.normalize():e}".partition("e")
        return f"{mantissa}e{int(exponent):+}"
    return f"{short.normalize():f}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    return JsonObject([(_characters(key), _strings(value)) for key, value in pairs])


def _strings(value: Any) -> Any:
    if isinstance(value, str):
        return _characters(value)
    return [_strings(item) for item in value] if isinstance(value, list) else value


def _characters(text: str) -> str:
    """Replaces each half of a surrogate pair, which is no character."""
    return _SURROGATE.sub("\ufffd", text)


def _each_byte(error: UnicodeError) -> tuple[str, int]:
    """Replaces each byte that is no UTF-8 by a replacement character of its own."""
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd", error.start + 1


codecs.register_error("toxiproxy.each", _each_byte)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=NumberText, parse_float=NumberText, parse_constant=_no_constant
)
