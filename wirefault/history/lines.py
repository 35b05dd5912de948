"""Lines of a history: an event as JSON, then the line's number and the hash of the line before.

Altering, removing, duplicating or moving a line breaks the chain after it. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins
from msgspec.json import Encoder

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


def linked(records: Iterable[bytes], number: int, before: str) -> tuple[list[bytes], str]:
    """Return the chained lines of records (JSON objects), and the hash for the next line.

    ``number``: number of the first line, from 1. ``before``: the hash in the first line.
    """
    lines = []
    for place, record in enumerate(records, start=number):
        line = b'%b,"n":%d,"prev":"%b"}' % (record[:-1], place, before.encode())
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


Clock = Annotated[float, Meta(ge=0, le=32_503_680_000)]
"""A time that a clock can show and a chart's axis can reach: in seconds the year 3000, in ms a year."""


class Record(Struct, frozen=True, omit_defaults=True):
    """A part of an event. Fields with their default values are left out of its line."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON data, with all fields."""
        return dict(as_json(self))


class BaseEvent(Record, frozen=True, tag_field="event"):
    """The base of all events. ``event``, the first field of a line, is the tag of the event's class."""

    @property
    def event(self) -> str:
        """Return the tag."""
        return str(self.__struct_config__.tag)


def as_json(value: Any) -> Any:
    """Return a value as JSON data; structs and dataclasses have all of their fields."""
    if isinstance(value, Struct):
        return {name: as_json(getattr(value, name)) for name in value.__struct_fields__}
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return to_builtins(value)


_ENCODER = Encoder()


def event_start(kind: type[BaseEvent]) -> bytes:
    """Return the start of each line with an event of this class."""
    return b'{"event":"%b",' % str(kind.__struct_config__.tag).encode()


def dump_event(event: BaseEvent) -> bytes:
    """Return the event as a JSON object. Raises ``TypeError`` for a value that JSON does not have."""
    try:
        return _ENCODER.encode(event)
    except UnicodeEncodeError:  # a lone surrogate, which readers would reject, escaped or not
        text = json.dumps(to_builtins(event), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")
