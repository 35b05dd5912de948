"""What a toxic is: its attributes, the signature that it leaves, and what it does to a stream of bytes."""

from __future__ import annotations

import math
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from windtunnel.core.caller_errors import NOTHING, TIMEOUT, ErrorKind
from windtunnel.core.spelling import nearest
from windtunnel.toxiproxy.toxics.pipe import ToxicStub, pass_all

STREAMS = ("upstream", "downstream")
HOUR_MS = 3_600_000
# A timer may fire early and a clock may be coarse: "about M" is at least this share of M.
ABOUT = 0.9
# A delay below this cannot be told from the overhead of a healthy link.
NOISE_MS = 10.0


@dataclass(frozen=True)
class ObservedTry:
    """One HTTP try, as its caller and the gateway behind the proxy recorded it. Times in ms.

    ``client_ms``: duration of the client's try; ``client_failed``: it got no valid reply;
    ``client_error``: one of read_timeout, connect_timeout, connection_refused, connection_closed,
    connection_reset, bad_reply, or None; ``client_timeout_ms``: the client's own timeout (0: none).
    ``gateway_ms``: at the gateway, from the first request byte to the last reply byte, or to the end of a try
    without a reply, as far as the client still waited; 0 where no request came;
    ``reply_bytes``: size of the reply that the gateway wrote; ``gateway_client_left``: for the gateway, its
    client was gone before the reply was complete.
    """

    client_ms: float
    client_failed: bool
    client_error: str | None
    client_timeout_ms: float
    gateway_ms: float
    gateway_complete_request: bool
    gateway_complete_reply: bool
    reply_bytes: int
    gateway_client_left: bool = False

    @property
    def patience_ms(self) -> float:
        """The client's timeout; infinite where it has none."""
        return self.client_timeout_ms if self.client_timeout_ms > 0 else math.inf

    @property
    def outside_gateway_ms(self) -> float:
        """The part of the client's time that was not spent at the gateway."""
        return self.client_ms - self.gateway_ms

    def stopped(self, stream: str) -> bool:
        """Whether the gateway's record fits a toxic that stopped that stream: upstream no whole request
        arrived; downstream a whole reply was written, or the connection was cut while the client waited."""
        if stream == "upstream":
            return not self.gateway_complete_request
        cut = self.gateway_client_left and self.client_error in ("connection_closed", "connection_reset")
        return self.gateway_complete_reply or cut

    def gave_up_on_request(self) -> bool:
        """Whether the client timed out before the gateway had the whole request."""
        return self.client_error == "read_timeout" and self.stopped("upstream")

    def delayed_by(self, expected_ms: float, noise_ms: float = 0.0) -> bool:
        """Whether about that much time was lost outside the gateway, as far as the client waited.

        A delay of 0, or below ``noise_ms``, shows nothing. Of a reply that was complete at the gateway, and
        that the client gave up on, only what was left of the client's time can show.
        """
        patience_ms = self.patience_ms
        if self.client_error == "read_timeout" and self.gateway_complete_reply:
            patience_ms -= self.gateway_ms
        visible_ms = min(expected_ms, patience_ms)
        return visible_ms > 0 and visible_ms >= noise_ms and self.outside_gateway_ms >= ABOUT * visible_ms


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

    # what the embedded server needs
    go_integer: ClassVar[str] = "int64"  # the type of the attributes in the real server's errors
    buffer_chunks: ClassVar[int] = 0  # how many chunks may wait before the toxic
    closes_when_removed: ClassVar[bool] = False  # whether its removal closes the connections that it acts on

    @abstractmethod
    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """Whether the records of a try show this toxic; False where they leave it open. Pure."""

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
