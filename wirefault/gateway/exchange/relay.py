"""Relays one client's request in progress: the request to the upstream, the reply to the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from wirefault.dialects.http import Ending, Reply
from wirefault.dialects.mcp import ToolAnswer
from wirefault.faults.plan import MetFault
from wirefault.gateway.exchange.bodies import ServerReply
from wirefault.gateway.exchange.client import ClientTransport, PauseReason
from wirefault.gateway.exchange.delivery import ReplyDelivery
from wirefault.gateway.exchange.record import record_exchange
from wirefault.gateway.exchange.request import RequestInProgress
from wirefault.gateway.exchange.upstream import UpstreamLink, message_for
from wirefault.gateway.http1.framing import ReplyReader
from wirefault.gateway.http1.heads import BadHead, RequestHead
from wirefault.gateway.http1.messages import refusal, reply_of
from wirefault.gateway.lane import LinkListener


class FaultDelay:
    """Delays one request from now on; then calls ``go_on``. What was really added goes into its plan."""

    def __init__(
        self, request: RequestInProgress, seconds: float, go_on: Callable[[RequestInProgress], None]
    ) -> None:
        self._request = request
        self._go_on = go_on
        self._since = time.perf_counter()
        for met in request.plan.met_faults if request.plan else ():
            if met.delay:
                met.mark_acting(self._since)
        self._timer = asyncio.get_running_loop().call_later(seconds, self.expire)

    def expire(self) -> None:
        """The delay is over: the request goes on."""
        self.stop()
        self._go_on(self._request)

    def stop(self) -> None:
        """Ends the delay; the request does not go on."""
        self._timer.cancel()
        if self._request.plan is not None:
            self._request.plan.mark_delayed(time.perf_counter() - self._since)


class ToxicsWait:
    """Holds one request up until its link's toxics are as its call is to meet them; then calls ``go_on``."""

    def __init__(self, request: RequestInProgress, go_on: Callable[[RequestInProgress], None]) -> None:
        self._request = request
        self._go_on = go_on
        self._over = False
        assert request.attempt is not None
        request.attempt.held_calls.wait(request.link, request.link_call, self.expire)

    def expire(self) -> None:
        """They are, or the attempt is over: the request goes on."""
        if not self._over:
            self._over = True
            self._go_on(self._request)

    def stop(self) -> None:
        """Ends the waiting; the request does not go on."""
        self._over = True


class RequestCopies:
    """``message`` is the whole request; ``left`` copies are still to be sent after the one under way.

    ``reader`` follows the reply to the copy under way, which the client does not get; with none ``left``
    that reply is not read here. Of a ``tool_call`` of MCP the evidence says how each copy but the last was
    answered.
    """

    def __init__(
        self, fault: MetFault, head: RequestHead, message: bytes, *, tool_call: bool = False
    ) -> None:
        self.message = message
        self.head = head
        self.left = fault.act.copies - 1
        self._fault = fault
        fault.answered = False
        self._statuses: list[int] = []
        self._tool_answers: list[ToolAnswer] | None = [] if tool_call else None
        self.reader = self._new_reader()

    def _new_reader(self) -> ReplyReader:
        self._server_reply = ServerReply()
        sink = None if self._tool_answers is None else self._server_reply.keep
        return ReplyReader(self.head.method, self.head.upgrade, True, sink)

    def note_reply(self, reader: ReplyReader) -> None:
        """Puts the status of a copy's reply into the fault's evidence, however far that reply came."""
        if reader.head is not None:
            self._statuses.append(reader.head.status)
            self._fault.answered = len(self._statuses) > 1

    def next_copy(self) -> None:
        """The reply to the copy under way is over: the next copy is to be sent."""
        self.note_reply(self.reader)
        self.left -= 1
        evidence: dict[str, object] = {"statuses": self._statuses}
        if self._tool_answers is not None:
            self._server_reply.block = self.reader.block
            self._tool_answers.append(self._server_reply.tool_answer)
            evidence["tool_answers"] = self._tool_answers
        self._fault.mark_injected(evidence)
        self._fault.mark_acting(time.perf_counter())
        if self.left:
            self.reader = self._new_reader()


# The model's provider refuses the subject itself: no key, no credit, no such model, or asked too often. Other
# refusals (400, 413, 422) are of what the subject has sent, and those of a tool are the subject's to handle.
_NO_MODEL = frozenset({401, 402, 403, 404, 429})


def is_failure(request: RequestInProgress, status: int) -> bool:
    """Whether an upstream that gave that status has failed."""
    return status >= 500 or (status in _NO_MODEL and request.of_model)


def ours_may_be_the_cause(request: RequestInProgress) -> bool:
    """Whether a fault that does more than delay was injected into a request that the upstream got."""
    if not request.forwarded or request.plan is None:
        return False
    return any(met.injected and not met.act.only_delays for met in request.plan.met_faults)


CLIENT_LEFT = "the client left before its reply was complete"


