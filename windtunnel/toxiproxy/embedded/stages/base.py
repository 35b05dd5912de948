"""What a toxic is on the wire: one stage in the chain of one direction of one connection.

A stage is written as a coroutine that takes chunks from its place in the chain and passes them on. The
link drives it by hand, without a task: it runs until it must wait for data, for time or for room.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from windtunnel.toxiproxy.embedded.decode import INT64


class Interrupted(Exception):
    """The chain changes here: the stage hands on what it has in hand and ends; it may be run anew."""


@dataclass(slots=True)
class Chunk:
    """Bytes as one read gave them, with the time (s) of the read, which stages that delay move on."""

    data: bytes
    time: float


class Place(Protocol):
    """Where in a chain a stage stands: all that it may use."""

    def now(self) -> float:
        """In s."""

    async def receive(self, within: float | None = None) -> Chunk | None:
        """The next chunk; None once the input has ended, or after so many s. Raises ``Interrupted``."""

    async def send(self, chunk: Chunk) -> None:
        """Passes it on, and waits until there is room behind. Never interrupted."""

    async def sleep(self, seconds: float) -> None:
        """Raises ``Interrupted``; then less than that time has passed."""

    async def sleep_firmly(self, seconds: float) -> None:
        """Whatever happens to the chain: nothing here can change before."""

    def close(self) -> None:
        """Ends the output; nothing may be sent after."""


class Stage:
    """One toxic on one direction of one connection. ``attributes`` is the toxic's own, live mapping.

    Subclasses name their ``fields`` as the API has them, in order: integers, 0 by default.
    ``buffer`` is how many chunks may wait before it.
    """

    kind: ClassVar[str]
    struct: ClassVar[str]  # what the real server's errors call it
    fields: ClassVar[tuple[str, ...]]
    integer: ClassVar[str] = INT64
    buffer: ClassVar[int] = 0
    closes_when_removed: ClassVar[bool] = False

    def __init__(self, attributes: Mapping[str, int]) -> None:
        self.attributes = attributes

    @classmethod
    def on_accept(cls, sockets: tuple[socket.socket, socket.socket]) -> None:
        """Called for each new connection that this toxic meets, with both of its sockets."""

    async def run(self, place: Place) -> None:
        """Works until the input has ended, the stage closed or ``Interrupted`` was raised; runs anew after
        each change of the chain that concerns it."""
        await pass_all(place)


async def pass_all(place: Place) -> None:
    """What a stage without effect does."""
    while (chunk := await place.receive()) is not None:
        await place.send(chunk)
    place.close()


def milliseconds(value: int) -> float:
    """In seconds, counted in 64 bits of nanoseconds, which overflow as in the real server."""
    return _wrapped(value * 10**6) / 1e9


def microseconds(value: int) -> float:
    return _wrapped(value * 10**3) / 1e9


def _wrapped(nanoseconds: int) -> int:
    return (nanoseconds + 2**63) % 2**64 - 2**63
