"""One client's connection, the side of the requests: one after the other, forwarded or held for faults."""

from __future__ import annotations

import time

from windtunnel.gateway.connection.edge import QUEUED, LinkListener
from windtunnel.gateway.connection.holding import Holding
from windtunnel.gateway.connection.playing import CLIENT_LEFT
from windtunnel.gateway.connection.request import RequestInProgress
from windtunnel.gateway.http1.framing import BadBody
from windtunnel.gateway.http1.heads import BadHead, RequestHead, find_head
from windtunnel.gateway.http1.rendering import refusal
from windtunnel.gateway.lane import Attempt

_QUEUE_LIMIT = 64 * 1024


class ClientConnection(Holding):
    """Bytes are forwarded as they come; ``turn`` is the request in progress, later ones wait in line."""

    def __init__(self, door: LinkListener) -> None:
        super().__init__(door)
        self._pending = b""
        self._arrived = 0.0
        self._advancing = False

    # what the client does

    def data_received(self, data: bytes) -> None:
        turn = self.turn
        if self.draining:
            return
        if turn is None:
            self._queue(data)
            self._advance()
        elif not turn.request_done:
            self._on_body(turn, data)
        elif self._tunnel:
            turn.request_bytes += len(data)
            self._send(data)
        else:
            self._queue(data)
            self.hold(QUEUED, len(self._pending) > _QUEUE_LIMIT)

    def _queue(self, data: bytes) -> None:
        if self._pending:
            self._pending += data
        else:
            self._pending, self._arrived = data, time.perf_counter()

    def take_early(self) -> None:
        if self._pending:
            early, self._pending = self._pending, b""
            self.hold(QUEUED, False)
            self.data_received(early)

    def eof_received(self) -> bool:
        """A client that has said all may still want its answer; one that stopped half-way is gone."""
        self.eof = True
        if self.draining or self.hanging or not self._still_wants_answer():
            return False
        self.pass_on_end()
        return True

    def pass_on_end(self) -> None:
        held = self.copies_left or (self.turn is not None and self.turn.held is not None)
        if self.eof and not self._pending and not held and self.upstream is not None:
            self.upstream.send_eof()

    def _still_wants_answer(self) -> bool:
        turn = self.turn
        if turn is not None and not turn.request_done:
            turn.error = "the client left before its request was complete"
        return turn is not None and turn.request_done

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.stop_timer()
        if self.delayed and self.turn is not None and self.turn.request_done:
            return  # on a slow network too the request would arrive
        self.stop_delay()
        self.on_left()

    def on_left(self) -> None:
        """The client is gone: so is what it had begun, but for a whole request that is on its way."""
        turn, upstream = self.turn, self.upstream
        if turn is not None and turn.request_done and upstream is not None and upstream.connecting:
            upstream.close()  # a server reached directly would have had the request: it still gets it
            return
        self.give_up(CLIENT_LEFT)
        if upstream is not None:
            if turn is None or turn.request_done:
                upstream.close()
            else:
                upstream.abort()
        self.leave()

    def end(self, reason: str) -> None:
        self.stop_delay()
        super().end(reason)

    def release(self, attempt: Attempt) -> None:
        turn = self.turn
        if self.delayed and turn is not None and turn.attempt is attempt:
            self.on_delay_over()
        super().release(attempt)

    # requests

    def next_request(self) -> None:
        if self._pending or self.eof:
            self._advance()

    def _advance(self) -> None:
        """Takes up the requests that wait, one by one, as far as they go."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._pending and self.turn is None and not self.draining and self._take_up():
                pass
        finally:
            self._advancing = False
        if self._pending or self.held_by(QUEUED):
            self.hold(QUEUED, len(self._pending) > _QUEUE_LIMIT)
        if self.eof and not self.draining and not self._still_wants_answer():
            self.transport.close()

    def _take_up(self) -> bool:
        """Begins the next request; False if its header block is not whole yet, or is refused."""
        try:
            head, self._pending = find_head(self._pending)
        except BadHead as error:
            self._refuse(error)
            return False
        if head is None:
            if self._pending:
                self.start_timer(self.door.head_timeout)
            return False
        self.stop_timer()
        turn = self._new_turn(head)
        data, self._pending = self._pending, b""
        if turn.may_meet_fault:
            self.ask_faults(turn)
        if turn.decided and turn.held is not None:
            if data:
                self._queue(data)
            self.act(turn)
        else:
            self._on_body(turn, data)
        return True

    def on_timer(self) -> None:
        self._refuse(BadHead("the header block did not come in time", 408))

    def _new_turn(self, head: RequestHead) -> RequestInProgress:
        lane = self.door.lane
        turn = self.turn = RequestInProgress(self.door.link, head, self._arrived)
        turn.identify(lane.run, self.attempt if self.is_tool else lane.attempt)
        return turn

    def _on_body(self, turn: RequestInProgress, data: bytes) -> None:
        """Takes what there is of the body (maybe nothing) and sends it on, unless faults may act on it."""
        if data:
            try:
                used = turn.take_body(data)
            except BadBody as error:
                self._refuse(BadHead(str(error)))
                return
            if used < len(data):
                self._queue(data[used:])
                data = data[:used]
        if turn.held is not None:
            turn.held.append(data)
            if not turn.decided and turn.can_be_decided:
                turn.decide()
                self.act(turn)
            return
        if not turn.forwarding and not turn.answered_here:
            self.forward(turn, data)
        elif not turn.answered_here:
            self._send(data)
        if turn.request_done:
            self.on_request_done(turn)

    def on_request_done(self, turn: RequestInProgress) -> None:
        made = turn.plan
        if made is not None and made.winner is not None and made.winner.act.answer is not None:
            self.answer_by_fault(turn, made.winner, made.winner.act.answer)
            return
        if self.upstream is not None:
            turn.forwarded = not self.upstream.connecting
            if self.eof:
                self.pass_on_end()
        if turn.reply_done:
            self.finish(turn)

    def _send(self, data: bytes) -> None:
        if self.upstream is not None:
            self.upstream.send(data)

    @property
    def _tunnel(self) -> bool:
        return self.reader is not None and self.reader.tunnel

    def _refuse(self, error: BadHead) -> None:
        """Answers what is no request, and closes."""
        turn = self.turn or self._new_turn(RequestHead("", "", [], len(self._pending)))
        turn.request_done = turn.keep_alive = False
        turn.plan, turn.error = None, str(error)
        self._pending = b""
        if self.reply_begun:
            self.finish(turn)
        else:
            self.answer(turn, refusal(error.status, "bad_request", str(error)))
