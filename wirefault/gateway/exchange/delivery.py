"""Gives a client the replies to its requests: the upstream's, perhaps changed, or the gateway's own."""

from __future__ import annotations

import time
from collections.abc import Callable

from wirefault.dialects.http import Ending, RawReply, Reply
from wirefault.faults.plan import MetFault
from wirefault.gateway.exchange.client import ClientTransport, ReplyWriter, SentReply
from wirefault.gateway.exchange.reply_changes import ReplyChanges
from wirefault.gateway.exchange.request import RequestInProgress
from wirefault.gateway.exchange.usage import kept_for_usage
from wirefault.gateway.http1.framing import ReplyReader, Sink
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.messages import refusal, render


class ReplyDelivery:
    """The reply to one client's request in progress; ``finish`` ends it, then the next one's can begin.

    ``reader`` follows the upstream's reply while one is expected. Only with faults about there are
    ``changes``, which say what becomes of it, and a ``writer``, which gives it to the client. ``hanging``:
    a fault lets the client wait for ever. ``on_written`` is told when the writer has come to the end,
    ``on_backlog`` when what waits for the client has changed.
    """

    def __init__(
        self, client: ClientTransport, on_written: Callable[[Ending], None], on_backlog: Callable[[], None]
    ) -> None:
        self._client = client
        self._on_written = on_written
        self._on_backlog = on_backlog
        self.reader: ReplyReader | None = None
        self.changes: ReplyChanges | None = None
        self.writer: ReplyWriter | None = None
        self.hanging = False

    # how far it is

    @property
    def begun(self) -> bool:
        """Whether the client may have had a part of its reply."""
        return self.writer is not None or (self.reader is not None and self.reader.begun)

    @property
    def behind(self) -> bool:
        """Whether more for the client would only pile up here."""
        return self._client.full or (self.writer is not None and self.writer.behind)

    @property
    def held_up(self) -> bool:
        """Whether only a fault keeps the client waiting."""
        return self.hanging or (self.writer is not None and self.writer.waiting)

    # the upstream's reply

    def expect(self, request: RequestInProgress, head: RequestHead) -> None:
        """Gets ready for the upstream's reply to that head."""
        candidates = request.plan.reply_candidates if request.plan is not None else []
        kept = request.kept = kept_for_usage(request) if request.of_model else None
        may_be_mcp = request.may_be_mcp or request.message is not None
        observe = request.upstream_sink() if may_be_mcp else None
        if not candidates and not request.reply_is_remembered:
            sink = request.reply_sink()
            if observe is not None:
                sink = _both(sink, observe)
            self.reader = ReplyReader(head.method, head.upgrade, request.swallow_continue, sink)
            return
        self.changes = ReplyChanges(
            candidates,
            head,
            keep_alive=request.keep_alive,
            swallow_continue=request.swallow_continue,
            remember=kept.noting_upstream(request.reply_memory()) if kept else request.reply_memory(),
            observe=_both(observe, request.natural_sink()),
        )
        self.reader = self.changes.reader
        self.writer = self._new_writer(request)

    def feed(self, request: RequestInProgress, reader: ReplyReader, data: bytes) -> bytes:
        """Gives the client its part of these bytes; returns what came after the reply's end."""
        if self.changes is not None and self.writer is not None:
            steps, surplus = self.changes.feed(data)
            self._note_act(self.changes)
            self.writer.add(steps)
            self._on_backlog()
            return surplus
        passed, surplus = reader.feed(data)
        self.write(request, passed)
        if reader.head is not None:
            request.status = reader.head.status
        return surplus

    def complete(self, request: RequestInProgress) -> bool:
        """No more of the upstream's reply is wanted. True if the client has all; else the writer tells."""
        if self.changes is None or self.writer is None:
            request.reply_done = True
            return True
        self.reader = None
        steps = self.changes.end()
        self._note_act(self.changes)
        self.writer.add(steps)
        self.writer.finish(self.changes.ending)
        return False

    def _note_act(self, changes: ReplyChanges) -> None:
        changed_by = changes.upstream_reply.changed_by
        if changed_by is not None:
            changed_by.mark_acting(time.perf_counter())

    def break_off(self, request: RequestInProgress, reader: ReplyReader, reason: str | None) -> bool:
        """The upstream's reply broke off. True if the client has all that came; else the writer tells."""
        steps = self.changes.fail() if self.changes else (reader.take_rest(),)
        request.error = reader.broken_off(reason, begun=reader.begun or any(steps))
        request.mark_faults_not_injected("upstream_failed")
        if self.writer is None:
            self.write(request, b"".join(step for step in steps if isinstance(step, bytes)))
            return True
        self.reader = None
        self.writer.add(steps)
        self.writer.finish("close")
        return False

    # the gateway's own reply

    def answer(self, request: RequestInProgress, reply: Reply) -> None:
        """Gives the gateway's own reply; nothing of the upstream's can follow."""
        self.writer = self.changes = None
        request.status = reply.status
        request.reply_done = True
        sink = request.reply_sink()
        if sink is not None:
            sink(reply.body)
        self.write(request, _rendered(request, reply))

    def answer_by_fault(
        self, request: RequestInProgress, met: MetFault, answer: Reply | RawReply
    ) -> Reply | None:
        """Begins a fault's answer. If the fault made none that can be sent: the gateway's, to be given."""
        if isinstance(answer, Reply):
            whole = met.guarded(_rendered, request, answer)
            if whole is None:
                return refusal(502, "bad_gateway", f"the fault {met.id} made no reply")
            answer = RawReply((whole,), "keep")
        met.mark_injected()
        met.mark_acting(time.perf_counter())
        self.writer = self._new_writer(request)
        self.writer.add(answer.steps)
        self.writer.finish(answer.ending)
        return None

    # writing

    def write(self, request: RequestInProgress, data: bytes) -> None:
        """Sends bytes of the reply."""
        if data:
            self._client.write(data)
            request.reply_bytes += len(data)
            request.ended = time.perf_counter()
            if request.kept is not None:
                request.kept.keep(request.ended, data)

    def resume(self) -> None:
        """The client takes more again."""
        if self.writer is not None:
            self.writer.run()
        self._on_backlog()

    def _new_writer(self, request: RequestInProgress) -> ReplyWriter:
        def write(data: bytes) -> None:
            self.write(request, data)
            self._on_backlog()

        return ReplyWriter(
            SentReply(request.head.method, request.reply_sink()),
            write,
            lambda: self._client.full,
            lambda: request.attempt_is_over,
            self._on_written,
        )

    # the end

    def finish(self, request: RequestInProgress, *, client_was_gone: bool) -> None:
        """Ends the reply, however far it came; its fault's account says what the client was sent.

        ``client_was_gone``: of what was written since the client said that it sends no more, it got nothing.
        """
        writer, changes, reader = self.writer, self.changes, self.reader
        self.reader = None
        upstream = changes.reader if changes is not None else reader
        if upstream is not None and upstream.head is not None:
            request.upstream_status = upstream.head.status
            request.reply_block = upstream.block
            if request.natural is not None:
                request.natural.block = upstream.block
            if request.server_reply is not None:
                request.server_reply.block = upstream.block
        if writer is None and request.plan is None and not client_was_gone:
            return  # as most do: no fault, and the client was there
        if writer is not None:
            request.reply_block = writer.sent.block
            self.writer = self.changes = None
            self.hanging = False
            writer.stop()
            request.status = writer.sent.status
        if request.plan is not None:
            request.plan.mark_answered(upstream_answered=request.forwarded and request.status is not None)
        if client_was_gone:
            _forget_unread(request)
        met = _acting_fault(request, changes)
        if writer is None or met is None:
            return
        if client_was_gone and met.began_after(request.eof_at):
            met.take_back("cut_short")
        else:
            _account_for(met, writer, changes, client_was_gone)


