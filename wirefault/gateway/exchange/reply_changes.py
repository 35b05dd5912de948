"""What becomes of an upstream's reply that faults may change, or that is kept to be given again later.

Pure: bytes in, steps out; the connection carries them out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Protocol

from wirefault.core.identity import body_hash
from wirefault.dialects.http import Ending, RawReply, Reply, Step, chunk, head_bytes
from wirefault.faults.base import Act, Changed, EventEditor, Miss, WhyNot
from wirefault.faults.plan import MetFault, Plan
from wirefault.gateway.http1.framing import ReplyReader, Sink
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import (
    Decoder,
    Unreadable,
    content_encoding,
    decoded,
    header_block,
    render,
    reply_of,
)

MAX_BUFFERED_REPLY = 16 << 20


@dataclass(eq=False)
class UpstreamReply:
    """What is known of the upstream's reply, and the ``candidates``: the faults that may change it.

    ``shown``: as faults see it, its body left out. ``streams``: it is an event stream, and the client takes
    a reply of unknown length. ``digest`` hashes what its body carries. ``changed_by``: the fault that did.
    """

    candidates: list[MetFault]
    keep_alive: bool
    head_only: bool
    shown: Reply = field(default_factory=Reply)
    encoding: str = ""
    streams: bool = False
    digest: blake2b = field(default_factory=body_hash)
    changed_by: MetFault | None = None

    def mark_not_injected(self, why: WhyNot) -> None:
        """Records for all candidates that are not settled that they change nothing."""
        for met in self.candidates:
            met.mark_not_injected(why)

    def render(self, reply: Reply) -> bytes:
        """A changed reply as the client gets it."""
        return render(reply, keep_alive=self.keep_alive, head_only=self.head_only)


class ReplyTreatment(Protocol):
    """Turns the upstream's reply, as it comes, into steps for the client. ``ending``: the client's."""

    ending: Ending

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        """``raw`` bytes of the reply as they came, and what the body ``carried`` with them."""

    def end(self) -> Sequence[Step]:
        """The upstream's reply has come to its end."""

    def fail(self) -> Sequence[Step]:
        """The upstream's reply has broken off."""


class UnchangedReply:
    """The reply goes on as it is."""

    ending: Ending = "keep"

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        return (raw,)

    def end(self) -> Sequence[Step]:
        return ()

    fail = end


_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class EventTooLarge(Exception):
    """One event is larger than what the gateway buffers of a reply."""


class EventSplitter:
    """Splits an event stream into whole events, blank line included. ``rest``: the event under way."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The events that these bytes complete. Raises ``EventTooLarge``."""
        searched = max(len(self.rest) - 3, 0)  # no blank line begins before that
        self.rest += data
        events, start = [], 0
        for blank_line in _BLANK_LINE.finditer(self.rest, searched):
            events.append(self.rest[start : blank_line.end()])
            start = blank_line.end()
        self.rest = self.rest[start:]
        if len(self.rest) > MAX_BUFFERED_REPLY:
            raise EventTooLarge
        return events


class EventStreamEdit:
    """Passes an event stream through a fault's editor. The client gets it chunked, however it came.

    ``decoder`` takes its Content-Encoding off; without one, the stream was decoded and hashed before.
    """

    def __init__(
        self, reply: UpstreamReply, met: MetFault, editor: EventEditor, decoder: Decoder | None = None
    ) -> None:
        self.ending: Ending = "keep"
        self._reply, self._met, self._editor = reply, met, editor
        self._decoder = decoder
        self._splitter = EventSplitter()
        self._begun = self._editor_failed = False

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        steps: list[Step] = []
        if not self._begun:
            self._begun = True
            steps.append(header_block(self._reply.shown, None, keep_alive=self._reply.keep_alive))
        for event in self._split(carried):
            if self.ending == "keep":
                steps += _chunked(self._edited(event))
        return steps

    def _split(self, carried: bytes) -> Sequence[bytes]:
        try:
            if self._decoder is not None:
                carried = self._decoder.feed(carried)
                self._reply.digest.update(carried)
            return self._splitter.feed(carried)
        except (Unreadable, EventTooLarge) as error:  # what has gone out already cannot be taken back
            self._met.mark_not_injected("too_large" if isinstance(error, EventTooLarge) else "unreadable")
            self.ending = "close"
            return ()

    def _edited(self, event: bytes | None) -> Sequence[Step]:
        """What the editor makes of an event, or of the end (None). Once it has failed, nothing is changed."""
        steps = None
        if not self._editor_failed:
            function = self._editor.end if event is None else lambda: self._editor.event(event)
            steps = self._met.guarded(function)
            self._editor_failed = steps is None
        if steps is None:
            return () if event is None else (event,)
        if self._editor.why_not is None:
            self._met.mark_injected(self._editor.evidence)
            self._reply.changed_by = self._met
        self.ending = self._editor.ending
        return steps

    def end(self) -> Sequence[Step]:
        steps: list[Step] = []
        if self.ending == "keep":
            steps += _chunked([self._splitter.rest, *self._edited(None)])
            self._met.mark_not_injected(self._editor.why_not or "nothing_to_change")
        return [*steps, chunk(b"")] if self.ending == "keep" else steps

    def fail(self) -> Sequence[Step]:
        return _chunked([self._splitter.rest])


