"""Gives a client a reply in steps, at their times, and takes note of what the client was sent."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from wirefault.core.digest import body_hash
from wirefault.dialects.http import Ending, Step
from wirefault.gateway.http1.framing import Sink
from wirefault.gateway.http1.reply_reader import ReplyReader

_BACKLOG = 64 * 1024


class SentReply:
    """What a client was sent of one reply; ``keep`` gets its body. ``surplus``: more was sent after it."""

    def __init__(self, method: str, keep: Sink | None = None) -> None:
        self._hash = body_hash()
        self._keep = keep
        sink = self._hash.update if keep is None else self._take_body
        self._head_only = method == "HEAD"
        self._reader = ReplyReader(method, False, True, sink)
        self._ended_by_close = self._broken_off = False
        self.surplus = False

    def take(self, data: bytes) -> bytes:
        """Takes note of these bytes; what of them is to be sent: after the answer to a HEAD, nothing."""
        passed, surplus = self._reader.feed(data)
        self.surplus = self.surplus or (bool(surplus) and not self._head_only)
        return passed if self._head_only else data

    def _take_body(self, data: bytes) -> None:
        self._hash.update(data)
        if self._keep is not None:
            self._keep(data)

    @property
    def block(self) -> bytes:
        """The header block."""
        return self._reader.block

    def end(self, ending: Ending, *, keep_alive: bool) -> None:
        """Takes note of how the reply ends for the client. ``keep_alive``: the connection goes on."""
        self._broken_off = ending in ("close", "reset")
        self._ended_by_close = ending == "close" or (ending == "keep" and not keep_alive)

    @property
    def status(self) -> int | None:
        return self._reader.head.status if self._reader.head else None

    @property
    def whole(self) -> bool:
        return self._reader.done or (self._ended_by_close and self._reader.ends_by_close)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def shows(self) -> dict[str, Any]:
        """What the caller must have seen of it."""
        if self.whole:
            return {"status": self.status, "digest": self.digest}
        return {"lost": True, "closed": True} if self._broken_off else {"lost": True}


class ReplyWriter:
    """``write`` sends bytes, ``on_written`` is told the ending; while ``full()``, the client is behind.

    ``hurried()``: it waits no more. ``waited``: seconds that its waits have really taken.
    """

    def __init__(
        self,
        sent: SentReply,
        write: Callable[[bytes], None],
        full: Callable[[], bool],
        hurried: Callable[[], bool],
        on_written: Callable[[Ending], None],
    ) -> None:
        self.sent = sent
        self.waited = 0.0
        self._write, self._on_written = write, on_written
        self._full, self._hurried = full, hurried
        self._steps: deque[Step] = deque()
        self._queued = 0
        self._ending: Ending | None = None
        self._wait: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._stopped = self._running = False

    @property
    def waiting(self) -> bool:
        return self._wait is not None

    @property
    def behind(self) -> bool:
        """Whether more would only pile up here."""
        return self._queued > _BACKLOG

    def add(self, steps: Sequence[Step]) -> None:
        self._steps += steps
        self._queued += sum(len(step) for step in steps if isinstance(step, bytes))
        self.run()

    def finish(self, ending: Ending) -> None:
        """There are no more steps."""
        self._ending = ending
        self.run()

    def run(self) -> None:
        """Goes on, as far as the client and the time allow."""
        if self._running:
            return
        self._running = True
        while self._steps and not self._stopped and not self.waiting and not self._full():
            self._take_step(self._steps.popleft())
        self._running = False
        all_written = not self._steps and not self.waiting
        if self._ending is not None and all_written and not self._stopped:
            self._stopped = True
            self._on_written(self._ending)

    def _take_step(self, step: Step) -> None:
        if isinstance(step, bytes):
            self._queued -= len(step)
            data = self.sent.take(step) if step else b""
            if data:
                self._write(data)
        elif step > 0 and not self._hurried():
            self._since = time.perf_counter()
            self._wait = asyncio.get_running_loop().call_later(step, self._on_waited)

    def _on_waited(self) -> None:
        self._note_wait()
        self.run()

    def _note_wait(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
            self.waited += time.perf_counter() - self._since

    def stop(self) -> None:
        """Writes nothing more."""
        self._note_wait()
        self._stopped = True
