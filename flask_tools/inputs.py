"""Check requests (query parameters, JSON bodies, texts, worlds, languages), and render errors as JSON.

    Exception
    ├── ToolError             the service refuses: status, code, message
    ├── sqlite3.Error         503 state_unavailable
    └── werkzeug HTTPException  404 not_found, 405 method_not_allowed, 413 payload_too_large, 500 ...

Each becomes ``{"error": {"code", "message"}}``. A failed check raises ``ToolError`` with a 4xx status; its
message names the parameter or field.
"""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from flask import Flask, Request, Response, jsonify
from werkzeug.exceptions import HTTPException

from wirefault.state.effects import DEADLINE_HEADER, DEFAULT_WORLD, WORLD_HEADER

MAX_PARAMETERS = 20
MAX_WORLD_LENGTH = 200
_CODES = {413: "payload_too_large", 500: "internal_error"}
_INTERNAL = "The service failed on this request; see its log."


class ToolError(Exception):
    """A refused request: HTTP ``status``, stable ``code`` for programs, ``message`` for users."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def bad_value(message: str) -> ToolError:
    """Return the error (400) for a value that is present but invalid."""
    return ToolError(400, "bad_value", message)


def error_body(code: str, message: str) -> dict[str, dict[str, str]]:
    """Return the JSON form of an error."""
    return {"error": {"code": code, "message": message}}


def register_error_handlers(app: Flask) -> None:
    """Render every error of the app as JSON."""
    for kind in (ToolError, HTTPException, sqlite3.Error):
        app.register_error_handler(kind, _render)


def _render(error: Exception) -> Response:
    status, code, message, headers = _describe(error)
    response = jsonify(error_body(code, message))
    response.status_code = status
    response.headers.extend(headers)
    return response


def _describe(error: Exception) -> tuple[int, str, str, dict[str, str]]:
    if isinstance(error, ToolError):
        return error.status, error.code, error.message, {}
    if isinstance(error, HTTPException):
        status = error.code or 500
        code = _CODES.get(status) or (error.name or "error").lower().replace(" ", "_")
        allowed = getattr(error, "valid_methods", None)
        headers = {"Allow": ", ".join(sorted(allowed))} if allowed else {}
        return status, code, _INTERNAL if status == 500 else error.description or code, headers
    return 503, "state_unavailable", f"The database of the tools (EFFECTS_DB) cannot be used: {error}.", {}


def check_deadline(request: Request, now: float) -> None:
    """Raise ``ToolError`` 412 if the request's deadline (``X-Request-Deadline``) is before ``now``, 400 if
    it is not a Unix time in milliseconds.

    A failed precondition: the write was certainly not carried out. Not 408, after which clients retry.
    """
    text = request.headers.get(DEADLINE_HEADER)
    if text is None:
        return
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise ToolError(400, "bad_deadline", f"{DEADLINE_HEADER} must be a Unix time in milliseconds.")
    if now * 1000 > int(text):
        raise ToolError(412, "deadline_exceeded", "The caller's deadline had passed when the request came.")


def query(request: Request, *allowed: str) -> dict[str, str]:
    """Parse the query parameters: strict UTF-8, no unknown or repeated names."""
    try:
        raw = request.query_string.decode("utf-8")
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError:
        raise ToolError(400, "bad_encoding", "The query string is not UTF-8.") from None
    except ValueError:
        raise bad_value(f"The query string has more than {MAX_PARAMETERS} parameters.") from None
    return _once(pairs, allowed, "parameter")


def json_object(request: Request, *allowed: str) -> dict[str, Any]:
    """Parse the body, a JSON object: strict UTF-8, no unknown or repeated fields."""
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
    """A JSON object as pairs, to detect repeated names."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _once(pairs: list[tuple[str, Any]], allowed: Collection[str], what: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in allowed:
            known = f"valid: {', '.join(allowed)}" if allowed else "none is allowed here"
            raise ToolError(400, f"unknown_{what}", f"Unknown {what} {name[:40]!a}; {known}.")
        if name in values:
            raise ToolError(400, f"repeated_{what}", f"The {what} {name!r} is given more than once.")
        values[name] = value
    return values