def _chunked(steps: Sequence[Step]) -> list[Step]:
    return [chunk(step) if isinstance(step, bytes) else step for step in steps if step]


class BufferedReply:
    """The first candidate that can change the whole reply does; else the client gets it as it came."""

    def __init__(self, reply: UpstreamReply) -> None:
        self.ending: Ending = "keep"
        self._reply = reply
        self._raw = bytearray()
        self._carried = bytearray()
        self._too_large = False

    def feed(self, raw: bytes, carried: bytes) -> Sequence[Step]:
        if self._too_large:
            return (raw,)
        self._raw += raw
        self._carried += carried
        if len(self._raw) <= MAX_BUFFERED_REPLY:
            return ()
        self._too_large = True
        self._reply.mark_not_injected("too_large")
        return self.fail()

    def fail(self) -> Sequence[Step]:
        raw = bytes(self._raw)
        self._raw.clear()
        return (raw,)

    def end(self) -> Sequence[Step]:
        if self._too_large:
            return ()
        reply = self._reply
        try:
            body = decoded(bytes(self._carried), reply.encoding, MAX_BUFFERED_REPLY)
        except Unreadable:
            reply.mark_not_injected("unreadable")
            return self.fail()
        reply.digest.update(body)
        for met in reply.candidates:
            steps = self._changed_by(met, reply.shown.with_body(body))
            if steps is not None:
                reply.changed_by = met
                reply.mark_not_injected("already_faulted")
                return steps
        return self.fail()

    def _changed_by(self, met: MetFault, reply: Reply) -> Sequence[Step] | None:
        """What the client gets from that fault; None if it changes nothing."""
        if self._reply.streams and met.act.events is not None:
            return self._edited_by(met, reply)
        changed = met.guarded(met.act.reply, reply) if met.act.reply else Miss("not_a_stream")
        if isinstance(changed, Miss):
            met.mark_not_injected(changed.why)
        if not isinstance(changed, Changed):
            return None
        steps = self._steps(met, changed.reply)
        if steps is not None:
            met.mark_injected(changed.evidence)
        return steps

    def _steps(self, met: MetFault, reply: Reply | RawReply) -> Sequence[Step] | None:
        if isinstance(reply, RawReply):
            self.ending = reply.ending
            return reply.steps
        data = met.guarded(self._reply.render, reply)
        return None if data is None else (data,)

    def _edited_by(self, met: MetFault, reply: Reply) -> Sequence[Step] | None:
        """An editor's work on an event stream that was kept whole, since there are several candidates."""
        editor = met.guarded(met.act.events) if met.act.events else None
        if editor is None:
            return None
        edit = EventStreamEdit(self._reply, met, editor)
        steps = [*edit.feed(b"", reply.body), *edit.end()]
        if not met.injected:
            return None
        self.ending = edit.ending
        return steps


RAW_LINES = "application/x-raw-lines"
_HTTP = b"HTTP/"


def frame_lines(plan: Plan) -> None:
    """Puts HTTP around the bytes of lines that the faults give, so that it is known where they end."""
    for met in plan.met_faults:
        met.act = _framed_act(met.act)


def _framed_act(act: Act) -> Act:
    if isinstance(act.answer, RawReply):
        act = replace(act, answer=_framed(act.answer))
    return act if act.reply is None else replace(act, reply=_framing(act.reply))


def _framing(change: Callable[[Reply], Changed | Miss]) -> Callable[[Reply], Changed | Miss]:
    def framed(reply: Reply) -> Changed | Miss:
        changed = change(reply)
        if isinstance(changed, Changed) and isinstance(changed.reply, RawReply):
            return replace(changed, reply=_framed(changed.reply))
        return changed

    return framed


