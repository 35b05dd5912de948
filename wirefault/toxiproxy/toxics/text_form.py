"""The text form of a toxic: ``kind[@stream][:value | :attribute=value;attribute=value]``.

``timeout:400``, ``latency@upstream:300``, ``latency:latency=300;jitter=50``, ``down``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wirefault.core.errors import nearest
from wirefault.toxiproxy.toxics import toxic
from wirefault.toxiproxy.toxics.base import STREAMS, Toxic


@dataclass(frozen=True)
class ToxicSpec:
    """A kind with all its attributes, and the streams to choose from.

    ``down``, which has no stream, has downstream only. ``str`` returns the canonical text, which parses to an
    equal spec.
    """

    kind: str
    attributes: Mapping[str, int] = field(hash=False)
    streams: tuple[str, ...]

    def __str__(self) -> str:
        known = toxic(self.kind)
        stream = f"@{self.streams[0]}" if known.has_stream and len(self.streams) == 1 else ""
        defaults = {attribute.name: attribute.default for attribute in known.attributes}
        others = {name: value for name, value in self.attributes.items() if name != known.main}
        if not self.attributes:
            values = ""
        elif all(value == defaults[name] for name, value in others.items()):
            values = f":{self.attributes[known.main or '']}"
        else:
            values = ":" + ";".join(f"{name}={value}" for name, value in self.attributes.items())
        return self.kind + stream + values


def parse(text: str) -> ToxicSpec:
    """Parse a spec and fill in defaults; raises ``ValueError`` that names the mistake."""
    head, colon, values = text.strip().partition(":")
    kind, at, stream = head.partition("@")
    known = toxic(kind.strip())
    where = f"toxic {text.strip()!r}"
    if colon and not values.strip():
        raise ValueError(f"{where}: missing value after the colon")
    return ToxicSpec(
        kind=known.kind,
        attributes=known.complete(_attributes(known, values.strip(), where), where),
        streams=streams_of(known, stream.strip() if at else None, where),
    )


def parse_list(text: str) -> tuple[ToxicSpec, ...]:
    """Parse specs separated by commas; raises ``ValueError``, also for an empty list."""
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"no toxic in {text!r}; write for example timeout:400,latency:300")
    return tuple(parse(part) for part in parts)


def streams_of(known: Toxic, stream: object, where: str) -> tuple[str, ...]:
    """Return the named stream, or all streams for None; raises ``ValueError`` that starts with ``where``."""
    if not known.has_stream:
        if stream is not None:
            raise ValueError(f"{where}: {known.kind} has no stream; leave it out")
        return ("downstream",)
    if stream is None:
        return STREAMS
    if not isinstance(stream, str) or stream not in STREAMS:
        raise ValueError(f"{where}: unknown stream {stream!r}{nearest(str(stream), STREAMS)}")
    return (stream,)


def _attributes(known: Toxic, values: str, where: str) -> dict[str, object]:
    if not values:
        return {}
    if "=" not in values:
        if known.main is None:
            raise ValueError(f"{where}: {known.kind} takes no value; write {known.kind!r}")
        return {known.main: _number(values, known.main, where)}
    attributes: dict[str, object] = {}
    for part in values.split(";"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ValueError(f"{where}: {part.strip()!r} must be attribute=value")
        if name in attributes:
            raise ValueError(f"{where}: duplicate {name}")
        attributes[name] = _number(value, name, where)
    return attributes


def _number(text: str, name: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{where}: {name} must be a whole number, not {text!r}") from None
