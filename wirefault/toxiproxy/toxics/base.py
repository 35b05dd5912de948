"""The contract of a toxic: attributes, signature in the records of tries and connections, and its pipe."""

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
# A delay below this cannot be distinguished from the overhead of a healthy link.
NOISE_MS = 10.0


@dataclass(frozen=True)
class ObservedTry:
    """One HTTP try as recorded by its caller and by the gateway behind the proxy. Times in ms."""

    client_ms: float
    client_failed: bool
    """The client got no valid reply."""
    client_error: str | None
    """read_timeout, connect_timeout, connection_refused, connection_closed, connection_reset or bad_reply."""
    client_timeout_ms: float
    """The client's timeout; 0 without one."""
    gateway_ms: float
    """From the first request byte to the last reply byte at the gateway, or without a reply to the end of the
    try, while the client waited; 0 without a request."""
    gateway_complete_request: bool
    gateway_complete_reply: bool
    reply_bytes: int
    """Size of the gateway's reply."""
    client_waited: bool = False
    """The client's connection was refused, and it waited for a new one."""
    gateway_client_left: bool = False
    """At the gateway, the client disconnected before the reply was complete."""
    tls: Literal["", "fresh", "kept"] = ""
    """``fresh``: the try's TLS handshake crossed the toxic; ``kept``: a reused connection; empty: HTTP."""
    in_progress: bool = False
    """The try was in progress when the toxic began."""

    @property
    def patience_ms(self) -> float:
        """The client's timeout; infinite without one."""
        return self.client_timeout_ms if self.client_timeout_ms > 0 else math.inf

    @property
    def outside_gateway_ms(self) -> float:
        """The part of the client's time outside the gateway."""
        return self.client_ms - self.gateway_ms

    @property
    def gave_up(self) -> bool:
        """Whether the client's timeout ended the try; many clients count the TLS handshake as connecting."""
        waits_for = ("read_timeout", "connect_timeout") if self.tls == "fresh" else ("read_timeout",)
        return self.client_error in waits_for

    @property
    def crossings(self) -> int:
        """How often each stream crosses the toxic in sequence: a handshake adds one crossing."""
        return 2 if self.tls == "fresh" else 1

    def stopped(self, stream: str) -> bool:
        """Whether the gateway's record is consistent with a toxic that stopped that stream.

        Upstream: no complete request arrived. Downstream: a complete reply was written, or the connection was
        cut while the client waited. A handshake stopped in either stream keeps the request from the gateway.
        """
        if stream == "upstream" or (self.tls == "fresh" and not self.gateway_complete_request):
            return not self.gateway_complete_request
        cut = self.gateway_client_left and self.client_error in ("connection_closed", "connection_reset")
        return self.gateway_complete_reply or cut

    def gave_up_on_request(self) -> bool:
        """Whether the client timed out before the gateway had the complete request."""
        return self.gave_up and self.stopped("upstream")

    def delayed_by(self, expected_ms: float, noise_ms: float = 0.0) -> bool:
        """Whether about that much time was spent outside the gateway, as far as the client waited.

        A delay of 0 or below ``noise_ms`` proves nothing. If the client gave up on a reply that was complete
        at the gateway, only the rest of the client's timeout can be observed.
        """
        patience_ms = self.patience_ms
        if self.gave_up and self.gateway_complete_reply:
            patience_ms -= self.gateway_ms
        visible_ms = min(expected_ms, patience_ms)
        return visible_ms > 0 and visible_ms >= noise_ms and self.outside_gateway_ms >= ABOUT * visible_ms


