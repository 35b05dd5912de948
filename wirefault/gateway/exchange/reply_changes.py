"""Changes an upstream's reply as the faults require. Pure: bytes in, steps for the client out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Protocol

from wirefault.core.identity import body_hash
from wirefault.dialects.http import Ending, Reply, Step, slow_pieces
from wirefault.dialects.stream_forms import SERVER_SENT_EVENTS, StreamForm
from wirefault.faults.base import Changed, EventEditor, Miss, WhyNot
from wirefault.faults.plan import MetFault
from wirefault.gateway.exchange.carrier import HTTP, Carrier
from wirefault.gateway.http1.framing import Sink
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import (
    Decoder,
    Unreadable,
    decoded,
)

MAX_BUFFERED_REPLY = 16 << 20
_MAX_REMEMBERED = 256 * 1024


@dataclass(eq=False)
class UpstreamReply:
    """An upstream's reply on its way past the faults that may change it."""

    candidates: list[MetFault]
    """Faults that may change it."""
    carrier: Carrier
    keep_alive: bool
    head_only: bool
    head: Reply = field(default_factory=Reply)
    """The reply as faults see it, without its body."""
    encoding: str = ""
    streams: bool = False
    """It is an event stream, and the client accepts a reply of unknown length."""
    digest: blake2b = field(default_factory=body_hash)
    changed_by: MetFault | None = None

    def mark_not_injected(self, why: WhyNot) -> None:
        """Record the reason for all candidates that are not settled."""
        for fault in self.candidates:
            fault.mark_not_injected(why)


class ReplyChanges:
    """Follows one reply. ``remember`` gets a copy of the whole reply, ``observe`` its body as it comes."""

    def __init__(
        self,
        candidates: Sequence[MetFault],
        head: RequestHead,
        carrier: Carrier = HTTP,
        *,
        keep_alive: bool,
        swallow_continue: bool,
        remember: Callable[[Reply], None] | None = None,
        observe: Sink | None = None,
    ) -> None:
        self.upstream_reply = UpstreamReply(list(candidates), carrier, keep_alive, head.method == "HEAD")
        self.reader = carrier.reader(head, swallow_continue, self._keep)
        self._takes_streams = carrier.takes_streams(head)
        self._remember = remember
        self._observe = observe
        self._memory = bytearray()
        self._body = bytearray()
        self._treatment: _Treatment | None = None

    @property
    def ending(self) -> Ending:
        """How the reply ends for the client."""
        return self._treatment.ending if self._treatment else "keep"

    @property
    def done(self) -> bool:
        """Whether no more of the upstream's reply is needed."""
        return self.reader.done or self.ending != "keep"

    def feed(self, data: bytes) -> tuple[Sequence[Step], bytes]:
        """Return what the client gets now, and the bytes after the reply's end."""
        passed, surplus = self.reader.feed(data)
        size = self.reader.interim
        interim, raw = (passed[:size], passed[size:]) if size else (b"", passed)
        if self._treatment is None and self.reader.begun:
            self._treatment = self._choose_treatment()
        if self._treatment is None:
            return (passed,), surplus
        body = bytes(self._body)
        self._body.clear()
        return (interim, *self._treatment.feed(raw, body)), surplus

    def _keep(self, data: bytes) -> None:
        self._body += data
        if self._observe is not None:
            self._observe(data)
        if self._remember is not None:
            self._memory += data[: _MAX_REMEMBERED + 1 - len(self._memory)]

    def end(self) -> Sequence[Step]:
        """Return the rest for the client of a reply that has ended."""
        self._remember_reply()
        return self._treatment.end() if self._treatment else ()

    def fail(self) -> Sequence[Step]:
        """Return the rest for the client of a reply that broke off."""
        self.upstream_reply.mark_not_injected("upstream_failed")
        rest = self.reader.take_rest()
        return (*(self._treatment.fail() if self._treatment else ()), rest)

    def _remember_reply(self) -> None:
        whole = self.reader.head is not None and self.ending == "keep"
        if self._remember is None or not whole or len(self._memory) > _MAX_REMEMBERED:
            return
        try:
            body = decoded(bytes(self._memory), self.reader.encoding, MAX_BUFFERED_REPLY)
        except Unreadable:
            return
        self._remember(self.reader.message.with_body(body))

    def _choose_treatment(self) -> _Treatment:
        """Choose what happens to the reply, now that its header block is here.

        An editor that is the only candidate works on the stream as it comes; else the reply is buffered.
        """
        reply, reader = self.upstream_reply, self.reader
        if reader.head is None or reader.tunnel:
            reply.mark_not_injected("unreadable")
            return _Unchanged()
        reply.keep_alive = reply.keep_alive and reader.keep_alive
        reply.head, reply.encoding = reader.message, reader.encoding
        is_stream = reply.head.stream_form is not None
        reply.streams = is_stream and self._takes_streams and not reply.head_only
        for fault in reply.candidates:
            if fault.act.reply is None and not reply.streams:
                fault.mark_not_injected("not_a_stream")
        reply.candidates = [fault for fault in reply.candidates if not fault.settled]
        if not reply.candidates:
            return _Unchanged()
        if all(fault.act.packed for fault in reply.candidates):
            return _Buffered(reply)
        try:
            decoder = Decoder(reply.encoding, MAX_BUFFERED_REPLY)
        except Unreadable:
            reply.mark_not_injected("unreadable")
            return _Unchanged()
        first = reply.candidates[0]
        if not reply.streams or len(reply.candidates) > 1 or first.act.events is None:
            return _Buffered(reply)
        editor = first.guarded(first.act.events)
        return _Unchanged() if editor is None else _EventStreamEdit(reply, first, editor, decoder)


