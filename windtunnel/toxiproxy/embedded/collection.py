"""The toxics of one proxy: as the API sees them, and as a new connection meets them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from windtunnel.toxiproxy.embedded import errors
from windtunnel.toxiproxy.embedded.decode import (
    FLOAT,
    KEEP,
    STRING,
    Reader,
    field,
    fields,
    mismatch,
    read_fields,
    read_into,
)
from windtunnel.toxiproxy.embedded.json_text import Object, first_value
from windtunnel.toxiproxy.embedded.stages import STAGES, Stage

STREAMS = ("upstream", "downstream")
WRAPPER = "toxics.ToxicWrapper"
_FIELDS = fields("ToxicWrapper", {"name": STRING, "type": STRING, "stream": STRING, "toxicity": FLOAT})
_UPDATE = 'struct { Attributes interface {} "json:\\"attributes\\""; Toxicity float32 "json:\\"toxicity\\"" }'


@dataclass(eq=False)
class ArmedToxic:
    """A toxic of a proxy. ``attributes`` is shared with its stages, so that an update reaches them."""

    name: str
    stage: type[Stage]
    stream: str  # as it was written
    toxicity: float
    attributes: dict[str, int]

    @property
    def direction(self) -> str:
        return self.stream.lower()

    def json(self) -> dict[str, Any]:
        return {
            "attributes": dict(self.attributes),
            "name": self.name,
            "type": self.stage.kind,
            "stream": self.stream,
            "toxicity": self.toxicity,
        }


class Chained(Protocol):
    """A link whose chain follows the collection."""

    def add(self, toxic: ArmedToxic) -> None: ...

    def update(self, toxic: ArmedToxic) -> None: ...

    def remove(self, toxic: ArmedToxic) -> None: ...


class ToxicCollection:
    """The toxics of one proxy, and the open links that they act on. Raises ``ApiError``."""

    def __init__(self) -> None:
        self._chains: dict[str, list[ArmedToxic]] = {stream: [] for stream in STREAMS}
        self._links: dict[str, set[Chained]] = {stream: set() for stream in STREAMS}

    def __iter__(self) -> Iterator[ArmedToxic]:
        """All toxics, upstream first, in the order of their chains."""
        for stream in STREAMS:
            yield from self._chains[stream]

    def chain(self, direction: str) -> tuple[ArmedToxic, ...]:
        return tuple(self._chains[direction])

    def open(self, direction: str, link: Chained) -> None:
        self._links[direction].add(link)

    def close(self, direction: str, link: Chained) -> None:
        self._links[direction].discard(link)

    def get(self, name: str) -> ArmedToxic:
        for toxic in self:
            if toxic.name == name:
                return toxic
        raise errors.toxic_not_found()

    def create(self, body: bytes) -> ArmedToxic:
        """Adds the toxic that a request body describes, to open connections too."""
        toxic = self._described(first_value(body))
        self._chains[toxic.direction].append(toxic)
        for link in tuple(self._links[toxic.direction]):
            link.add(toxic)
        return toxic

    def update(self, name: str, body: bytes) -> ArmedToxic:
        """Changes attributes and toxicity; name, type and stream stay."""
        toxic = self.get(name)
        readers = {
            "attributes": _attributes(toxic.stage, toxic.attributes),
            "toxicity": field(".toxicity", FLOAT),
        }
        found = read_fields(first_value(body), _UPDATE, readers)
        toxic.toxicity = found.get("toxicity", toxic.toxicity)
        for link in tuple(self._links[toxic.direction]):
            link.update(toxic)
        return toxic

    def remove(self, name: str) -> None:
        toxic = self.get(name)
        self._chains[toxic.direction].remove(toxic)
        for link in tuple(self._links[toxic.direction]):
            link.remove(toxic)

    def reset(self) -> None:
        for toxic in tuple(self):
            self.remove(toxic.name)

    def _described(self, value: Any) -> ArmedToxic:
        """Checks in the order of the real server, so that the same one of several errors is named."""
        found = read_fields(value, WRAPPER, _FIELDS | {"attributes": _any_attributes()})
        stream = found.get("stream", "downstream")
        if stream.lower() not in STREAMS:
            raise errors.invalid_stream()
        kind = found.get("type", "")
        if kind not in STAGES:
            raise errors.invalid_toxic_type()
        name = found.get("name") or f"{kind}_{stream}"
        if any(toxic.name == name for toxic in self):
            raise errors.toxic_already_exists()
        stage = STAGES[kind]
        attributes = dict.fromkeys(stage.fields, 0)
        read_fields(value, WRAPPER, {"attributes": _attributes(stage, attributes)})
        return ArmedToxic(name, stage, stream, found.get("toxicity", 1.0), attributes)


def _any_attributes() -> Reader:
    """Reads them before the toxic's type is known: an object, or null, which nothing may follow."""
    seen_null = False

    def read(value: Any) -> Any:
        nonlocal seen_null
        if value is None:
            seen_null = True
        elif seen_null or not isinstance(value, Object):
            go_type = "toxics.Toxic" if seen_null else "toxics.NoopToxic"
            raise mismatch(value, f"struct field ToxicWrapper.attributes of type {go_type}")
        return KEEP

    return read


def _attributes(stage: type[Stage], attributes: dict[str, int]) -> Reader:
    """Changes the attributes in place, those before one that does not fit too, as in the real server."""
    readers = fields(f"{stage.struct}.attributes", dict.fromkeys(stage.fields, stage.integer))
    seen_null = False

    def read(value: Any) -> Any:
        nonlocal seen_null
        seen_null = seen_null or value is None
        if not seen_null:
            read_into(attributes, value, f"struct field .attributes of type toxics.{stage.struct}", readers)
        return KEEP

    return read