def _both(first: Sink | None, second: Sink | None) -> Sink | None:
    """A sink that gives to both what it is given."""
    if first is None or second is None:
        return first or second

    def give(data: bytes) -> None:
        first(data)
        second(data)

    return give


def _rendered(request: RequestInProgress, reply: Reply) -> bytes:
    return render(reply, keep_alive=request.keep_alive, head_only=request.head.method == "HEAD")


def _forget_unread(request: RequestInProgress) -> None:
    """Takes out of the request's record what was written to a client that had left."""
    request.reply_done = False
    request.reply_bytes = request.reply_bytes_before_eof
    if not request.reply_bytes:
        request.status = None


def _acting_fault(request: RequestInProgress, changes: ReplyChanges | None) -> MetFault | None:
    """The fault that answered the client or changed its reply."""
    plan = request.plan
    met = changes.upstream_reply.changed_by if changes else plan.request_fault if plan else None
    return met if met is not None and met.injected else None


def _account_for(met: MetFault, writer: ReplyWriter, changes: ReplyChanges | None, client_left: bool) -> None:
    """Records what the client was sent by the fault that answered it or changed its reply."""
    sent = writer.sent
    met.shows.update({"lost": True, "left": True} if client_left else sent.shows())
    met.content = (
        not client_left
        and sent.whole
        and (changes is None or sent.digest != changes.upstream_reply.digest.hexdigest())
    )
    if writer.waited:
        met.mark_delayed(writer.waited * 1000)
