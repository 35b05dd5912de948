"""Request bodies as the real server takes them: keys in any case, typed fields, its words for errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from windtunnel.toxiproxy.embedded.errors import bad_request_body
from windtunnel.toxiproxy.embedded.json_text import Number, Object, as_float32

# the types of fields, by the name that the real server gives them
STRING = "string"
BOOL = "bool"
INT64 = "int64"
INT = "int"
FLOAT = "float32"

INT_LIMIT = 2**63
KEEP = object()  # what a reader gives for null: the field stays as it is

Reader = Callable[[Any], Any]


class Mismatch(Exception):
    """A value that does not fit where it stands; its text says so."""


def mismatch(value: Any, place: str, shown: str = "") -> Mismatch:
    return Mismatch(f"json: cannot unmarshal {shown or kind_of(value)} into Go {place}")


def field(label: str, wanted: str) -> Reader:
    """Reads a scalar. ``label`` is the field as errors name it."""

    def read(value: Any) -> Any:
        if value is None:
            return KEEP
        found = _scalar(value, wanted)
        if found is None:
            shown = (
                f"number {value.text}" if isinstance(value, Number) and wanted not in (STRING, BOOL) else ""
            )
            raise mismatch(value, f"struct field {label} of type {wanted}", shown)
        return found

    return read


def fields(struct: str, types: Mapping[str, str]) -> dict[str, Reader]:
    return {name: field(f"{struct}.{name}", wanted) for name, wanted in types.items()}


def opaque(label: str, go_type: str) -> Reader:
    """An object whose content does not matter."""

    def read(value: Any) -> Any:
        if value is not None and not isinstance(value, Object):
            raise mismatch(value, f"struct field {label} of type {go_type}")
        return KEEP

    return read


def read_into(found: dict[str, Any], value: Any, place: str, readers: Mapping[str, Reader]) -> None:
    """Puts the known fields of a JSON object into ``found``, others are ignored.

    Reads on after a field that does not fit, as the real server does, and raises the first ``Mismatch`` at
    the end.
    """
    if value is None:
        return
    if not isinstance(value, Object):
        raise mismatch(value, place)
    folded = {name.casefold(): name for name in readers}
    wrong: Mismatch | None = None
    for key, item in value.pairs:
        name = folded.get(key.casefold())
        if name is None:
            continue
        try:
            read = readers[name](item)
        except Mismatch as error:
            wrong = wrong or error
        else:
            if read is not KEEP:
                found[name] = read
    if wrong:
        raise wrong


def read_fields(value: Any, go_type: str, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The known fields of a request body's object; raises ``ApiError`` (400)."""
    found: dict[str, Any] = {}
    try:
        read_into(found, value, f"value of type {go_type}", readers)
    except Mismatch as error:
        raise bad_request_body(str(error)) from None
    return found


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Number):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Object) else "array"


def _scalar(value: Any, wanted: str) -> Any:
    """The value as that type, None if it is none."""
    if wanted == STRING:
        return value if isinstance(value, str) else None
    if wanted == BOOL:
        return value if isinstance(value, bool) else None
    if not isinstance(value, Number):
        return None
    if wanted == FLOAT:
        try:
            return as_float32(value.text)
        except OverflowError:
            return None
    if not re.fullmatch(r"-?[0-9]{1,19}", value.text):
        return None
    number = int(value.text)
    return number if -INT_LIMIT <= number < INT_LIMIT else None
