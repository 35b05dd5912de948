"""One toxic in one direction of one connection: drives the coroutine of its ``pipe``."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop, Handle
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Literal

from wirefault.toxiproxy.embedded.channel import Channel, Output
from wirefault.toxiproxy.toxics.base import Toxic
from wirefault.toxiproxy.toxics.pipe import Chunk, Interrupted, pass_all

WaitingFor = Literal["data", "room", "time", "time_uninterrupted"]


class _Wait:
    """Awaited by the runner's own methods; ends when the runner resumes the pipe."""

    def __init__(self, waiting_for: WaitingFor) -> None:
        self._waiting_for = waiting_for

    def __await__(self) -> Generator[WaitingFor, None, None]:
        yield self._waiting_for


class ExactTimer:
    """A timer that is never early: the event loop's own clock is cached and counts whole milliseconds."""

    LONGEST_S = 86_400.0

    def __init__(self, loop: AbstractEventLoop, when: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._when = when
        self._callback = callback
        self._handle = self._schedule()

    def cancel(self) -> None:
        self._handle.cancel()

    def _schedule(self) -> Handle:
        left = self._when - time.monotonic()
        if left <= 0:
            return self._loop.call_soon(self._fire)
        return self._loop.call_later(min(max(left, 0.001), self.LONGEST_S), self._fire)

    def _fire(self) -> None:
        if time.monotonic() < self._when:
            self._handle = self._schedule()
        else:
            self._callback()


class PipeRunner:
    """The ``ToxicStub`` of a running pipe, and what its link does with it.

    ``schedule`` queues a step of this runner, so that no pipe runs inside another's.
    """

    def __init__(
        self,
        toxic: Toxic,
        attributes: Mapping[str, int],
        output: Output,
        loop: AbstractEventLoop,
        schedule: Callable[[Callable[[], None]], None],
    ) -> None:
        self.attributes = attributes
        self.bytes_passed = 0
        self.input = Channel(toxic.buffer_chunks)
        self.output = output
        self.closed = False
        self._toxic = toxic
        self._loop = loop
        self._schedule = schedule
        self._pipe: Coroutine[WaitingFor, None, None] | None = None
        self._waiting_for: WaitingFor | None = None
        self._interrupted = False
        self._timer: ExactTimer | None = None
        self.input.on_data = lambda: schedule(self._data_came)

    # what the link does with it

    def start(self, affected: bool) -> None:
        """Runs the toxic's pipe; data passes unchanged if the connection is not ``affected``."""
        self.output.on_room = lambda: self._schedule(self._room_came)
        self._pipe = self._toxic.pipe(self) if affected else pass_all(self)
        self._resume()

    def interrupt(self) -> bool:
        """Makes the pipe pass on the data that it holds and stop.

        False: the output has closed, or will close whatever is done now.
        """
        if self.closed or self._pipe is None or self._waiting_for == "time_uninterrupted":
            return False
        self._interrupted = True
        self._resume(None if self._waiting_for == "room" else Interrupted())
        self._interrupted = False
        return not self.closed

    def kill(self) -> None:
        """The connection is gone: drops the pipe with the data that it holds."""
        self.closed = True
        self._cancel_timer()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    # the stub

    def now(self) -> float:
        return time.monotonic()

    async def receive(self, within: float | None = None) -> Chunk | None:
        self._raise_if_interrupted()
        if not self.input and not self.input.ended:
            if within is not None:
                self._set_timer(within)
            await _Wait("data")
            self._cancel_timer()
        return self.input.take() if self.input else None

    async def send(self, chunk: Chunk) -> None:
        self.output.put(chunk)
        if self.output.full and not self._interrupted:
            await _Wait("room")

    async def sleep(self, seconds: float) -> None:
        self._raise_if_interrupted()
        self._set_timer(seconds)
        await _Wait("time")

    async def sleep_uninterrupted(self, seconds: float) -> None:
        self._raise_if_interrupted()
        self._set_timer(seconds)
        await _Wait("time_uninterrupted")

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.output.end()

    # steps

    def _raise_if_interrupted(self) -> None:
        if self._interrupted:
            raise Interrupted

    def _resume(self, error: Exception | None = None) -> None:
        """Runs the pipe until it must wait again, or is at its end."""
        if self._pipe is None:
            return
        self._waiting_for = None
        try:
            self._waiting_for = self._pipe.throw(error) if error else self._pipe.send(None)
        except (StopIteration, Interrupted):
            self._pipe = None
            self._cancel_timer()

    def _data_came(self) -> None:
        if self._waiting_for == "data" and (self.input or self.input.ended):
            self._resume()

    def _room_came(self) -> None:
        if self._waiting_for == "room" and not self.output.full:
            self._resume()

    def _time_came(self) -> None:
        self._timer = None
        if self._waiting_for in ("time", "time_uninterrupted", "data"):
            self._resume()

    def _set_timer(self, seconds: float) -> None:
        when = time.monotonic() + seconds
        self._timer = ExactTimer(self._loop, when, lambda: self._schedule(self._time_came))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
