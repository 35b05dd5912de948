"""One client's connection: its requests one after the other, forwarded or answered by a fault."""

from __future__ import annotations

import time

from windtunnel.faults import Reply, error_body
from windtunnel.gateway.answers import CONTINUE, render
from windtunnel.gateway.edge import QUEUED, ClientEdge, Door
from windtunnel.gateway.endpoint import Endpoint, rewrite
from windtunnel.gateway.framing import BadBody
from windtunnel.gateway.heads import BadHead, RequestHead, find_head
from windtunnel.gateway.replies import ReplyReader
from windtunnel.gateway.turn import Turn
from windtunnel.gateway.upstream import Upstream

_QUEUE_LIMIT = 64 * 1024
_CLIENT_LEFT = "the client left before its reply was complete"


class ClientConnection(ClientEdge):
    """Bytes are forwarded as they come; ``turn`` is the request in progress, later ones wait in line."""

    def __init__(self, door: Door) -> None:
        super().__init__(door)
        self._turn: Turn | None = None
        self._reader: ReplyReader | None = None
        self._pending = b""
        self._arrived = 0.0
        self._eof = self._advancing = False

    # what the client does

    def data_received(self, data: bytes) -> None:
        turn = self._turn
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

    def eof_received(self) -> bool:
        """A client that has said all may still want its answer; one that stopped half-way is gone."""
        self._eof = True
        turn = self._turn
        if turn is None or self.draining:
            return False
        if not turn.request_done:
            turn.error = "the client left before its request was complete"
            return False
        if not self._pending and self.upstream is not None:
            self.upstream.send_eof()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.stop_timer()
        turn, upstream = self._turn, self.upstream
        if turn is not None and turn.request_done and upstream is not None and upstream.connecting:
            upstream.close()  # a server reached directly would have had the request: it still gets it
            return
        self._record(turn, _CLIENT_LEFT)
        if upstream is not None:
            if turn is None or turn.request_done:
                upstream.close()
            else:
                upstream.abort()
        self.leave()

    def end(self, reason: str) -> None:
        """Closes both sides at once; a request in progress is recorded with that reason."""
        self._record(self._turn, reason)
        super().end(reason)

    def _record(self, turn: Turn | None, error: str) -> None:
        self._turn = None
        if turn is not None:
            turn.error = turn.error or error
            turn.record()

    # requests

    def _advance(self) -> None:
        """Takes up the requests that wait, one by one, as far as they go."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._pending and self._turn is None and not self.draining and self._take_up():
                pass
        finally:
            self._advancing = False
        self.hold(QUEUED, len(self._pending) > _QUEUE_LIMIT)
        if self._eof and self._turn is None and not self.draining:
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
        if turn.may_be_answered:
            turn.held = []
            if head.expects_continue and not turn.request_done:
                turn.swallow_continue = True
                self._write(turn, CONTINUE)
        self._on_body(turn, data)
        return True

    def on_timer(self) -> None:
        self._refuse(BadHead("the header block did not come in time", 408))

    def _new_turn(self, head: RequestHead) -> Turn:
        lane = self.door.lane
        turn = self._turn = Turn(self.door.link, head, self._arrived)
        turn.identify(lane.run, self.attempt if self.door.is_tool else lane.attempt)
        return turn

    def _on_body(self, turn: Turn, data: bytes) -> None:
        """Takes what there is of the body (maybe nothing) and sends it on, unless a fault may answer."""
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
            if not turn.can_be_decided:
                return
            held = turn.decide()
            if held is not None:
                self._forward(turn, held)
        elif self._reader is None and turn.answer is None:
            self._forward(turn, data)
        elif turn.answer is None:
            self._send(data)
        if turn.request_done:
            self._on_request_done(turn)

    def _forward(self, turn: Turn, body: bytes) -> None:
        """Sends the rewritten header block and what there is of the body, in one go."""
        door = self.door
        run = None if door.is_tool else door.lane.run
        upstream = self.open_upstream(run.model if run else door.endpoint)
        self._reader = ReplyReader(turn.head.method, turn.head.upgrade, turn.swallow_continue)
        lab_headers = turn.attempt.lab_headers if door.is_tool and turn.attempt else b""
        upstream.send(rewrite(turn.head, upstream.endpoint, lab_headers) + body)

    def _on_request_done(self, turn: Turn) -> None:
        if turn.answer is not None:
            self._answer(turn, turn.answer)
            return
        if self.upstream is not None:
            turn.forwarded = not self.upstream.connecting
            if self._eof and not self._pending:
                self.upstream.send_eof()
        if turn.reply_done:
            self._finish(turn)

    def _send(self, data: bytes) -> None:
        if self.upstream is not None:
            self.upstream.send(data)

    @property
    def _tunnel(self) -> bool:
        return self._reader is not None and self._reader.tunnel

    # what the upstream does

    def new_upstream(self, endpoint: Endpoint) -> Upstream:
        return Upstream(self, endpoint, self.door.connect_timeout)

    def on_connected(self, upstream: Upstream) -> None:
        turn = self._turn
        if turn is not None and turn.request_done:
            turn.forwarded = True
        if self.lost:
            self._record(turn, _CLIENT_LEFT)
            self.leave()

    def on_unreachable(self, upstream: Upstream, reason: str) -> None:
        turn = self._turn
        if upstream is not self.upstream or turn is None:
            return
        self.drop(upstream)
        turn.error = reason
        turn.keep_alive = turn.keep_alive and turn.request_done
        if self.lost:
            self._record(turn, reason)
            self.leave()
        else:
            self._answer(turn, Reply(502, error_body("bad_gateway", reason)))

    def on_reply(self, upstream: Upstream, data: bytes) -> None:
        turn, reader = self._turn, self._reader
        if upstream is not self.upstream or turn is None or reader is None or turn.reply_done:
            self.drop(upstream)  # nobody asked: it cannot be the answer to anything
            return
        passed, surplus = reader.feed(data)
        self._write(turn, passed)
        if reader.head is not None:
            turn.status = reader.head.status
        if reader.tunnel and self._pending:
            early, self._pending = self._pending, b""
            self.hold(QUEUED, False)
            self.data_received(early)
        elif reader.done:
            turn.reply_done = True
            turn.keep_alive = turn.keep_alive and reader.keep_alive
            if turn.head.expects_continue and not turn.request_done and not reader.continued:
                turn.keep_alive = False  # the body may or may not follow: only a close is unambiguous
            if surplus:
                self.drop(upstream)
            if turn.request_done or not turn.keep_alive:
                self._finish(turn)

    def on_upstream_end(self, upstream: Upstream, reason: str | None) -> None:
        if upstream is not self.upstream:
            return
        self.drop(upstream)
        turn, reader = self._turn, self._reader
        if turn is None or reader is None:
            return
        turn.keep_alive = False
        if not turn.reply_done:
            self._write(turn, reader.take_rest())
            turn.reply_done = reason is None and reader.ends_by_close
            if not turn.reply_done:
                where = "in the middle of" if turn.reply_bytes else "before"
                detail = f": {reason}" if reason else ""
                turn.error = reader.error or f"the upstream closed {where} its reply{detail}"
        self._finish(turn)

    # replies

    def _write(self, turn: Turn, data: bytes) -> None:
        if data:
            self.transport.write(data)
            turn.reply_bytes += len(data)
            turn.ended = time.perf_counter()

    def _answer(self, turn: Turn, reply: Reply) -> None:
        """Gives the gateway's own reply and ends the turn."""
        turn.status = reply.status
        turn.reply_done = True
        head_only = turn.head.method == "HEAD"
        self._write(turn, render(reply, keep_alive=turn.keep_alive, head_only=head_only))
        self._finish(turn)

    def _finish(self, turn: Turn) -> None:
        """The turn is over: it is recorded, and the connection goes on to the next or closes."""
        turn.record()
        self._turn = self._reader = None
        if turn.keep_alive:
            if self._pending or self._eof:
                self._advance()
            return
        if self.upstream is not None:
            self.drop(self.upstream)
        self.close(unread=not turn.request_done)

    def _refuse(self, error: BadHead) -> None:
        """Answers what is no request, and closes."""
        turn = self._turn or self._new_turn(RequestHead("", "", [], len(self._pending)))
        turn.request_done = turn.keep_alive = False
        turn.answer, turn.error = None, str(error)
        self._pending = b""
        if self._reader is not None and self._reader.begun:
            self._finish(turn)
        else:
            self._answer(turn, Reply(error.status, error_body("bad_request", str(error))))
