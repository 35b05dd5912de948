"""The carrier of messages between a client, the gateway and an upstream: HTTP/1 here, lines in ``lines``.

A carrier turns a reply into steps, bytes and waits; ``ReplyWriter`` writes them to the client.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from wirefault.core.identity import body_hash
from wirefault.dialects.http import Ending, Headers, Reply, ReplyInPieces, Step, chunk
from wirefault.faults.plan import Plan
from wirefault.gateway.endpoint import Endpoint, rewrite
from wirefault.gateway.http1.framing import ReplyReader, Sink
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import (
    ask_for_identity,
    chunks,
    header_block,
    reframed,
    steps_of,
)

_MAX_BACKLOG = 64 * 1024


class HasStatus(Protocol):
    """The head of a reply."""

    @property
    def status(self) -> int: ...


class MessageReader(Protocol):
    """Follows the reply to one request, as its carrier brings it. ``ReplyReader`` describes the members."""

    @property
    def head(self) -> HasStatus | None: ...

    @property
    def message(self) -> Reply: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def encoding(self) -> str: ...

    @property
    def keep_alive(self) -> bool: ...

    @property
    def done(self) -> bool: ...

    @property
    def tunnel(self) -> bool: ...

    @property
    def error(self) -> str | None: ...

    @property
    def interim(self) -> int: ...

    @property
    def begun(self) -> bool: ...

    @property
    def ends_by_close(self) -> bool: ...

    @property
    def continued(self) -> bool: ...

    def feed(self, data: bytes) -> tuple[bytes, bytes]: ...

    def take_rest(self) -> bytes: ...

    def broken_off(self, reason: str | None, *, begun: bool) -> str: ...


class Carrier(Protocol):
    """Turns messages into the bytes of one kind of connection, and follows the replies in them."""

    def request_for(
        self, head: RequestHead, body: bytes, plan: Plan | None, endpoint: Endpoint, lab_headers: bytes
    ) -> tuple[RequestHead, bytes]:
        """Return the head that is sent, and the bytes for the upstream with the ``body`` that is here.

        The plan's faults may change it. ``lab_headers``: whole lines that replace the client's.
        """

    def reader(self, head: RequestHead, swallow_continue: bool, sink: Sink | None) -> MessageReader:
        """Return a reader of the reply to that request; ``sink`` gets the reply's body."""

    def size(self, data: bytes) -> int:
        """Return how many of these bytes count as the reply's."""

    def steps_of(
        self, reply: Reply | ReplyInPieces, *, keep_alive: bool, head_only: bool
    ) -> tuple[Sequence[Step], Ending]:
        """Return the bytes of a fault's or the gateway's own reply for the client, and how it ends."""

    def takes_streams(self, head: RequestHead) -> bool:
        """Whether that request's client accepts a reply of unknown length."""

    def stream_start(self, head: Reply, *, keep_alive: bool) -> bytes:
        """Return the bytes that begin an event stream."""

    def stream_steps(self, head: Reply, steps: Sequence[Step]) -> Sequence[Step]:
        """Return events of that stream, and waits, as the client gets them."""

    def stream_end(self, head: Reply) -> bytes:
        """Return the bytes that end it."""


class HttpCarrier:
    """Implements ``Carrier`` by HTTP/1."""

    size = staticmethod(len)

    def request_for(
        self, head: RequestHead, body: bytes, plan: Plan | None, endpoint: Endpoint, lab_headers: bytes
    ) -> tuple[RequestHead, bytes]:
        if plan is not None:
            head, body = _changed(head, plan, body)
        if endpoint.recorder is not None:
            ask_for_identity(head)  # so that the recording can be read, and compared in a diff
        return head, rewrite(head, endpoint, lab_headers) + body

    def reader(self, head: RequestHead, swallow_continue: bool, sink: Sink | None) -> ReplyReader:
        return ReplyReader(head.method, head.upgrade, swallow_continue, sink)

    def steps_of(
        self, reply: Reply | ReplyInPieces, *, keep_alive: bool, head_only: bool
    ) -> tuple[Sequence[Step], Ending]:
        return steps_of(reply, keep_alive=keep_alive, head_only=head_only), reply.ending

    def takes_streams(self, head: RequestHead) -> bool:
        return head.lines[0].endswith(b"HTTP/1.1")

    def stream_start(self, head: Reply, *, keep_alive: bool) -> bytes:
        return header_block(head, None, keep_alive=keep_alive)

    def stream_steps(self, head: Reply, steps: Sequence[Step]) -> Sequence[Step]:
        return chunks(steps)

    def stream_end(self, head: Reply) -> bytes:
        return chunk(b"")


