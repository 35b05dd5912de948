"""The toxics of one proxy: as the API sees them, and in the order in which a connection crosses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from wirefault.toxiproxy.embedded.errors import ApiError
from wirefault.toxiproxy.embedded.go_decode import (
    FLOAT,
    KEEP,
    STRING,
    Reader,
    mismatch,
    read_fields,
    read_into,
    scalar_field,
    scalar_fields,
)
from wirefault.toxiproxy.embedded.go_json import JsonObject, first_value
from wirefault.toxiproxy.toxics import SERVER_TOXICS
from wirefault.toxiproxy.toxics.base import STREAMS, Toxic

_WRAPPER = "toxics.ToxicWrapper"
_FIELDS = scalar_fields("ToxicWrapper", {"name": STRING, "type": STRING, "stream": STRING, "toxicity": FLOAT})
_UPDATE = 'struct { Attributes interface {} "json:\\"attributes\\""; Toxicity float32 "json:\\"toxicity\\"" }'


@dataclass(eq=False)
class ProxyToxic:
    """A toxic set on a proxy. Its pipes share ``attributes``, so that an update reaches them."""

    name: str
    definition: Toxic
    stream: str  # in the letter case of the request
    toxicity: float
    attributes: dict[str, int]

    @property
    def direction(self) -> str:
        return self.stream.lower()

    def json(self) -> dict[str, Any]:
        return {
            "attributes": dict(self.attributes),
            "name": self.name,
            "type": self.definition.kind,
            "stream": self.stream,
            "toxicity": self.toxicity,
        }


class ChainedLink(Protocol):
    """A link whose chain has the toxics of the collection."""

    def add(self, toxic: ProxyToxic) -> None: ...

    def update(self, toxic: ProxyToxic) -> None: ...

    def remove(self, toxic: ProxyToxic) -> None: ...


class ToxicCollection:
    """The toxics of one proxy, and the open links that they act on. Raises ``ApiError``."""

    def __init__(self) -> None:
        self._chains: dict[str, list[ProxyToxic]] = {stream: [] for stream in STREAMS}
        self._links: dict[str, set[ChainedLink]] = {stream: set() for stream in STREAMS}

    def __iter__(self) -> Iterator[ProxyToxic]:
        """All toxics, upstream first, in the order of their chains."""
        for stream in STREAMS:
            yield from self._chains[stream]

    def chain(self, direction: str) -> tuple[ProxyToxic, ...]:
        return tuple(self._chains[direction])

    def open(self, direction: str, link: ChainedLink) -> None:
        self._links[direction].add(link)

    def close(self, direction: str, link: ChainedLink) -> None:
        self._links[direction].discard(link)

    def get(self, name: str) -> ProxyToxic:
        for toxic in self:
            if toxic.name == name:
                return toxic
        raise ApiError("toxic not found", 404)

    def create(self, body: bytes) -> ProxyToxic:
        """Adds the toxic that a request body describes, to open connections too."""
        toxic = self._described(first_value(body))
        self._chains[toxic.direction].append(toxic)
        for link in tuple(self._links[toxic.direction]):
            link.add(toxic)
        return toxic

    def update(self, name: str, body: bytes) -> ProxyToxic:
        """Changes attributes and toxicity; name, type and stream stay."""
        toxic = self.get(name)
        readers = {
            "attributes": _attributes(toxic.definition, toxic.attributes),
            "toxicity": scalar_field(".toxicity", FLOAT),
        }
        changed = read_fields(first_value(body), _UPDATE, readers)
        toxic.toxicity = changed.get("toxicity", toxic.toxicity)
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

    def _described(self, value: Any) -> ProxyToxic:
        """Checks in the order of the real server, so that of several errors the same one is named."""
        fields = read_fields(value, _WRAPPER, _FIELDS | {"attributes": _any_attributes()})
        stream = fields.get("stream", "downstream")
        if stream.lower() not in STREAMS:
            raise ApiError("stream was invalid, can be either upstream or downstream", 400)
        kind = fields.get("type", "")
        if kind not in SERVER_TOXICS:
            raise ApiError("invalid toxic type", 400)
        name = fields.get("name") or f"{kind}_{stream}"
        if any(toxic.name == name for toxic in self):
            raise ApiError("toxic already exists", 409)
        definition = SERVER_TOXICS[kind]
        attributes = {attribute.name: 0 for attribute in definition.attributes}
        read_fields(value, _WRAPPER, {"attributes": _attributes(definition, attributes)})
        return ProxyToxic(name, definition, stream, fields.get("toxicity", 1.0), attributes)


def _any_attributes() -> Reader:
    """Reads the attributes before the toxic's type is known: an object, or null, which nothing may follow."""
    seen_null = False

    def read(value: Any) -> Any:
        nonlocal seen_null
        if value is None:
            seen_null = True
        elif seen_null or not isinstance(value, JsonObject):
            go_type = "toxics.Toxic" if seen_null else "toxics.NoopToxic"
            raise mismatch(value, f"struct field ToxicWrapper.attributes of type {go_type}")
        return KEEP

    return read


def _attributes(toxic: Toxic, attributes: dict[str, int]) -> Reader:
    """Changes the attributes in place; as in the real server, also those that precede a bad one."""
    struct = type(toxic).__name__
    readers = scalar_fields(f"{struct}.attributes", dict.fromkeys(attributes, toxic.go_integer))
    seen_null = False

    def read(value: Any) -> Any:
        nonlocal seen_null
        seen_null = seen_null or value is None
        if not seen_null:
            read_into(attributes, value, f"struct field .attributes of type toxics.{struct}", readers)
        return KEEP

    return read
