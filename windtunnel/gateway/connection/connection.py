"""One client's connection: requests one after the other, forwarded or held for faults, and their replies."""

from __future__ import annotations

import asyncio
import time
from typing import cast

from windtunnel.dialects.http import Ending
from windtunnel.gateway.connection.client_transport import ClientTransport, PauseReason
from windtunnel.gateway.connection.fault_decision import ask_faults, can_be_decided, decide, may_meet_fault
from windtunnel.gateway.connection.fault_delay import FaultDelay
from windtunnel.gateway.connection.link_listener import LinkListener
from windtunnel.gateway.connection.reply_delivery import ReplyDelivery
from windtunnel.gateway.connection.request_copies import RequestCopies
from windtunnel.gateway.connection.request_in_progress import RequestInProgress
from windtunnel.gateway.connection.request_queue import RequestQueue
from windtunnel.gateway.connection.upstream_link import UpstreamLink, message_for
from windtunnel.gateway.http1.framing import BadBody
from windtunnel.gateway.http1.heads import BadHead, RequestHead
from windtunnel.gateway.http1.rendering import CONTINUE, refusal
from windtunnel.gateway.http1.reply_reader import ReplyReader
from windtunnel.gateway.lane import LaneAttempt

_CLIENT_LEFT = "the client left before its reply was complete"
_CLIENT_LEFT_EARLY = "the client left before its request was complete"
_ATTEMPT_OVER = "the attempt ended before its reply was complete"