class _Treatment(Protocol):
    """Turns the upstream's reply, as it comes, into steps for the client."""

    ending: Ending

    def feed(self, raw: bytes, body: bytes) -> Sequence[Step]:
        """Take the ``raw`` bytes of the reply, and the part of the ``body`` that they carry."""

    def end(self) -> Sequence[Step]:
        """The upstream's reply has ended."""

    def fail(self) -> Sequence[Step]:
        """The upstream's reply has broken off."""


class _Unchanged:
    ending: Ending = "keep"

    def feed(self, raw: bytes, body: bytes) -> Sequence[Step]:
        return (raw,)

    def end(self) -> Sequence[Step]:
        return ()

    fail = end


class _EventStreamEdit:
    """Passes an event stream through a fault's editor. The client gets it chunked, however it came.

    ``decoder`` removes the Content-Encoding; None if the stream is decoded and hashed already.
    """

    def __init__(
        self, reply: UpstreamReply, fault: MetFault, editor: EventEditor, decoder: Decoder | None = None
    ) -> None:
        self.ending: Ending = "keep"
        self._reply, self._fault, self._editor = reply, fault, editor
        self._decoder = decoder
        self._splitter = EventSplitter(reply.head.stream_form)
        self._begun = self._editor_failed = False

    def feed(self, raw: bytes, body: bytes) -> Sequence[Step]:
        steps: list[Step] = []
        if not self._begun:
            self._begun = True
            keep_alive = self._reply.keep_alive
            steps.append(self._reply.carrier.stream_start(self._reply.head, keep_alive=keep_alive))
        for event in self._split(body):
            if self.ending == "keep":
                steps += self._as_sent(self._edit(event))
        return steps

    def _as_sent(self, steps: Sequence[Step]) -> Sequence[Step]:
        return self._reply.carrier.stream_steps(self._reply.head, steps)

    def _split(self, body: bytes) -> Sequence[bytes]:
        try:
            if self._decoder is not None:
                body = self._decoder.feed(body)
                self._reply.digest.update(body)
            return self._splitter.feed(body)
        except (Unreadable, EventTooLarge) as error:  # the client has a part of the stream already
            self._fault.mark_not_injected("too_large" if isinstance(error, EventTooLarge) else "unreadable")
            self.ending = "close"
            return ()

    def _edit(self, event: bytes | None) -> Sequence[Step]:
        """Edit one event, or the end of the stream (None). Once the editor has failed, nothing is changed."""
        steps = None
        if not self._editor_failed:
            function = self._editor.end if event is None else lambda: self._editor.event(event)
            steps = self._fault.guarded(function)
            self._editor_failed = steps is None
        if steps is None:
            return () if event is None else (event,)
        if self._editor.why_not is None:
            self._fault.mark_injected(self._editor.evidence)
            self._reply.changed_by = self._fault
        self.ending = self._editor.ending
        return steps

    def end(self) -> Sequence[Step]:
        steps: list[Step] = []
        if self.ending == "keep":
            steps += self._as_sent([self._splitter.rest, *self._edit(None)])
            self._fault.mark_not_injected(self._editor.why_not or "nothing_to_change")
        if self.ending == "keep":
            steps.append(self._reply.carrier.stream_end(self._reply.head))
        return steps

    def fail(self) -> Sequence[Step]:
        return self._as_sent([self._splitter.rest])


