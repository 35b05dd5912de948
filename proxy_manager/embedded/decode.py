"""Reads request bodies as the real server does: the first JSON value, names in any case, typed fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from proxy_manager.embedded.errors import bad_request_body

# the types of fields, by the name that the real server gives them
STRING = "string"
BOOL = "bool"
INT = "int64"
FLOAT = "float32"

INT_LIMIT = 2**63


def first_value(body: bytes) -> Any:
    """The first JSON value of the body; raises ``ApiError`` (400)."""
    text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise bad_request_body("EOF")
    try:
        return json.JSONDecoder(parse_constant=_no_constant).raw_decode(text)[0]
    except ValueError as error:
        position = getattr(error, "pos", 0)
        if position >= len(text):
            raise bad_request_body("unexpected EOF") from error
        raise bad_request_body(
            f"invalid character {text[position]!r} looking for beginning of value"
        ) from error
    except RecursionError as error:
        raise bad_request_body("exceeded max depth") from error


def read_fields(value: Any, struct: str, types: Mapping[str, str]) -> dict[str, Any]:
    """The known fields of a JSON object that are there and not null, checked; others are ignored."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request_body(f"json: cannot unmarshal {_kind(value)} into Go value of type {struct}")
    known = {name.lower(): name for name in types}
    found: dict[str, Any] = {}
    for key, field in value.items():
        name = known.get(key.lower())
        if name is not None and field is not None:
            found[name] = _checked(field, types[name], f"{struct}.{name}")
    return found


def sub_object(value: Any, name: str, struct: str) -> Any:
    """The object under that name, None if absent or null; anything else is a 400."""
    for key, field in value.items() if isinstance(value, dict) else ():
        if key.lower() == name:
            if field is None or isinstance(field, dict):
                return field
            place = f"Go struct field {struct}.{name} of type toxics.NoopToxic"
            raise bad_request_body(f"json: cannot unmarshal {_kind(field)} into {place}")
    return None


def _checked(field: Any, wanted: str, place: str) -> Any:
    kind = _kind(field)
    fits = {
        STRING: kind == "string",
        BOOL: kind == "bool",
        FLOAT: kind == "number",
        INT: isinstance(field, int) and kind == "number" and -INT_LIMIT <= field < INT_LIMIT,
    }[wanted]
    if fits:
        return field
    shown = f"number {field}" if kind == "number" and wanted == INT else kind
    raise bad_request_body(f"json: cannot unmarshal {shown} into Go struct field {place} of type {wanted}")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
