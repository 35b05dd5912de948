"""The hash chain of a history file: each line ends with its number and the hash of the line before.

Altering, removing, duplicating or moving a line breaks the chain after it. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, get_type_hints

from pydantic import Field
from pydantic.fields import FieldInfo

from wirefault.core.identity import digest

_HASH_BYTES = 16
_EMPTY_HASH = blake2b(digest_size=_HASH_BYTES)
_LINK = re.compile(rb',"n":([1-9][0-9]{0,15}),"prev":"([0-9a-f]{32})"\}\Z')
_MAX_LINK_LENGTH = 64


def line_hash(line: bytes) -> str:
    """Return the line's hash for the next line: BLAKE2b with 16 bytes, in hexadecimal, without line feed."""
    hashed = _EMPTY_HASH.copy()  # copying is cheaper than creating; runs for each line
    hashed.update(line)
    return hashed.hexdigest()


def origin(run_id: str, file_name: str) -> str:
    """Return the hash in the first line, which prevents replacing the file by another file or run's file."""
    return digest("history", run_id, file_name, size=_HASH_BYTES).hex()


def linked(records: Iterable[str], number: int, before: str) -> tuple[list[bytes], str]:
    """Return the chained lines of records (JSON objects as text), and the hash for the next line.

    ``number``: number of the first line, from 1. ``before``: the hash in the first line.
    """
    lines = []
    for place, record in enumerate(records, start=number):
        # readers would reject a lone surrogate, escaped or not
        line = f'{record[:-1]},"n":{place},"prev":"{before}"}}'.encode("utf-8", "replace")
        before = line_hash(line)
        lines.append(line)
    return lines, before


def unlinked(line: bytes) -> bytes | None:
    """Return the line's record without its link; None for a line without a link."""
    link = _link(line)
    return line[: link.start()] + b"}" if link else None


def _link(line: bytes) -> re.Match[bytes] | None:
    return _LINK.search(line, max(0, len(line) - _MAX_LINK_LENGTH))


@dataclass(frozen=True)
class ChainBreak:
    """The first altered line of a file, counted from 1, and a description of the damage."""

    line: int
    what: str


def first_break(lines: Sequence[bytes], start: str) -> ChainBreak | None:
    """Return the first break in the chain, or None. ``start``: the expected hash in the first line."""
    before = start
    for number, line in enumerate(lines, start=1):
        link = _link(line)
        if link is None:
            return ChainBreak(number, "altered or inserted: the hash of the line before is missing")
        written_as = int(link[1])
        if link[2].decode() != before or written_as != number:
            return _explain(lines, number, written_as)
        before = line_hash(line)
    return None


def _explain(lines: Sequence[bytes], number: int, written_as: int) -> ChainBreak:
    """Explain the break at line ``number``, which was written as line ``written_as``."""
    line = lines[number - 1]
    if line in lines[: number - 1]:
        return ChainBreak(number, f"duplicate of line {lines.index(line) + 1}")
    if written_as > number:
        return ChainBreak(number, f"lost: this was line {written_as}")
    if written_as < number:
        return ChainBreak(number, f"inserted or moved: this was line {written_as}")
    if number == 1:
        return ChainBreak(1, "of another file or run: was it moved, or the run's folder renamed?")
    return ChainBreak(number - 1, "altered: the next line has another hash of it")


_NAME = "event"


def omitted_if(value: Any) -> Any:
    """Annotate a field with its value in lines that omit it. The field remains a required argument."""
    return Field(default_factory=list) if value == [] else Field(default=value)


@cache
def default_values(kind: type) -> Mapping[str, Any]:
    """Return the values that a line of this event type may omit, by field; never the event's name."""
    annotations = get_type_hints(kind, include_extras=True)
    defaults: dict[str, Any] = {}
    for field in fields(kind):
        if field.default is not MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not MISSING:
            defaults[field.name] = field.default_factory()
        for hint in getattr(annotations[field.name], "__metadata__", ()):
            if isinstance(hint, FieldInfo):
                defaults[field.name] = hint.get_default(call_default_factory=True)
    return {name: value for name, value in defaults.items() if name != _NAME}


def dump_event(event: Any) -> str:
    """Return the event as a JSON object without default values, in the order of its fields."""
    defaults = default_values(event.__class__)
    record = {n: value for n, value in vars(event).items() if n not in defaults or defaults[n] != value}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=_all_fields)


def _all_fields(part: object) -> dict[str, Any]:
    """Return all fields of a dataclass inside an event."""
    if not is_dataclass(part):
        raise TypeError(f"{type(part).__name__} is not part of an event")
    return {field.name: getattr(part, field.name) for field in fields(part)}