def _framed(reply: RawReply) -> RawReply:
    first = next((step for step in reply.steps if isinstance(step, bytes) and step), b"")
    if not first and reply.ending == "keep":
        return replace(reply, ending="hang")  # nothing comes of it, and the stream goes on
    if not first or first.startswith(_HTTP):
        return reply
    head = head_bytes(Reply((("Content-Type", RAW_LINES),)), None)
    steps: list[Step] = [chunk(step) if isinstance(step, bytes) else step for step in reply.steps if step]
    end = (chunk(b""),) if reply.ending == "keep" else ()
    return replace(reply, steps=(head, *steps, *end))


_MAX_REMEMBERED = 256 * 1024


class ReplyChanges:
    """Follows one reply past its candidates. ``remember`` is given a copy of the reply, ``observe`` what its
    body carries, as it comes.

    ``ending`` says how it ends for the client, ``done`` that nothing more of the upstream's is wanted.
    """

    def __init__(
        self,
        candidates: Sequence[MetFault],
        head: RequestHead,
        *,
        keep_alive: bool,
        swallow_continue: bool,
        remember: Callable[[Reply], None] | None = None,
        observe: Sink | None = None,
    ) -> None:
        self.upstream_reply = UpstreamReply(list(candidates), keep_alive, head.method == "HEAD")
        self.reader = ReplyReader(head.method, head.upgrade, swallow_continue, self._keep)
        self._takes_chunks = head.lines[0].endswith(b"HTTP/1.1")
        self._remember = remember
        self._observe = observe
        self._memory = bytearray()
        self._carried = bytearray()
        self._treatment: ReplyTreatment | None = None

    @property
    def ending(self) -> Ending:
        return self._treatment.ending if self._treatment else "keep"

    @property
    def done(self) -> bool:
        return self.reader.done or self.ending != "keep"

    def feed(self, data: bytes) -> tuple[Sequence[Step], bytes]:
        """What the client gets now, and what came after the reply's end."""
        passed, surplus = self.reader.feed(data)
        interim, raw = passed[: self.reader.interim], passed[self.reader.interim :]
        if self._treatment is None and self.reader.begun:
            self._treatment = self._chosen_treatment()
        if self._treatment is None:
            return (passed,), surplus
        carried = bytes(self._carried)
        self._carried.clear()
        return (interim, *self._treatment.feed(raw, carried)), surplus

    def _keep(self, data: bytes) -> None:
        self._carried += data
        if self._observe is not None:
            self._observe(data)
        if self._remember is not None:
            self._memory += data[: _MAX_REMEMBERED + 1 - len(self._memory)]

    def end(self) -> Sequence[Step]:
        """The rest of what the client gets of a reply that has ended."""
        self._remember_reply()
        return self._treatment.end() if self._treatment else ()

    def fail(self) -> Sequence[Step]:
        """The rest of what the client gets of a reply that broke off."""
        self.upstream_reply.mark_not_injected("upstream_failed")
        rest = self.reader.take_rest()
        return (*(self._treatment.fail() if self._treatment else ()), rest)

    def _chosen_treatment(self) -> ReplyTreatment:
        """How the reply goes on, now that its header block is there."""
        reply, reader = self.upstream_reply, self.reader
        if reader.head is None or reader.tunnel:
            reply.mark_not_injected("unreadable")
            return UnchangedReply()
        reply.keep_alive = reply.keep_alive and reader.keep_alive
        reply.shown, reply.encoding = reply_of(reader.block), content_encoding(reader.block)
        reply.streams = reply.shown.is_event_stream and self._takes_chunks and not reply.head_only
        for met in reply.candidates:
            if met.act.reply is None and not reply.streams:
                met.mark_not_injected("not_a_stream")
        reply.candidates = [met for met in reply.candidates if not met.settled]
        return _treatment_for(reply) if reply.candidates else UnchangedReply()

    def _remember_reply(self) -> None:
        whole = self.reader.head is not None and self.ending == "keep"
        if self._remember is None or not whole or len(self._memory) > _MAX_REMEMBERED:
            return
        try:
            body = decoded(bytes(self._memory), content_encoding(self.reader.block), MAX_BUFFERED_REPLY)
        except Unreadable:
            return
        self._remember(reply_of(self.reader.block, body))


def _treatment_for(reply: UpstreamReply) -> ReplyTreatment:
    """An editor that is the only candidate works on the stream as it goes by; else the reply is kept."""
    try:
        decoder = Decoder(reply.encoding, MAX_BUFFERED_REPLY)
    except Unreadable:
        reply.mark_not_injected("unreadable")
        return UnchangedReply()
    first = reply.candidates[0]
    if not reply.streams or len(reply.candidates) > 1 or first.act.events is None:
        return BufferedReply(reply)
    editor = first.guarded(first.act.events)
    return UnchangedReply() if editor is None else EventStreamEdit(reply, first, editor, decoder)