@dataclass(frozen=True)
class ObservedConnection:
    """One connection through the link's proxy, recorded by the ingress on the subject's side. Times in ms."""

    ms: float
    """From the subject's first byte to the end of the connection."""
    first_byte_ms: float | None
    """From the subject's first byte to the first byte it received; None if it received none."""
    bytes_sent: int
    """Bytes from the subject."""
    received: int
    """Bytes to the subject."""
    by_proxy: bool
    """The subject did not end the connection."""
    how: Literal["fin", "rst", "refused", "unaccepted", "unresolved", "open"]
    """The end: FIN, RST, proxy not reachable, never accepted by it, name not resolved, or still open at the
    attempt's end."""
    tls: bool
    gateway_complete_request: bool = False
    """The gateway got a complete request on the link during the connection."""
    gateway_complete_reply: bool = False
    """The gateway wrote a complete reply on the link during the connection."""
    gateway_ms: float = 0.0
    """Duration of the slowest of these requests."""
    replies: int = 0
    """How many requests the gateway got on the link during the connection."""
    last_byte_ms: float | None = None
    """From the subject's first byte to the last byte it received; None if it received none, or in an old
    history."""

    def stopped(self, stream: str) -> bool:
        """Whether the subject sent data and received nothing, by a toxic that stopped that stream.

        The gateway answers a TLS handshake at once: without a byte of it, no data passed. Without TLS the
        gateway's record shows which stream was stopped.
        """
        if not self.bytes_sent or self.received:
            return False
        return self.tls or (
            self.gateway_complete_reply if stream == "downstream" else not self.gateway_complete_request
        )

    def delayed_by(self, expected_ms: float) -> bool:
        """Whether the first byte was late by about that much, not counting the gateway's time.

        Also true if no byte came while the subject waited. The gateway takes no time for a handshake.
        """
        own_ms = 0.0 if self.tls else self.gateway_ms
        if self.first_byte_ms is not None:
            return expected_ms > 0 and self.first_byte_ms - own_ms >= ABOUT * expected_ms
        waited_ms = min(expected_ms, self.ms)
        waited = self.bytes_sent > 0 and not self.by_proxy
        return waited and waited_ms >= NOISE_MS and self.ms - own_ms >= ABOUT * waited_ms


@dataclass(frozen=True)
class CrossedRequest:
    """One request that reached the gateway through the toxic, as the gateway recorded it."""

    request_bytes: int
    reply_bytes: int
    """What the gateway wrote."""

    def bytes_in(self, stream: str) -> int:
        """How many bytes crossed the toxic, or came to it, in that stream."""
        return self.request_bytes if stream == "upstream" else self.reply_bytes


@dataclass(frozen=True)
class UnansweredConnection:
    """A connection through the toxic that ended without a reply, as the gateway saw it. Times in ms."""

    ms: float
    """How long it was open while the toxic was in place."""
    received: int
    """Bytes that crossed the toxic upstream."""
    reset: bool


class Interrupted(Exception):
    """The chain changes at this toxic: the pipe must pass on the data that it holds and end.

    The server may run the pipe again afterwards.
    """


@dataclass(slots=True)
class Chunk:
    """The bytes of one read and its time (s); a toxic that delays the bytes advances the time."""

    data: bytes
    time: float


class ToxicStub(Protocol):
    """The interface of a pipe: one toxic in one direction of one connection."""

    attributes: Mapping[str, int]
    """The toxic's attributes; changes over the API are visible at once."""

    bytes_passed: int
    """For use by the pipe; starts at 0 and survives restarts of the pipe."""

    shared: dict[str, float]
    """For use by the pipes of the toxic on all connections of its proxy; starts empty."""

    opened: float
    """The time in s at which the connection was opened, by the clock of ``Chunk.time``."""

    def now(self) -> float:
        """The time in s, by the clock of ``Chunk.time``."""

    async def receive(self, within: float | None = None) -> Chunk | None:
        """Return the next chunk; None after the input's end or ``within`` s. Raises ``Interrupted``."""

    async def send(self, chunk: Chunk) -> None:
        """Pass the chunk on and wait for room in the output. Never interrupted."""

    async def sleep(self, seconds: float) -> None:
        """Sleep; raises ``Interrupted`` early if the chain changes."""

    async def sleep_uninterrupted(self, seconds: float) -> None:
        """Sleep to the end; changes of the chain at this toxic wait."""

    def close(self) -> None:
        """End the output. Nothing may be sent afterwards."""


async def pass_all(stub: ToxicStub) -> None:
    """Pass on all data and EOF unchanged."""
    while (chunk := await stub.receive()) is not None:
        await stub.send(chunk)
    stub.close()


def seconds_from_ms(milliseconds: int) -> float:
    """Convert to s. Like the real server it counts nanoseconds in 64 bits, which overflow."""
    return _int64(milliseconds * 10**6) / 1e9


def seconds_from_us(microseconds: int) -> float:
    """Convert to s, with the overflow of ``seconds_from_ms``."""
    return _int64(microseconds * 10**3) / 1e9


def _int64(nanoseconds: int) -> int:
    return (nanoseconds + 2**63) % 2**64 - 2**63