class ClientConnection(asyncio.Protocol):
    """Joins the parts of a connection, which do not know each other.

    ``request`` is the one in progress; bytes of later ones wait in the queue. A tool-link connection
    belongs to the attempt that was current when it was accepted, and counts as open until nothing of it
    is left: neither the client, nor an upstream that has still to get what the client sent.
    """

    client: ClientTransport
    reply: ReplyDelivery

    def __init__(self, listener: LinkListener) -> None:
        self.listener = listener
        self.is_tool = listener.is_tool
        self.attempt = listener.lane.attempt if self.is_tool else None
        self.queue = RequestQueue()
        self.upstream = UpstreamLink(self, listener.connect_timeout, self._client_is_behind)
        self.request: RequestInProgress | None = None
        self._delay: FaultDelay | None = None
        self._copies: RequestCopies | None = None
        self._taking_up = self._left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.client = ClientTransport(cast(asyncio.Transport, transport))
        self.reply = ReplyDelivery(self.client, self._on_written, self.upstream.throttle)
        self.listener.lane.connections.add(self)
        if self.attempt is not None:
            self.attempt.opened()

    # what the client does

    def data_received(self, data: bytes) -> None:
        request = self.request
        if self.client.closing:
            return
        if request is None:
            self.queue.add(data, time.perf_counter())
            self._take_up_requests()
        elif not request.request_done:
            self._on_body(request, data)
        elif self.reply.reader is not None and self.reply.reader.tunnel:
            request.request_bytes += len(data)
            self.upstream.send(data)
        else:
            self.queue.add(data, time.perf_counter())
            self.client.pause(PauseReason.REQUESTS_WAIT, self.queue.is_long)

    def eof_received(self) -> bool:
        """A client that has said all may still want its answer; one that stopped half-way is gone."""
        self.client.half_closed = True
        if self.client.closing or self.reply.hanging or not self._client_wants_reply():
            return False
        self._pass_on_eof()
        return True

    def _client_wants_reply(self) -> bool:
        request = self.request
        if request is not None and not request.request_done:
            request.error = _CLIENT_LEFT_EARLY
        return request is not None and request.request_done

    def _pass_on_eof(self) -> None:
        """Tells the upstream that the client will send no more, once all that it has sent is on its way."""
        copies_wait = self._copies is not None and self._copies.left > 0
        held = copies_wait or (self.request is not None and self.request.held is not None)
        if self.client.half_closed and not self.queue.waiting and not held:
            self.upstream.send_eof()

    def connection_lost(self, error: Exception | None) -> None:
        self.client.lost = True
        self.client.stop_timer()
        if self._delay is not None and self.request is not None and self.request.request_done:
            return  # on a slow network, too, the request would arrive
        self._stop_delay()
        self._on_client_gone()

    def _on_client_gone(self) -> None:
        """Ends all that the client had begun, except a whole request that is on its way."""
        request = self.request
        if request is not None and request.request_done and self.upstream.connecting:
            self.upstream.close()  # a server reached directly would have had the request: it still gets it
            return
        self._give_up(_CLIENT_LEFT)
        if request is None or request.request_done:
            self.upstream.close()
        else:
            self.upstream.drop()
        self._leave()

    def pause_writing(self) -> None:
        self.client.full = True
        self.upstream.throttle()

    def resume_writing(self) -> None:
        self.client.full = False
        self.reply.resume()

    def _client_is_behind(self) -> bool:
        return self.reply.behind

    # what the lane does

    def end(self, reason: str) -> None:
        """Closes both sides at once; a request in progress is recorded with that reason."""
        self._stop_delay()
        self._give_up(reason)
        self.upstream.drop()
        self.client.abort()
        self._leave()

    def release(self, attempt: LaneAttempt) -> None:
        """Ends what only a fault holds up: a delayed request goes on, a reply is cut off."""
        if self._delay is not None and self.request is not None and self.request.attempt is attempt:
            self._delay.expire()
        if self.reply.held_up and self.request is not None and self.request.attempt is attempt:
            self.end(_ATTEMPT_OVER)

    def _leave(self) -> None:
        """Nothing is left of the connection: its attempt need not wait for it any more."""
        if not self._left:
            self._left = True
            self.listener.lane.connections.discard(self)
            if self.attempt is not None:
                self.attempt.closed()

    # requests

    def _take_up_requests(self) -> None:
        """Begins the requests that wait, one after the other, as far as they go."""
        if self._taking_up:
            return
        self._taking_up = True
        try:
            while self.queue.waiting and self.request is None and not self.client.closing:
                if not self._take_up():
                    break
        finally:
            self._taking_up = False
        if self.queue.waiting or self.client.pause_reasons:
            self.client.pause(PauseReason.REQUESTS_WAIT, self.queue.is_long)
        if self.client.half_closed and not self.client.closing and not self._client_wants_reply():
            self.client.close()

    def _take_up(self) -> bool:
        """Begins the next request; False if its header block is not whole yet, or is refused."""
        try:
            head = self.queue.next_head()
        except BadHead as error:
            self._refuse(error)
            return False
        if head is None:
            if self.queue.waiting:
                self.client.start_timer(self.listener.head_timeout, self._on_head_timeout)
            return False
        self.client.stop_timer()
        request = self._new_request(head)
        data = self.queue.take_all()
        if may_meet_fault(request):
            ask_faults(request)
            if request.held is not None and not request.decided and head.expects_continue:
                request.swallow_continue = True
                self.reply.write(request, CONTINUE)
        if request.decided and request.held is not None:
            if data:
                self.queue.add(data, time.perf_counter())
            self._carry_out_plan(request)
        else:
            self._on_body(request, data)
        return True

    def _on_head_timeout(self) -> None:
        self._refuse(BadHead("the header block did not come in time", 408))

    def _new_request(self, head: RequestHead) -> RequestInProgress:
        lane = self.listener.lane
        request = self.request = RequestInProgress(self.listener.link, head, self.queue.arrived)
        request.identify(lane.run, self.attempt if self.is_tool else lane.attempt)
        return request

    def _on_body(self, request: RequestInProgress, data: bytes) -> None:
        """Takes what there is of the body (maybe nothing) and sends it on, unless faults may act on it."""
        if data:
            try:
                used = request.take_body(data)
            except BadBody as error:
                self._refuse(BadHead(str(error)))
                return
            if used < len(data):
                self.queue.add(data[used:], time.perf_counter())
                data = data[:used]
        if request.held is not None:
            request.held.append(data)
            if not request.decided and can_be_decided(request):
                decide(request)
                self._carry_out_plan(request)
            return
        if not request.answered_by_fault:
            if request.forwarding:
                self.upstream.send(data)
            else:
                self._forward(request, data)
        if request.request_done:
            self._on_request_done(request)

    def _refuse(self, error: BadHead) -> None:
        """Answers what is no request, and closes."""
        request = self.request or self._new_request(RequestHead("", "", [], len(self.queue.waiting)))
        request.request_done = request.keep_alive = False
        request.plan, request.error = None, str(error)
        self.queue.take_all()
        if not self.reply.begun:
            self.reply.answer(request, refusal(error.status, "bad_request", str(error)))
        self._finish(request)

    # faults, before the request goes on

    def _carry_out_plan(self, request: RequestInProgress) -> None:
        """Lets the request go on, now or after the delay that its faults add."""
        seconds = request.plan.delay if request.plan else 0.0
        if not seconds or request.attempt_is_over:
            self._go_on(request)
            return
        self._delay = FaultDelay(request, seconds, self._on_delay_over)
        self.client.pause(PauseReason.FAULT_DELAY, not request.request_done)

    def _on_delay_over(self, request: RequestInProgress) -> None:
        self._delay = None
        self.client.pause(PauseReason.FAULT_DELAY, False)
        if self.request is request:
            self._go_on(request)

    def _stop_delay(self) -> None:
        if self._delay is not None:
            self._delay.stop()
            self._delay = None

    def _go_on(self, request: RequestInProgress) -> None:
        """Forwards what was held, or throws it away if a fault answers."""
        held = request.take_held()
        if not request.answered_by_fault:
            self._forward(request, held)
        if request.request_done and not (self.client.lost and request.answered_by_fault):
            self._on_request_done(request)
        if self.client.lost and self.request is request:
            self._on_client_gone()

    # towards the upstream

    def _forward(self, request: RequestInProgress, body: bytes) -> None:
        """Sends the header block and what there is of the body in one go, and gets ready for the reply."""
        request.forwarding = True
        upstream = self.upstream.open(self.listener.current_endpoint())
        head, message = message_for(request, upstream.endpoint, body, is_tool=self.is_tool)
        fault = request.plan.request_fault if request.plan else None
        if fault is not None and fault.act.copies > 1:
            self._copies = RequestCopies(fault, head, message)
        else:
            self.reply.expect(request, head)
        upstream.send(message)

    def _on_request_done(self, request: RequestInProgress) -> None:
        """All of the request is here, and has gone where it goes."""
        fault = request.plan.request_fault if request.plan else None
        if fault is not None and fault.act.answer is not None:
            own_reply = self.reply.answer_by_fault(request, fault, fault.act.answer)
            if own_reply is not None:
                self.reply.answer(request, own_reply)
                self._finish(request)
            return
        if self.upstream.connection is not None:
            request.forwarded = not self.upstream.connection.connecting
            if self.client.half_closed:
                self._pass_on_eof()
        if request.reply_done:
            self._finish(request)

    def _send_copy(self, request: RequestInProgress, copies: RequestCopies) -> None:
        copies.next_copy()
        if not copies.left:
            self.reply.expect(request, copies.head)
        self.upstream.open(self.listener.current_endpoint()).send(copies.message)
        self._pass_on_eof()

    # what the upstream does

    def on_connected(self) -> None:
        if self.request is not None and self.request.request_done:
            self.request.forwarded = True
        if self.client.lost:
            self._give_up(_CLIENT_LEFT)
            self._leave()

    def on_unreachable(self, reason: str) -> None:
        request = self.request
        self.upstream.drop()
        if request is None:
            return
        request.error = reason
        request.mark_faults_not_injected("upstream_failed")
        request.keep_alive = request.keep_alive and request.request_done
        if self.client.lost:
            self._give_up(reason)
            self._leave()
        else:
            self.reply.answer(request, refusal(502, "bad_gateway", reason))
            self._finish(request)

    def on_full(self, full: bool) -> None:
        self.client.pause(PauseReason.UPSTREAM_FULL, full)

    def on_reply(self, data: bytes) -> None:
        request = self.request
        copies = self._copies if self._copies is not None and self._copies.left else None
        reader = copies.reader if copies else self.reply.reader
        if request is None or reader is None or request.reply_done:
            self.upstream.drop()  # nobody asked: it cannot be the answer to anything
            return
        if copies is not None:
            _, surplus = reader.feed(data)
            if reader.done:
                if surplus or not reader.keep_alive:
                    self.upstream.drop()
                self._send_copy(request, copies)
            return
        surplus = self.reply.feed(request, reader, data)
        if reader.tunnel:
            if self.queue.waiting:  # what the client sent before its connection became a tunnel
                self.client.pause(PauseReason.REQUESTS_WAIT, False)
                self.data_received(self.queue.take_all())
        elif self.reply.changes.done if self.reply.changes else reader.done:
            request.keep_alive = request.keep_alive and reader.keep_alive
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
        elif self.reply.break_off(request, reader, reason):
            self._finish(request)

    def _on_reply_end(self, request: RequestInProgress, reader: ReplyReader) -> None:
        """The upstream's reply has come to its end, or no more of it is wanted."""
        if self._copies is not None:
            self._copies.note_reply(reader)
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
        if ending == "hang" and not (request.attempt_is_over or self.client.lost or self.client.half_closed):
            self.reply.hanging = True
            self.upstream.drop()
            return
        # what is no whole reply, or more than one, leaves the client no way to go on
        request.keep_alive = request.keep_alive and ending == "keep" and sent.whole and not sent.surplus
        if ending == "reset":
            self._record(request)
            self.client.reset()
        else:
            self._finish_if_over(request)

    def _finish_if_over(self, request: RequestInProgress) -> None:
        if request.request_done or not request.keep_alive:
            self._finish(request)

    def _finish(self, request: RequestInProgress) -> None:
        """Records the request; the connection goes on to the next one, or closes."""
        self._record(request)
        if not request.keep_alive:
            self.upstream.drop()
            self.client.close(unread=not request.request_done)
        elif self.queue.waiting or self.client.half_closed:
            self._take_up_requests()

    def _give_up(self, error: str) -> None:
        """Records the request in progress, which will not come to its end."""
        if self.request is not None:
            self.request.error = self.request.error or error
            self._record(self.request)

    def _record(self, request: RequestInProgress) -> None:
        self.request = self._copies = None
        self.reply.finish(request)
        request.record()