class RelayOwner(Protocol):
    """What a relay reports to the connection that it serves."""

    @property
    def requests_wait(self) -> bool:
        """Whether bytes of later requests wait behind this one."""

    def on_request_finished(self) -> None:
        """The request is over and recorded, and the connection goes on."""

    def on_tunnel(self) -> None:
        """The connection has changed its protocol: the upstream gets all that the client sends."""

    def leave(self) -> None:
        """The client is gone, and its request has reached the upstream, or cannot: nothing is left to do."""


class RequestRelay:
    """``request`` is the one in progress; ``begin`` takes up the next once it is None again."""

    def __init__(self, listener: LinkListener, client: ClientTransport, owner: RelayOwner) -> None:
        self._listener = listener
        # a tool has one upstream in all runs
        self._endpoint = None if listener.is_model else listener.endpoint
        self._client = client
        self._owner = owner
        self.upstream = UpstreamLink(self, listener.connect_timeout, lambda: self.reply.behind)
        self.reply = ReplyDelivery(client, self._on_written, self.upstream.throttle)
        self.request: RequestInProgress | None = None
        self._copies: RequestCopies | None = None

    @property
    def tunnel(self) -> bool:
        """Whether the connection has changed its protocol."""
        return self.reply.reader is not None and self.reply.reader.tunnel

    @property
    def streams(self) -> bool:
        """Whether the upstream is pushing what may never end: events, or what a tunnel carries."""
        reader = self.reply.reader
        if reader is None or reader.head is None:
            return False
        return reader.tunnel or reply_of(reader.block).is_event_stream

    # towards the upstream

    def forward(self, request: RequestInProgress, body: bytes) -> None:
        """Sends the header block and what there is of the body in one go, and gets ready for the reply."""
        request.forwarding = True
        endpoint = self._endpoint or self._listener.endpoint_in(request.run)
        upstream = self.upstream.open(endpoint)
        head, message = message_for(request, endpoint, body, is_tool=self._endpoint is not None)
        fault = request.plan.request_fault if request.plan is not None else None
        if fault is not None and fault.act.copies > 1:
            self._copies = RequestCopies(fault, head, message, tool_call=bool(request.tool))
        else:
            self.reply.expect(request, head)
        upstream.send(message)

    def on_request_done(self, request: RequestInProgress) -> None:
        """All of the request is here, and has gone where it goes."""
        fault = request.plan.request_fault if request.plan is not None else None
        if fault is not None and fault.act.answer is not None:
            own_reply = self.reply.answer_by_fault(request, fault, fault.act.answer)
            if own_reply is not None:
                self.reply.answer(request, own_reply)
                self._finish(request)
            return
        connection = self.upstream.connection
        if connection is not None:
            request.forwarded = not connection.connecting
            if self._client.half_closed:
                self.pass_on_eof()
        if request.reply_done:
            self._finish(request)

    def _send_copy(self, request: RequestInProgress, copies: RequestCopies) -> None:
        copies.next_copy()
        if not copies.left:
            self.reply.expect(request, copies.head)
        self.upstream.open(self._listener.endpoint_in(request.run)).send(copies.message)
        self.pass_on_eof()

    def pass_on_eof(self) -> None:
        """Tells the upstream that the client will send no more, once all that it has sent is on its way."""
        copies_wait = self._copies is not None and self._copies.left > 0
        request = self.request
        held = copies_wait or (request is not None and request.held is not None)
        # many a server would close on it, and nobody would know when it has done what it was asked
        only_awaited = request is not None and request.attempt_is_over
        if self._client.half_closed and not (self._owner.requests_wait or held or only_awaited):
            self.upstream.send_eof()

    def note_client_eof(self) -> None:
        """The client sends no more. It may have left, or still read: what it gets from now on will tell."""
        request = self.request
        if request is not None:
            request.client_eof_at, request.reply_bytes_before_eof = time.perf_counter(), request.reply_bytes

    # what the upstream does

    def on_connected(self) -> None:
        if self.request is not None and self.request.request_done:
            self.request.forwarded = True
        if self._client.lost:
            self.give_up(CLIENT_LEFT)
            self._owner.leave()

    def on_unreachable(self, reason: str) -> None:
        if self.request is not None:
            self.request.unavailable = True
        self._answer_instead(reason, refusal(502, "bad_gateway", reason))

    def on_unavailable(self, reason: str) -> None:
        if self.request is not None:
            self.request.unavailable = True
            self.request.forwarded = False
        # not a 5xx: clients would ask again, and wait between
        self._answer_instead(reason, refusal(404, "model_unavailable", reason))

    def _answer_instead(self, reason: str, reply: Reply) -> None:
        """The upstream gives no reply: the client gets this one."""
        request = self.request
        self.upstream.drop()
        if request is None:
            return
        request.error = reason
        request.mark_faults_not_injected("upstream_failed")
        request.keep_alive = request.keep_alive and request.request_done
        if self._client.lost:
            self.give_up(reason)
            self._owner.leave()
        else:
            self.reply.answer(request, reply)
            self._finish(request)

    def on_full(self, full: bool) -> None:
        self._client.pause(PauseReason.UPSTREAM_FULL, full)

    def on_reply(self, data: bytes) -> None:
        request, copies, delivery = self.request, self._copies, self.reply
        reader = copies.reader if copies is not None and copies.left else delivery.reader
        if request is None or reader is None or request.reply_done:
            self.upstream.drop()  # nobody asked: it cannot be the answer to anything
            return
        if copies is not None and copies.left:
            _, surplus = reader.feed(data)
            if reader.done:
                if surplus or not reader.keep_alive:
                    self.upstream.drop()
                self._send_copy(request, copies)
            return
        surplus = delivery.feed(request, reader, data)
        if reader.tunnel:
            self._owner.on_tunnel()
        elif delivery.changes.done if delivery.changes is not None else reader.done:
            if not reader.keep_alive:
                request.keep_alive = False
            if request.head.expects_continue and not request.request_done and not reader.continued:
                request.keep_alive = False  # the body may or may not follow: only a close is unambiguous
            if surplus or not reader.done:
                self.upstream.drop()
            self._on_reply_end(request, reader)

    def on_upstream_end(self, reason: str | None) -> None:
        self.upstream.drop()
        request = self.request
        copies = self._copies if self._copies is not None and self._copies.left else None
        reader = copies.reader if copies else self.reply.reader
        if request is None or reader is None:
            return
        in_order = reason is None and reader.ends_by_close
        if copies is not None and in_order:
            self._send_copy(request, copies)
            return
        request.keep_alive = False
        if copies is not None:
            reader.take_rest()  # the client gets nothing of that reply
        if request.reply_done:
            self._finish(request)
        elif in_order:
            self._on_reply_end(request, reader)
        else:
            if self._copies is not None:
                self._copies.note_reply(reader)
            # an upstream that was told that its client sends no more may leave for that reason
            by_itself = not self._client.half_closed and not reader.tunnel
            request.unavailable = request.request_done and (by_itself or reader.error is not None)
            if self.reply.break_off(request, reader, reason):
                self._finish(request)

    def _on_reply_end(self, request: RequestInProgress, reader: ReplyReader) -> None:
        """The upstream's reply has come to its end, or no more of it is wanted."""
        if self._copies is not None:
            self._copies.note_reply(reader)
        head = reader.head
        if head is not None and head.status >= 400 and request.request_done:
            request.unavailable = is_failure(request, head.status)
        if self.reply.complete(request):
            self._finish_if_over(request)

    # the end of a request

    def _on_written(self, ending: Ending) -> None:
        """The writer has given the client all: the reply ends as it should."""
        request, writer = self.request, self.reply.writer
        assert request is not None and writer is not None
        sent = writer.sent
        sent.end(ending, keep_alive=request.keep_alive)
        request.reply_done = sent.whole and request.error is None
        client_waits = not (self._client.lost or self._client.half_closed)
        if ending == "hang" and not client_waits:
            request.client_left = True
        elif ending == "hang" and not request.attempt_is_over:
            self.reply.hanging = True
            self.upstream.drop()
            return
        # what is no whole reply, or more than one, leaves the client no way to go on
        request.keep_alive = request.keep_alive and ending == "keep" and sent.whole and not sent.surplus
        if ending == "reset":
            self._record(request)
            self._client.reset()
        else:
            self._finish_if_over(request)

    def _finish_if_over(self, request: RequestInProgress) -> None:
        if request.request_done or not request.keep_alive:
            self._finish(request)

    def _finish(self, request: RequestInProgress) -> None:
        """Ends the request. Whether a client that sends no more was there to read is seen a moment later."""
        if self._client.half_closed and request.reply_bytes > request.reply_bytes_before_eof:
            self._client.after_sending(partial(self._finish_checked, request))
        else:
            self._finish_now(request)

    def _finish_checked(self, request: RequestInProgress, client_there: bool) -> None:
        if self.request is request:
            request.client_left = not client_there
            self._finish_now(request)

    def _finish_now(self, request: RequestInProgress) -> None:
        """Records the request; the connection goes on to the next one, or closes."""
        self._record(request)
        if not request.keep_alive:
            self.upstream.drop()
            self._client.close(unread=not request.request_done, cut=not request.reply_done)
        else:
            self._owner.on_request_finished()

    def refuse(self, request: RequestInProgress, error: BadHead) -> None:
        """Answers what is no request, and closes."""
        request.request_done = request.keep_alive = False
        request.plan, request.error = None, str(error)
        if not self.reply.begun:
            self.reply.answer(request, refusal(error.status, "bad_request", str(error)))
        self._finish(request)

    def give_up(self, error: str) -> None:
        """Records the request in progress, which will not come to its end."""
        if self.request is not None:
            self.request.error = self.request.error or error
            self.request.client_left = self._client.lost
            garbled = self.reply.reader is not None and self.reply.reader.error is not None
            self.request.unavailable = self.request.unavailable or garbled
            self._record(self.request)

    def _record(self, request: RequestInProgress) -> None:
        self.request = self._copies = None
        self.reply.finish(request, client_was_gone=request.client_left and self._client.half_closed)
        if request.client_left:
            request.error = request.error or CLIENT_LEFT
        if request.unavailable and ours_may_be_the_cause(request):
            request.unavailable = False
        record_exchange(request, self._listener)