STREAMS = ("upstream", "downstream")
ONLY_EMBEDDED = (
    "Only Wirefault's embedded server has it. Under a real Toxiproxy an attempt with it cannot be armed:"
    " it is invalid, and the run says why."
)
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Attribute:
    """One attribute of a toxic: an integer in ``unit``, within ``minimum`` .. ``maximum``."""

    name: str
    unit: str
    default: int
    maximum: int
    meaning: str
    minimum: int = 0

    def check(self, value: object, where: str) -> int:
        """Return the value if it is an integer in range; raises ``ValueError`` that names it."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{where}: {self.name} must be a whole number of {self.unit}, not {value!r}")
        if not self.minimum <= value <= self.maximum:
            allowed = f"{self.minimum} .. {self.maximum} {self.unit}"
            raise ValueError(f"{where}: {self.name} = {value} is out of range; it must be in {allowed}")
        return value


class Toxic(ABC):
    """One kind of toxic. Instances have no state: all connections share one."""

    kind: ClassVar[str]
    meaning: ClassVar[str]
    attributes: ClassVar[tuple[Attribute, ...]] = ()
    main: ClassVar[str | None] = None
    """The attribute that the short form ``kind:value`` sets."""
    has_stream: ClassVar[bool] = True
    """False for a toxic of the whole connection or proxy, which the server gets as one downstream."""
    of_server: ClassVar[bool] = True
    """False for ``down``: a state of the proxy, which the server does not implement as a toxic."""
    in_toxiproxy: ClassVar[bool] = True
    """The real server has it too, so the conformance suite compares the two."""
    color: ClassVar[str | None] = None
    """Its colour in charts."""
    can_cause: ClassVar[frozenset[ErrorKind]] = NOTHING
    """The errors of a try that it can cause; it explains no others."""
    lets_requests_pass: ClassVar[bool] = False
    """On the downstream stream, requests still reach the gateway, so calls can be counted."""

    # for the embedded server
    buffer_chunks: ClassVar[int] = 0  # capacity of the queue before the toxic
    holds_connections: ClassVar[bool] = False  # the proxy accepts no new connections while it is set
    closes_when_removed: ClassVar[bool] = False  # removal closes the connections that it acts on

    @abstractmethod
    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """Whether the records of a try show this toxic; False if they are inconclusive. Pure."""

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """Whether a connection made while this toxic was armed shows it; None if that cannot be decided.

        For subjects that keep no record of their tries. Pure.
        """
        return None

    def acted_on(self, stream: str, attributes: Mapping[str, int], crossed: CrossedRequest) -> bool:
        """Whether it must have acted on that request, by what it does to all data that comes to it.

        For subjects that keep no record, on connections that no ingress saw. Pure.
        """
        return False

    def ended(self, stream: str, attributes: Mapping[str, int], connection: UnansweredConnection) -> bool:
        """Whether it must have ended that connection. As ``acted_on``, for what it keeps from the gateway."""
        return False

    def least_ms(self, attributes: Mapping[str, int], reply_bytes: int) -> float:
        """The least time that a reply of that size takes to cross it; 0 if that is not known."""
        return 0.0

    @property
    def only_delays(self) -> bool:
        """Whether all data arrives in the end, so a try fails only if its client gives up first."""
        return self.can_cause == TIMEOUT

    def fixed_delay_ms(self, attributes: Mapping[str, int]) -> int:
        """The delay or time limit of a try of any size; 0 if it depends on the size or does not exist."""
        return 0

    def jitter_ms(self, attributes: Mapping[str, int]) -> int:
        """The random variation of its delay, which no seed reproduces."""
        return 0

    async def pipe(self, stub: ToxicStub) -> None:
        """Carry the data of one direction of one connection in the embedded server.

        Runs until the input ends, the stub is closed or ``Interrupted`` is raised, and is restarted after
        each change of the chain that concerns this toxic.
        """
        await pass_all(stub)

    def on_accept(self, sockets: tuple[socket.socket, socket.socket]) -> None:
        """Called for each new connection through the toxic's proxy, with both sockets."""
        return

    def at_share(self, attributes: Mapping[str, int], share: float) -> dict[str, int] | None:
        """The attributes for a share of the dose in (0, 1]; None if the toxic has no partial dose."""
        return None

    def complete(self, attributes: Mapping[str, object], where: str = "") -> dict[str, int]:
        """Return all attributes with defaults; raises ``ValueError`` for an unknown or invalid one.

        The server ignores unknown attributes, so they must be refused here.
        """
        where = where or self.kind
        known = {attribute.name: attribute for attribute in self.attributes}
        for name in attributes:
            if name not in known:
                raise ValueError(f"{where}: unknown attribute {name!r} of {self.kind}{nearest(name, known)}")
        values = {
            name: attribute.check(attributes.get(name, attribute.default), where)
            for name, attribute in known.items()
        }
        problem = self.problem(values)
        if problem:
            raise ValueError(f"{where}: {problem}")
        return values

    def problem(self, values: Mapping[str, int]) -> str | None:
        """The problem with the combination of these values, if any."""
        return None
