"""What a toxic works with in the embedded server: chunks of bytes, and its stub in one connection's chain.

The names are those of Toxiproxy's own source. A toxic's ``pipe`` is a coroutine that takes chunks from its
stub and passes them on. The server drives it without a task, as a task for each toxic of each connection
would cost more than the work itself: it runs until it must wait for data, for time or for room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


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
        """Passes the chunk on, and waits until there is room behind. It is never interrupted."""

    async def sleep(self, seconds: float) -> None:
        """Raises ``Interrupted``, and has then slept for less."""

    async def sleep_uninterrupted(self, seconds: float) -> None:
        """Sleeps to the end: until then no change of the chain gets past this toxic."""

    def close(self) -> None:
        """Ends the output. Nothing may be sent afterwards."""


async def pass_all(stub: ToxicStub) -> None:
    """Passes all data on as it comes, and then the end."""
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
