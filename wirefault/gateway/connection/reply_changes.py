"""What becomes of an upstream's reply that faults may change, or that is kept to be given again later.

Pure: bytes in, steps out; the connection carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wirefault.dialects.http import Ending, Reply, Step
from wirefault.faults.plan import MetFault
from wirefault.gateway.connection.reply_treatments import BufferedReply, EventStreamEdit
from wirefault.gateway.connection.upstream_reply import (
    MAX_BUFFERED_REPLY,
    ReplyTreatment,
    UnchangedReply,
    UpstreamReply,
)
from wirefault.gateway.http1.framing import Sink
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import Decoder, Unreadable, content_encoding, decoded, reply_of
from wirefault.gateway.http1.reply_reader import ReplyReader

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