HTTP = HttpCarrier()


def _changed(head: RequestHead, plan: Plan, body: bytes) -> tuple[RequestHead, bytes]:
    """Return the request as its faults want it: changed, and asking for a reply that they can read."""
    fault = plan.request_fault
    if fault is not None and fault.act.request is not None:
        changed = fault.guarded(reframed, fault.act.request, head)
        if changed is not None:
            head, body = changed
            fault.mark_injected()
    reads_body = any(not candidate.act.packed for candidate in plan.reply_candidates)
    accepted = ask_for_identity(head) if reads_body else ""
    if accepted not in ("", "identity"):
        for candidate in plan.reply_candidates:
            candidate.evidence["accept_encoding"] = accepted
    return head, body


class SentReply:
    """Follows the bytes of the reply to that request that a client gets. ``keep`` gets its body."""

    def __init__(self, head: RequestHead, carrier: Carrier = HTTP, keep: Sink | None = None) -> None:
        self._hash = body_hash()
        self._keep = keep
        sink = self._hash.update if keep is None else self._take_body
        self._head_only = head.method == "HEAD"
        self.reader = carrier.reader(head, True, sink)
        self._ended_by_close = self._broken_off = False
        self.surplus = False
        """Bytes were sent after the reply's end."""

    def take(self, data: bytes) -> bytes:
        """Read these bytes; return the part to send: none after the head of a reply to HEAD."""
        passed, surplus = self.reader.feed(data)
        self.surplus = self.surplus or (bool(surplus) and not self._head_only)
        return passed if self._head_only else data

    def _take_body(self, data: bytes) -> None:
        self._hash.update(data)
        if self._keep is not None:
            self._keep(data)

    def end(self, ending: Ending, *, keep_alive: bool) -> None:
        """Note how the reply ends for the client. ``keep_alive``: the connection stays open."""
        self._broken_off = ending in ("close", "reset")
        self._ended_by_close = ending == "close" or (ending == "keep" and not keep_alive)

    @property
    def status(self) -> int | None:
        return self.reader.head.status if self.reader.head else None

    @property
    def whole(self) -> bool:
        return self.reader.done or (self._ended_by_close and self.reader.ends_by_close)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def shows(self) -> dict[str, Any]:
        """Return what the caller must have seen of it."""
        if self.whole:
            return {"status": self.status, "digest": self.digest}
        return {"lost": True, "closed": True} if self._broken_off else {"lost": True}


class ReplyWriter:
    """Writes a reply in steps, at their times; calls ``on_written(ending)`` at the end.

    It pauses while ``full()``, and skips further waits once ``hurried()``. ``waited``: seconds that its waits
    really took.
    """

    def __init__(
        self,
        sent_reply: SentReply,
        write: Callable[[bytes], None],
        full: Callable[[], bool],
        hurried: Callable[[], bool],
        on_written: Callable[[Ending], None],
    ) -> None:
        self.sent_reply = sent_reply
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
        """Whether more bytes would only pile up here."""
        return self._queued > _MAX_BACKLOG

    def add(self, steps: Sequence[Step]) -> None:
        self._steps += steps
        self._queued += sum(len(step) for step in steps if isinstance(step, bytes))
        self.run()

    def finish(self, ending: Ending) -> None:
        """No more steps follow."""
        self._ending = ending
        self.run()

    def run(self) -> None:
        """Write as far as the client and the time allow."""
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
            data = self.sent_reply.take(step)
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
        """Write nothing more."""
        self._note_wait()
        self._stopped = True