def required_text(values: Mapping[str, Any], name: str, max_length: int, *, lines: bool = False) -> str:
    """Return the trimmed text ``name``, which must be present, not empty, and at most ``max_length`` long.

    Control characters are refused, except tabs and line breaks with ``lines``.
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
        # Cc: control characters; Cs: lone surrogates, which no encoding can store
        if unicodedata.category(character) in ("Cc", "Cs") and character not in extra:
            raise bad_value(f"{name!r} holds the character U+{ord(character):04X}, which is not allowed.")


def whole_number(values: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    """Return the whole number ``name``, in decimal digits and within the bounds, or the default."""
    raw = values.get(name)
    if raw is None:
        return default
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 9 and low <= int(raw) <= high):
        raise bad_value(f"{name!r} must be a whole number from {low} to {high}, not {raw[:40]!a}.")
    return int(raw)


def printable_ascii(value: str, max_length: int) -> bool:
    """Return whether the text is 1 to ``max_length`` printable ASCII characters."""
    return 0 < len(value) <= max_length and value.isascii() and value.isprintable()


def header_text(request: Request, name: str, code: str, max_length: int) -> str | None:
    """Return a header of 1 to ``max_length`` printable ASCII characters; None if it is absent."""
    value = request.headers.get(name)
    if value is None:
        return None
    if not printable_ascii(value, max_length):
        raise ToolError(400, code, f"{name} must be 1 to {max_length} printable ASCII characters.")
    return value


def request_world(request: Request) -> str:
    """Return the world in the request's header, else ``default``."""
    return header_text(request, WORLD_HEADER, "bad_world", MAX_WORLD_LENGTH) or DEFAULT_WORLD


# ISO 639-1 code and English name
_LANGUAGE_NAMES = (
    "af Afrikaans, sq Albanian, am Amharic, ar Arabic, hy Armenian, az Azerbaijani, eu Basque, be "
    "Belarusian, bn Bengali, bs Bosnian, bg Bulgarian, my Burmese, ca Catalan, zh Chinese, hr Croatian, "
    "cs Czech, da Danish, nl Dutch, en English, eo Esperanto, et Estonian, fi Finnish, fr French, gl "
    "Galician, ka Georgian, de German, el Greek, gu Gujarati, ht Haitian Creole, ha Hausa, he Hebrew, "
    "hi Hindi, hu Hungarian, is Icelandic, ig Igbo, id Indonesian, ga Irish, it Italian, ja Japanese, "
    "kn Kannada, kk Kazakh, km Khmer, rw Kinyarwanda, ko Korean, ku Kurdish, ky Kyrgyz, lo Lao, la "
    "Latin, lv Latvian, lt Lithuanian, lb Luxembourgish, mk Macedonian, mg Malagasy, ms Malay, ml "
    "Malayalam, mt Maltese, mi Maori, mr Marathi, mn Mongolian, ne Nepali, no Norwegian, ps Pashto, fa "
    "Persian, pl Polish, pt Portuguese, pa Punjabi, ro Romanian, ru Russian, sm Samoan, sr Serbian, sk "
    "Slovak, sl Slovenian, so Somali, es Spanish, sw Swahili, sv Swedish, tl Tagalog, ta Tamil, te "
    "Telugu, th Thai, tr Turkish, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, cy Welsh, xh Xhosa, "
    "yi Yiddish, yo Yoruba, zu Zulu"
)

LANGUAGES: dict[str, str] = {
    code: name for code, _, name in (row.partition(" ") for row in _LANGUAGE_NAMES.split(", "))
}
_CODES_BY_NAME = {name.casefold(): code for code, name in LANGUAGES.items()}


def language_code(field: str, value: str) -> str:
    """Return the code of a language written as ``fr``, ``FR`` or ``French``."""
    key = value.strip().casefold()
    code = key if key in LANGUAGES else _CODES_BY_NAME.get(key)
    if code is None:
        raise bad_value(
            f"{field!r} must be a language, as a code or in English (fr or French), not {value!a}."
        )
    return code
