"""What a toxic is: its attributes with their units and ranges, and the signature that it leaves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from windtunnel.core.spelling import nearest

STREAMS = ("upstream", "downstream")
HOUR_MS = 3_600_000
# A timer may be early and a clock coarse: "about M" is at least this share of it.
ABOUT = 0.9
# Below this, the overhead of a healthy link looks the same (bandwidth, slicer).
NOISE_MS = 10.0


@dataclass(frozen=True)
class ObservedTry:
    """One HTTP try, as its caller and the gateway behind the proxy recorded it. Times in ms.

    ``client_ms``: duration of the client's try; ``client_failed``: it got no valid reply;
    ``client_error``: one of read_timeout, connect_timeout, connection_refused, connection_closed,
    connection_reset, bad_reply, or None; ``client_timeout_ms``: the client's own timeout (0: none).
    ``gateway_ms``: at the gateway, from the first request byte to the last reply byte, or to the end of a try
    without one; 0 where no request came;
    ``reply_bytes``: size of the reply that the gateway wrote.
    """

    client_ms: float
    client_failed: bool
    client_error: str | None
    client_timeout_ms: float
    gateway_ms: float
    gateway_complete_request: bool
    gateway_complete_reply: bool
    reply_bytes: int

    @property
    def patience_ms(self) -> float:
        """The client's timeout; infinite where it has none."""
        return self.client_timeout_ms if self.client_timeout_ms > 0 else math.inf

    @property
    def added_ms(self) -> float:
        """The part of the client's time that was not spent at the gateway."""
        return self.client_ms - self.gateway_ms

    def crossed(self, stream: str) -> bool:
        """What the gateway shows when a toxic stopped that stream: no whole request, or a whole reply."""
        return self.gateway_complete_reply if stream == "downstream" else not self.gateway_complete_request


@dataclass(frozen=True)
class Attribute:
    """One attribute of a toxic, a whole number in ``unit``, within ``minimum`` .. ``maximum``."""

    name: str
    unit: str
    default: int
    maximum: int
    meaning: str
    minimum: int = 0
    type: type[int] = int

    def check(self, value: object, where: str) -> int:
        """The value, if it is a whole number in range; raises ``ValueError`` that names it."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{where}: {self.name} must be a whole number of {self.unit}, not {value!r}")
        if not self.minimum <= value <= self.maximum:
            allowed = f"{self.minimum} .. {self.maximum} {self.unit}"
            raise ValueError(f"{where}: {self.name} = {value} is out of range; it must be in {allowed}")
        return value


class Toxic(ABC):
    """One kind of toxic. ``main`` names the attribute that the short form ``kind:value`` sets."""

    kind: ClassVar[str]
    meaning: ClassVar[str]
    attributes: ClassVar[tuple[Attribute, ...]] = ()
    main: ClassVar[str | None] = None
    has_stream: ClassVar[bool] = True

    @abstractmethod
    def observed(self, stream: str, attributes: Mapping[str, int], sighting: ObservedTry) -> bool:
        """Whether what the caller saw shows this toxic. Pure; unsure is False."""

    def complete(self, given: Mapping[str, object], where: str = "") -> dict[str, int]:
        """All attributes, defaults filled in; raises ``ValueError`` for an unknown or bad one.

        The server ignores attributes that it does not know, so that they must be caught here.
        """
        where = where or self.kind
        known = {attribute.name: attribute for attribute in self.attributes}
        for name in given:
            if name not in known:
                raise ValueError(f"{where}: {self.kind} has no attribute {name!r}{nearest(name, known)}")
        values = {
            name: attribute.check(given.get(name, attribute.default), where)
            for name, attribute in known.items()
        }
        problem = self.problem(values)
        if problem:
            raise ValueError(f"{where}: {problem}")
        return values

    def problem(self, values: Mapping[str, int]) -> str | None:
        """What is wrong with these values taken together, if anything."""
        return None