class _Buffered:
    """Buffers the whole reply for the first candidate that can change it; else it passes unchanged."""

    def __init__(self, reply: UpstreamReply) -> None:
        self.ending: Ending = "keep"
        self._reply = reply
        self._raw: list[bytes] = []
        self._size = 0
        self._body = bytearray()
        self._too_large = False

    def feed(self, raw: bytes, body: bytes) -> Sequence[Step]:
        if self._too_large:
            return (raw,)
        self._raw.append(raw)
        self._size += len(raw)
        self._body += body
        if self._size <= MAX_BUFFERED_REPLY:
            return ()
        self._too_large = True
        self._reply.mark_not_injected("too_large")
        return self.fail()

    def fail(self) -> Sequence[Step]:
        raw, self._raw = self._raw, []
        return raw

    def end(self) -> Sequence[Step]:
        if self._too_large:
            return ()
        reply, packed = self._reply, bytes(self._body)
        try:
            body = decoded(packed, reply.encoding, MAX_BUFFERED_REPLY)
        except Unreadable:
            body = None
        reply.digest.update(packed if body is None else body)
        for fault in reply.candidates:
            if fault.act.packed:
                steps = self._change(fault, _with_encoding(reply.head, reply.encoding).with_body(packed))
            elif body is None:
                fault.mark_not_injected("unreadable")
                continue
            else:
                steps = self._change(fault, reply.head.with_body(body))
            if steps is not None:
                reply.changed_by = fault
                reply.mark_not_injected("already_faulted")
                return steps
        return self.fail()

    def _change(self, fault: MetFault, reply: Reply) -> Sequence[Step] | None:
        """Return what the client gets from that fault; None if it changes nothing."""
        if self._reply.streams and fault.act.events is not None:
            return self._edit_events(fault, reply)
        changed = fault.guarded(fault.act.reply, reply) if fault.act.reply else Miss("not_a_stream")
        if isinstance(changed, Miss):
            fault.mark_not_injected(changed.why)
        if not isinstance(changed, Changed):
            return None
        if changed.pace is not None:
            fault.mark_injected(changed.evidence)
            return _paced(b"".join(self._raw), changed.pace)
        reply_form = {"keep_alive": self._reply.keep_alive, "head_only": self._reply.head_only}
        delivery = fault.guarded(lambda: self._reply.carrier.steps_of(changed.reply, **reply_form))
        if delivery is None:
            return None
        fault.mark_injected(changed.evidence)
        steps, self.ending = delivery
        return steps

    def _edit_events(self, fault: MetFault, reply: Reply) -> Sequence[Step] | None:
        """Edit an event stream that was buffered since it has several candidates."""
        editor = fault.guarded(fault.act.events) if fault.act.events else None
        if editor is None:
            return None
        edit = _EventStreamEdit(self._reply, fault, editor)
        steps = [*edit.feed(b"", reply.body), *edit.end()]
        if not fault.injected:
            return None
        self.ending = edit.ending
        return steps


def _with_encoding(head: Reply, encoding: str) -> Reply:
    """The head with the Content-Encoding that other faults do not see."""
    return replace(head, headers=(*head.headers, ("Content-Encoding", encoding))) if encoding else head


def _paced(raw: bytes, bytes_per_second: float) -> Sequence[Step]:
    """The reply's bytes: its head at once, the rest slowly."""
    start = raw.index(b"\r\n\r\n") + 4
    return (raw[:start], *slow_pieces(raw[start:], bytes_per_second))


class EventTooLarge(Exception):
    """One event is larger than the gateway's buffer for a reply."""


class EventSplitter:
    """Splits an event stream into whole events, each with its blank line. ``rest``: the incomplete event.

    ``form``: None for server-sent events.
    """

    def __init__(self, form: StreamForm | None = None) -> None:
        self.rest = b""
        self._form = form or SERVER_SENT_EVENTS

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that these bytes complete. Raises ``EventTooLarge``."""
        searched = len(self.rest)
        self.rest += data
        events, start = [], 0
        for end in self._form.ends(self.rest, searched):
            events.append(self.rest[start:end])
            start = end
        self.rest = self.rest[start:]
        if len(self.rest) > MAX_BUFFERED_REPLY:
            raise EventTooLarge
        return events
