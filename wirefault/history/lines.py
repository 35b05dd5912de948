"""The chain through the lines of a history file: each ends with its number and the hash of the line before.

So no line can be altered, lost, doubled or moved without a break in the chain behind it. Pure.
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
_LONGEST_LINK = 64


def line_hash(line: bytes) -> str:
    """What the next line carries: BLAKE2b of 16 bytes, hexadecimal, of the line without its line feed."""
    hashed = _EMPTY_HASH.copy()  # at less than the cost of a new one, for each line
    hashed.update(line)
    return hashed.hexdigest()


def origin(run_id: str, file_name: str) -> str:
    """What the first line carries, so that no file can stand in for another, nor for that of another run."""
    return digest("history", run_id, file_name, size=_HASH_BYTES).hex()


def linked(records: Iterable[str], number: int, before: str) -> tuple[list[bytes], str]:
    """The lines for records, JSON objects as text, and the hash that the line after them will carry.

    ``number`` is the first one's, from 1, and ``before`` the hash that it carries.
    """
    lines = []
    for place, record in enumerate(records, start=number):
        # a lone surrogate, escaped or not, is no text that a reader would take
        line = f'{record[:-1]},"n":{place},"prev":"{before}"}}'.encode("utf-8", "replace")
        before = line_hash(line)
        lines.append(line)
    return lines, before


def unlinked(line: bytes) -> bytes | None:
    """The record on a line as it was before it was linked; None for a line without a link."""
    link = _link(line)
    return line[: link.start()] + b"}" if link else None


def _link(line: bytes) -> re.Match[bytes] | None:
    return _LINK.search(line, max(0, len(line) - _LONGEST_LINK))


@dataclass(frozen=True)
class ChainBreak:
    """The first line of a file, counted from 1, that is not as it was written, and in words what is wrong."""

    line: int
    what: str


def first_break(lines: Sequence[bytes], start: str) -> ChainBreak | None:
    """Where the chain breaks, if it does; ``start`` is what the first line has to carry."""
    before = start
    for number, line in enumerate(lines, start=1):
        link = _link(line)
        if link is None:
            return ChainBreak(number, "altered or put there: it does not carry the hash of the line before")
        written_as = int(link[1])
        if link[2].decode() != before or written_as != number:
            return _explain(lines, number, written_as)
        before = line_hash(line)
    return None


def _explain(lines: Sequence[bytes], number: int, written_as: int) -> ChainBreak:
    """What the line ``number``, which was written as the line ``written_as``, shows by not fitting."""
    line = lines[number - 1]
    if line in lines[: number - 1]:
        return ChainBreak(number, f"doubled: it is line {lines.index(line) + 1} again")
    if written_as > number:
        return ChainBreak(number, f"lost: here stands what was line {written_as}")
    if written_as < number:
        return ChainBreak(number, f"put there or moved: here stands what was line {written_as}")
    if number == 1:
        return ChainBreak(1, "of another file or run: was it moved, or the run's folder renamed?")
    return ChainBreak(number - 1, "altered: the next line carries another hash of it")


_NAME = "event"


def omitted_if(value: Any) -> Any:
    """For the annotation of a field: a line without it has this value. The field stays one to be given."""
    return Field(default_factory=list) if value == [] else Field(default=value)


@cache
def default_values(kind: type) -> Mapping[str, Any]:
    """What a line of that kind of event may leave out, by field: never the event's own name."""
    annotations = get_type_hints(kind, include_extras=True)
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.default is not MISSING:
            found[field.name] = field.default
        elif field.default_factory is not MISSING:
            found[field.name] = field.default_factory()
        for hint in getattr(annotations[field.name], "__metadata__", ()):
            if isinstance(hint, FieldInfo):
                found[field.name] = hint.get_default(call_default_factory=True)
    return {name: value for name, value in found.items() if name != _NAME}


def dump_event(event: Any) -> str:
    """The event as a JSON object of what is not as usual, in the order of its fields."""
    usual = default_values(event.__class__)
    told = {name: value for name, value in vars(event).items() if name not in usual or usual[name] != value}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=_all_fields)


def _all_fields(part: object) -> dict[str, Any]:
    """A part of an event, which has no line of its own, is told whole."""
    if not is_dataclass(part):
        raise TypeError(f"{type(part).__name__} is no part of an event")
    return {field.name: getattr(part, field.name) for field in fields(part)}
