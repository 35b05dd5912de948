"""One place in a chain: drives the coroutine of the stage that stands there."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop, Handle
from collections.abc import Callable, Coroutine, Generator
from typing import Literal

from windtunnel.toxiproxy.embedded.channel import Channel, Output
from windtunnel.toxiproxy.embedded.stages.base import Chunk, Interrupted, Stage, pass_all

Waiting = Literal["data", "room", "time", "firmly"]


class _Until:
    """Awaited by a place's own methods; ends when the place goes on."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    def __await__(self) -> Generator[Waiting, None, None]:
        yield self._waiting


class ExactTimer:
    """A timer that is never early: the event loop's own clock is cached and counts whole milliseconds."""

    LONGEST_S = 86_400.0

    def __init__(self, loop: AbstractEventLoop, when: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._when = when
        self._callback = callback
        self._handle = self._arm()

    def cancel(self) -> None:
        self._handle.cancel()

    def _arm(self) -> Handle:
        left = self._when - time.monotonic()
        if left <= 0:
            return self._loop.call_soon(self._fire)
        return self._loop.call_later(min(max(left, 0.001), self.LONGEST_S), self._fire)

    def _fire(self) -> None:
        if time.monotonic() < self._when:
            self._handle = self._arm()
        else:
            self._callback()


class Place:
    """``wake`` schedules a step of this place: no stage runs inside another's."""

    def __init__(
        self,
        stage: Stage,
        source: Channel,
        output: Output,
        loop: AbstractEventLoop,
        wake: Callable[[Callable[[], None]], None],
    ) -> None:
        self.stage = stage
        self.input = source
        self.output = output
        self.closed = False
        self._loop = loop
        self._wake = wake
        self._running: Coroutine[Waiting, None, None] | None = None
        self._waiting: Waiting | None = None
        self._interrupted = False
        self._timer: ExactTimer | None = None
        source.on_data = lambda: wake(self._data_came)

    # what the link does with it

    def start(self, harmful: bool) -> None:
        """The stage begins to work, or data passes it by if it is not ``harmful`` this time."""
        self.output.on_room = lambda: self._wake(self._room_came)
        self._running = self.stage.run(self) if harmful else pass_all(self)
        self._step()

    def interrupt(self) -> bool:
        """Makes the stage hand on what it has in hand and stop. False: its output has closed, or will,
        and nothing can change that."""
        if self.closed or self._running is None or self._waiting == "firmly":
            return False
        self._interrupted = True
        self._step(None if self._waiting == "room" else Interrupted())
        self._interrupted = False
        return not self.closed

    def kill(self) -> None:
        """The connection is gone: forget everything."""
        self.closed = True
        self._cancel()
        if self._running is not None:
            self._running.close()
            self._running = None

    # what the stage uses

    def now(self) -> float:
        return time.monotonic()

    async def receive(self, within: float | None = None) -> Chunk | None:
        self._check()
        if not self.input and not self.input.ended:
            if within is not None:
                self._set(within)
            await _Until("data")
            self._cancel()
        return self.input.take() if self.input else None

    async def send(self, chunk: Chunk) -> None:
        self.output.put(chunk)
        if self.output.full and not self._interrupted:
            await _Until("room")

    async def sleep(self, seconds: float) -> None:
        self._check()
        self._set(seconds)
        await _Until("time")

    async def sleep_firmly(self, seconds: float) -> None:
        self._check()
        self._set(seconds)
        await _Until("firmly")

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.output.end()

    # steps

    def _check(self) -> None:
        if self._interrupted:
            raise Interrupted

    def _step(self, error: Exception | None = None) -> None:
        """Lets the stage go on until it must wait again, or is at its end."""
        if self._running is None:
            return
        self._waiting = None
        try:
            self._waiting = self._running.throw(error) if error else self._running.send(None)
        except (StopIteration, Interrupted):
            self._running = None
            self._cancel()

    def _data_came(self) -> None:
        if self._waiting == "data" and (self.input or self.input.ended):
            self._step()

    def _room_came(self) -> None:
        if self._waiting == "room" and not self.output.full:
            self._step()

    def _time_came(self) -> None:
        self._timer = None
        if self._waiting in ("time", "firmly", "data"):
            self._step()

    def _set(self, seconds: float) -> None:
        when = time.monotonic() + seconds
        self._timer = ExactTimer(self._loop, when, lambda: self._wake(self._time_came))

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
