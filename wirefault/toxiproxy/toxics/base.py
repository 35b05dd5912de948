"""What a toxic is: its attributes, the signature that it leaves, and what it does to a stream of bytes."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from wirefault.core.caller_errors import NOTHING, TIMEOUT, ErrorKind
from wirefault.core.spelling import nearest
from wirefault.toxiproxy.toxics.observed import ObservedConnection, ObservedTry
from wirefault.toxiproxy.toxics.pipe import ToxicStub, pass_all

STREAMS = ("upstream", "downstream")
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Attribute:
    """One attribute of a toxic, a whole number in ``unit``, within ``minimum`` .. ``maximum``."""

    name: str
    unit: str
    default: int
    maximum: int
    meaning: str
    minimum: int = 0

    def check(self, value: object, where: str) -> int:
        """The value, if it is a whole number in range; raises ``ValueError`` that names it."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{where}: {self.name} must be a whole number of {self.unit}, not {value!r}")
        if not self.minimum <= value <= self.maximum:
            allowed = f"{self.minimum} .. {self.maximum} {self.unit}"
            raise ValueError(f"{where}: {self.name} = {value} is out of range; it must be in {allowed}")
        return value


class Toxic(ABC):
    """One kind of toxic. Instances hold no state: all connections share one.

    The class is named as in Toxiproxy's source, since errors of its API say that name. ``main`` is the
    attribute that the short form ``kind:value`` sets. Where ``has_stream`` is False (``down`` alone), the
    kind is a state of the whole proxy, and the server has no toxic of that kind. ``in_toxiproxy`` says
    whether the real server has it too, so that the conformance suite can compare the two. ``color`` is its
    colour in charts. ``can_cause``: the errors of a try that it may lead to; it explains no other.
    """

    kind: ClassVar[str]
    meaning: ClassVar[str]
    attributes: ClassVar[tuple[Attribute, ...]] = ()
    main: ClassVar[str | None] = None
    has_stream: ClassVar[bool] = True
    in_toxiproxy: ClassVar[bool] = True
    color: ClassVar[str | None] = None
    can_cause: ClassVar[frozenset[ErrorKind]] = NOTHING
    # whether requests still reach the gateway while it stands on the downstream stream, so that calls count
    lets_requests_pass: ClassVar[bool] = False

    # what the embedded server needs
    go_integer: ClassVar[str] = "int64"  # the type of the attributes in the real server's errors
    buffer_chunks: ClassVar[int] = 0  # how many chunks may wait before the toxic
    closes_when_removed: ClassVar[bool] = False  # whether its removal closes the connections that it acts on

    @abstractmethod
    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """Whether the records of a try show this toxic; False where they leave it open. Pure."""

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """Whether a connection that was made while this toxic was armed shows it, for subjects that keep no
        record of their tries; None where a connection cannot tell. Pure."""
        return None

    @property
    def only_delays(self) -> bool:
        """Whether all data arrives in the end, so that a try fails only if its client gives up before."""
        return self.can_cause == TIMEOUT

    def fixed_delay_ms(self, attributes: Mapping[str, int]) -> int:
        """By how much it delays or ends a try of any size; 0 where that depends on the size, or is never."""
        return 0

    def jitter_ms(self, attributes: Mapping[str, int]) -> int:
        """How far its delay varies by chance that no seed repeats."""
        return 0

    async def pipe(self, stub: ToxicStub) -> None:
        """Carries the data of one direction of one connection, in the embedded server.

        Works until the input has ended, the stub is closed or ``Interrupted`` was raised. It is run anew
        after each change of the chain that concerns this toxic.
        """
        await pass_all(stub)

    def on_accept(self, sockets: tuple[socket.socket, socket.socket]) -> None:
        """Called for each new connection through the toxic's proxy, with both of its sockets."""
        return

    def at_share(self, attributes: Mapping[str, int], share: float) -> dict[str, int] | None:
        """The attributes with that share of the dose, above 0 and at most 1; None: it is there or not."""
        return None

    def complete(self, given: Mapping[str, object], where: str = "") -> dict[str, int]:
        """All attributes, defaults filled in; raises ``ValueError`` for an unknown or bad one.

        The server ignores attributes that it does not know, so they must be refused here.
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
