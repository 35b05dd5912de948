"""Request bodies decoded as by the real server: keys in any case, typed fields, its words for errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from wirefault.toxiproxy.embedded.errors import bad_request_body
from wirefault.toxiproxy.embedded.go_json import JsonObject, NumberText, as_float32

# The types of fields, as the real server names them.
STRING = "string"
BOOL = "bool"
FLOAT = "float32"

KEEP = object()  # what a reader returns for null: the field stays as it is
_INT_LIMIT = 2**63

Reader = Callable[[Any], Any]


class Mismatch(Exception):
    """A value of the wrong type for its field; the text says so in Go's words."""


def mismatch(value: Any, place: str, shown: str = "") -> Mismatch:
    return Mismatch(f"json: cannot unmarshal {shown or kind_of(value)} into Go {place}")


def scalar_field(label: str, go_type: str) -> Reader:
    """The reader of a scalar of that type. ``label`` is the field as errors name it."""

    def read(value: Any) -> Any:
        if value is None:
            return KEEP
        scalar = _scalar(value, go_type)
        if scalar is None:
            unfit_number = isinstance(value, NumberText) and go_type not in (STRING, BOOL)
            shown = f"number {value.text}" if unfit_number else ""
            raise mismatch(value, f"struct field {label} of type {go_type}", shown)
        return scalar

    return read


def scalar_fields(struct: str, types: Mapping[str, str]) -> dict[str, Reader]:
    return {name: scalar_field(f"{struct}.{name}", go_type) for name, go_type in types.items()}


def opaque(label: str, go_type: str) -> Reader:
    """The reader of an object whose content does not matter."""

    def read(value: Any) -> Any:
        if value is not None and not isinstance(value, JsonObject):
            raise mismatch(value, f"struct field {label} of type {go_type}")
        return KEEP

    return read


def read_into(target: dict[str, Any], value: Any, place: str, readers: Mapping[str, Reader]) -> None:
    """Puts the known fields of a JSON object into ``target``; others are ignored.

    Reads on after a field that does not fit, as the real server does, and raises the first ``Mismatch`` at
    the end.
    """
    if value is None:
        return
    if not isinstance(value, JsonObject):
        raise mismatch(value, place)
    folded = {name.casefold(): name for name in readers}
    first_error: Mismatch | None = None
    for key, item in value.pairs:
        name = folded.get(key.casefold())
        if name is None:
            continue
        try:
            scalar = readers[name](item)
        except Mismatch as error:
            first_error = first_error or error
        else:
            if scalar is not KEEP:
                target[name] = scalar
    if first_error:
        raise first_error


def read_fields(value: Any, go_type: str, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The known fields of a request body's object; raises ``ApiError`` (400)."""
    values: dict[str, Any] = {}
    try:
        read_into(values, value, f"value of type {go_type}", readers)
    except Mismatch as error:
        raise bad_request_body(str(error)) from None
    return values


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, NumberText):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, JsonObject) else "array"


def _scalar(value: Any, go_type: str) -> Any:
    """The value as that type; None if it is of another."""
    if go_type == STRING:
        return value if isinstance(value, str) else None
    if go_type == BOOL:
        return value if isinstance(value, bool) else None
    if not isinstance(value, NumberText):
        return None
    if go_type == FLOAT:
        try:
            return as_float32(value.text)
        except OverflowError:
            return None
    if not re.fullmatch(r"-?[0-9]{1,19}", value.text):
        return None
    number = int(value.text)
    return number if -_INT_LIMIT <= number < _INT_LIMIT else None
