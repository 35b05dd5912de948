"""What a toxic is: its attributes, the signature that it leaves, and what it does to a stream of bytes."""

from __future__ import annotations

import math
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from wirefault.core.caller_errors import NOTHING, TIMEOUT, ErrorKind
from wirefault.core.errors import nearest

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
    client was gone before the reply was complete. ``client_waited``: its connection was refused, and it
    waited until it had one. ``tls``: ``fresh`` where the try's TLS handshake crossed the toxic before it,
    ``kept`` where its connection had carried another try, empty for plain HTTP. ``in_progress``: it was under
    way when the toxic began.
    """

    client_ms: float
    client_failed: bool
    client_error: str | None
    client_timeout_ms: float
    gateway_ms: float
    gateway_complete_request: bool
    gateway_complete_reply: bool
    reply_bytes: int
    client_waited: bool = False
    gateway_client_left: bool = False
    tls: Literal["", "fresh", "kept"] = ""
    in_progress: bool = False

    @property
    def patience_ms(self) -> float:
        """The client's timeout; infinite where it has none."""
        return self.client_timeout_ms if self.client_timeout_ms > 0 else math.inf

    @property
    def outside_gateway_ms(self) -> float:
        """The part of the client's time that was not spent at the gateway."""
        return self.client_ms - self.gateway_ms

    @property
    def gave_up(self) -> bool:
        """Whether the client's own time limit ended it; many count a TLS handshake as connecting."""
        waits_for = ("read_timeout", "connect_timeout") if self.tls == "fresh" else ("read_timeout",)
        return self.client_error in waits_for

    @property
    def crossings(self) -> int:
        """How often each stream has to cross the toxic one after the other: a handshake is once more."""
        return 2 if self.tls == "fresh" else 1

    def stopped(self, stream: str) -> bool:
        """Whether the gateway's record fits a toxic that stopped that stream: upstream no whole request
        arrived; downstream a whole reply was written, or the connection was cut while the client waited.

        A stopped handshake keeps the request from the gateway, whichever stream it was stopped in."""
        if stream == "upstream" or (self.tls == "fresh" and not self.gateway_complete_request):
            return not self.gateway_complete_request
        cut = self.gateway_client_left and self.client_error in ("connection_closed", "connection_reset")
        return self.gateway_complete_reply or cut

    def gave_up_on_request(self) -> bool:
        """Whether the client timed out before the gateway had the whole request."""
        return self.gave_up and self.stopped("upstream")

    def delayed_by(self, expected_ms: float, noise_ms: float = 0.0) -> bool:
        """Whether about that much time was lost outside the gateway, as far as the client waited.

        A delay of 0, or below ``noise_ms``, shows nothing. Of a reply that was complete at the gateway, and
        that the client gave up on, only what was left of the client's time can show.
        """
        patience_ms = self.patience_ms
        if self.gave_up and self.gateway_complete_reply:
            patience_ms -= self.gateway_ms
        visible_ms = min(expected_ms, patience_ms)
        return visible_ms > 0 and visible_ms >= noise_ms and self.outside_gateway_ms >= ABOUT * visible_ms


@dataclass(frozen=True)
class ObservedConnection:
    """One connection through the link's proxy, as the ingress recorded it on the subject's side. Times in ms.

    ``ms`` runs from the subject's first byte to the end, ``first_byte_ms`` from there to the first byte that
    it got, None if it got none. ``sent`` and ``received``: bytes from and to the subject. ``by_proxy``: the
    subject did not end it. ``how``: in order (``fin``), by a reset, the proxy could not be dialled, or it was
    still open when its attempt ended.
    Of the requests that the gateway had on the link meanwhile: whether it got one whole, whether it wrote a
    whole reply, and how long the slowest took.
    """

    ms: float
    first_byte_ms: float | None
    sent: int
    received: int
    by_proxy: bool
    how: Literal["fin", "rst", "refused", "open"]
    tls: bool
    gateway_complete_request: bool = False
    gateway_complete_reply: bool = False
    gateway_ms: float = 0.0

    def stopped(self, stream: str) -> bool:
        """Whether the subject asked and got nothing, by a toxic that stopped that stream.

        The gateway answers a TLS handshake by itself and at once: no byte of it means that none could pass.
        Without TLS its record tells in which stream they stopped.
        """
        if not self.sent or self.received:
            return False
        return self.tls or (
            self.gateway_complete_reply if stream == "downstream" else not self.gateway_complete_request
        )

    def delayed_by(self, expected_ms: float) -> bool:
        """Whether the first byte came about that much later than the gateway took for it; or none came, as
        far as the subject waited for it. The gateway takes no time for a handshake."""
        own_ms = 0.0 if self.tls else self.gateway_ms
        if self.first_byte_ms is not None:
            return expected_ms > 0 and self.first_byte_ms - own_ms >= ABOUT * expected_ms
        waited_ms = min(expected_ms, self.ms)
        asked = self.sent > 0 and not self.by_proxy
        return asked and waited_ms >= NOISE_MS and self.ms - own_ms >= ABOUT * waited_ms


class Interrupted(Exception):
    """The chain changes at this toxic: its pipe passes on the data that it holds, and ends.

    The server may run the pipe anew afterwards.
    """


@dataclass(slots=True)
class Chunk:
    """The bytes of one read and the time (s) of that read; a toxic that delays them moves the time on."""

    data: bytes
    time: float


class ToxicStub(Protocol):
    """One toxic in one direction of one connection: all that its pipe may use."""

    attributes: Mapping[str, int]
    """Those of the toxic; a change over the API shows at once."""

    bytes_passed: int
    """For the pipe's own use; 0 at first, and kept when the pipe is run anew."""

    def now(self) -> float:
        """The time in s, of the same clock as a chunk's."""

    async def receive(self, within: float | None = None) -> Chunk | None:
        """The next chunk; None once the input has ended, or after ``within`` s. Raises ``Interrupted``."""

    async def send(self, chunk: Chunk) -> None:
        """Pass the chunk on, and waits until there is room behind. It is never interrupted."""

    async def sleep(self, seconds: float) -> None:
        """Raises ``Interrupted``, and has then slept for less."""

    async def sleep_uninterrupted(self, seconds: float) -> None:
        """Sleep to the end: until then no change of the chain gets past this toxic."""

    def close(self) -> None:
        """End the output. Nothing may be sent afterwards."""


async def pass_all(stub: ToxicStub) -> None:
    """Pass all data on as it comes, and then the end."""
    while (chunk := await stub.receive()) is not None:
        await stub.send(chunk)
    stub.close()


def seconds_from_ms(milliseconds: int) -> float:
    """In s. Like the real server it counts nanoseconds in 64 bits, which overflow."""
    return _int64(milliseconds * 10**6) / 1e9


def seconds_from_us(microseconds: int) -> float:
    """In s, with the overflow of ``seconds_from_ms``."""
    return _int64(microseconds * 10**3) / 1e9


def _int64(nanoseconds: int) -> int:
    return (nanoseconds + 2**63) % 2**64 - 2**63


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
        """Carry the data of one direction of one connection, in the embedded server.

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
