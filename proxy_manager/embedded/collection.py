"""The toxics of one proxy: as the API sees them, and as a new connection meets them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from proxy_manager.embedded import errors
from proxy_manager.embedded.decode import FLOAT, INT, STRING, first_value, read_fields, sub_object
from proxy_manager.embedded.toxics import STAGES, Stage
from proxy_manager.toxics import NOT_EMBEDDED

STREAMS = ("upstream", "downstream")
_FIELDS = {"name": STRING, "type": STRING, "stream": STRING, "toxicity": FLOAT}


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
        value = first_value(body)
        toxic = self._described(value)
        self._chains[toxic.direction].append(toxic)
        for link in tuple(self._links[toxic.direction]):
            link.add(toxic)
        return toxic

    def update(self, name: str, body: bytes) -> ArmedToxic:
        """Changes attributes; name, type and stream stay."""
        toxic = self.get(name)
        value = first_value(body)
        toxicity = read_fields(value, "", {"toxicity": FLOAT}).get("toxicity", toxic.toxicity)
        attributes = _attributes(value, toxic.stage)
        _check_toxicity(toxicity)
        toxic.toxicity = toxicity
        toxic.attributes.update(attributes)
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
        fields = read_fields(value, "ToxicWrapper", _FIELDS)
        sub_object(value, "attributes", "ToxicWrapper")
        stream = fields.get("stream", "downstream")
        if stream.lower() not in STREAMS:
            raise errors.invalid_stream()
        kind = fields.get("type", "")
        if kind in NOT_EMBEDDED:
            raise errors.not_embedded(f"toxic type {kind}")
        if kind not in STAGES:
            raise errors.invalid_toxic_type()
        name = fields.get("name") or f"{kind}_{stream}"
        if any(toxic.name == name for toxic in self):
            raise errors.toxic_already_exists()
        stage = STAGES[kind]
        attributes = dict.fromkeys(stage.fields, 0) | _attributes(value, stage)
        toxicity = fields.get("toxicity", 1)
        _check_toxicity(toxicity)
        return ArmedToxic(name, stage, stream, toxicity, attributes)


def _attributes(value: Any, stage: type[Stage]) -> dict[str, int]:
    given = sub_object(value, "attributes", "ToxicWrapper")
    return read_fields(given, f"{stage.__name__}Toxic.attributes", dict.fromkeys(stage.fields, INT))


def _check_toxicity(toxicity: float) -> None:
    if toxicity < 1:
        raise errors.not_embedded("toxicity below 1")
