"""latency: each chunk waits latency +/- jitter from when it came in, one after the other."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping

from proxy_manager.embedded.toxics.base import Chunk, Context, Output, Stage, Timer, milliseconds


class Latency(Stage):
    kind = "latency"
    fields = ("latency", "jitter")

    def __init__(self, attributes: Mapping[str, int], context: Context, output: Output) -> None:
        super().__init__(attributes, context, output)
        self._queue: deque[Chunk] = deque()
        self._ended = False
        self._timer: Timer | None = None
        self._sleep = 0.0

    def feed(self, chunk: Chunk) -> None:
        if self.closed:
            return
        self._queue.append(chunk)
        self.context.hold(chunk)
        if self._timer is None:
            self._next()

    def feed_eof(self) -> None:
        self._ended = True
        if not self._queue:
            self.close()

    def interrupt(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._pass_on(self._queue.popleft())

    def start(self) -> None:
        self._next()

    def remove(self) -> bool:
        self.interrupt()
        while self._queue:
            self._pass_on(self._queue.popleft())
        if self._ended:
            self.close()
        return True

    def kill(self) -> None:
        super().kill()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._queue.clear()

    def _next(self) -> None:
        """Starts the wait of the first chunk in the queue."""
        if self.closed or self._timer is not None:
            return
        if not self._queue:
            if self._ended:
                self.close()
            return
        now = self.context.now()
        self._sleep = self._delay() - (now - self._queue[0].time)
        self._timer = self.context.call_at(now + self._sleep, self._waited)

    def _waited(self) -> None:
        self._timer = None
        chunk = self._queue.popleft()
        chunk.time += self._sleep
        self._pass_on(chunk)
        self._next()

    def _pass_on(self, chunk: Chunk) -> None:
        self.context.release(chunk)
        self.output.feed(chunk)

    def _delay(self) -> float:
        delay, jitter = self.attributes["latency"], self.attributes["jitter"]
        if jitter > 0:
            # Not the lab's dice: a draw of its own for each chunk, as the real server makes
            delay += random.randrange(jitter * 2) - jitter
        return milliseconds(delay)
