"""One client's connection: its requests one after the other, forwarded or answered by a fault."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import cast

from windtunnel.catalog import MODEL_LINK
from windtunnel.faults import Reply
from windtunnel.gateway.answers import CONTINUE, error_reply, render
from windtunnel.gateway.endpoint import Endpoint, rewrite
from windtunnel.gateway.framing import BadBody
from windtunnel.gateway.heads import MAX_HEAD, BadHead, RequestHead, is_hopeless, read_request
from windtunnel.gateway.lane import Lane
from windtunnel.gateway.replies import ReplyReader
from windtunnel.gateway.turn import MAX_FINGERPRINTED, Turn
from windtunnel.gateway.upstream import Upstream

_QUEUE_LIMIT = 64 * 1024
_LINGER_S = 1.0
_QUEUED, _UPSTREAM_FULL = 1, 2


@dataclass
class Door:
    """One link's listener: its lane, its upstream outside any run, and how long clients may take."""

    link: str
    lane: Lane
    endpoint: Endpoint
    head_timeout: float = 10.0
    connect_timeout: float = 10.0

    @property
    def is_tool(self) -> bool:
        return self.link != MODEL_LINK.name


class ClientConnection(asyncio.Protocol):
    """Bytes are forwarded as they come; ``turn`` is the request in progress, later ones wait in line."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._attempt = door.lane.attempt if door.is_tool else None
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._upstream: Upstream | None = None
        self._turn: Turn | None = None
        self._reader: ReplyReader | None = None
        self._pending = b""
        self._arrived = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._paused = 0
        self._full = self._eof = self._draining = self._advancing = self._lost = self._left = False

    # the client's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._door.lane.connections.add(self)
        if self._attempt is not None:
            self._attempt.opened()

    def data_received(self, data: bytes) -> None:
        turn = self._turn
        if self._draining:
            return
        if turn is None or (turn.request_done and not self._tunnel):
            if not self._pending:
                self._arrived = time.perf_counter()
            self._pending = self._pending + data if self._pending else data
            if turn is None:
                self._advance()
            elif len(self._pending) > _QUEUE_LIMIT:
                self._hold(_QUEUED, True)
        elif self._tunnel:
            turn.request_bytes += len(data)
            self._send(data)
        else:
            self._on_body(turn, data)

    def eof_received(self) -> bool:
        """A client that has said all may still want its answer; one that stopped half-way is gone."""
        self._eof = True
        turn = self._turn
        if turn is None or self._draining:
            return False
        if not turn.request_done:
            turn.error = "the client left before its request was complete"
            return False
        if not self._pending:
            self._pass_eof()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._stop_timer()
        turn, upstream = self._turn, self._upstream
        if turn is not None and turn.request_done and upstream is not None and upstream.connecting:
            upstream.close()  # a server reached directly would have had the request: it still gets it
            return
        if turn is not None:
            turn.error = turn.error or "the client left before its reply was complete"
            turn.record()
        if upstream is not None:
            if turn is None or turn.request_done:
                upstream.close()
            else:
                upstream.abort()
        self._leave()

    def pause_writing(self) -> None:
        self._full = True
        if self._upstream is not None:
            self._upstream.pause(True)

    def resume_writing(self) -> None:
        self._full = False
        if self._upstream is not None:
            self._upstream.pause(False)

    def end(self, reason: str) -> None:
        """Closes both sides at once; a request in progress is recorded with that reason."""
        if self._turn is not None:
            self._turn.error = self._turn.error or reason
            self._turn.record()
            self._turn = None
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
        self._transport.abort()
        self._leave()

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            self._turn = self._upstream = None
            self._door.lane.connections.discard(self)
            if self._attempt is not None:
                self._attempt.closed()

    # requests

    def _advance(self) -> None:
        """Takes up the requests that wait, one by one, as far as they go."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._pending and self._turn is None and not self._draining and not self._lost:
                if not self._take_up():
                    break
        finally:
            self._advancing = False
        if self._paused & _QUEUED and len(self._pending) <= _QUEUE_LIMIT:
            self._hold(_QUEUED, False)
        if self._eof and self._turn is None and not self._draining:
            self._transport.close()

    def _take_up(self) -> bool:
        """Begins the next request; False if its header block is not whole yet, or is refused."""
        try:
            head = self._read_head()
        except BadHead as error:
            self._refuse(error)
            return False
        if head is None:
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._door.head_timeout, self._on_slow_head)
            return False
        self._stop_timer()
        rest, self._pending = self._pending[head.size :], b""
        turn = self._new_turn(head)
        if turn.run is not None and turn.run.faults[turn.link] and turn.identity != "mismatch":
            self._hold_back(turn, rest)
        else:
            self._forward(turn, rest)
        return True

    def _new_turn(self, head: RequestHead) -> Turn:
        door = self._door
        turn = self._turn = Turn(door.link, head, self._arrived)
        turn.identify(door.lane.run, self._attempt if door.is_tool else door.lane.attempt)
        return turn

    def _read_head(self) -> RequestHead | None:
        while self._pending.startswith(b"\r\n"):  # tolerated between requests, and told to nobody
            self._pending = self._pending[2:]
        end = self._pending.find(b"\r\n\r\n") + 4
        if max(end, len(self._pending) if end < 4 else 0) > MAX_HEAD:
            raise BadHead("the header block is longer than 64 KiB", 431)
        if end >= 4:
            return read_request(self._pending[:end])
        if is_hopeless(self._pending):
            raise BadHead("not an HTTP/1 request")
        return None

    def _on_slow_head(self) -> None:
        self._timer = None
        self._refuse(BadHead("the header block did not come in time", 408))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _hold_back(self, turn: Turn, data: bytes) -> None:
        """Keeps the request until its body is known, since a fault may answer it."""
        turn.held = []
        if turn.head.expects_continue and not turn.request_done:
            turn.swallow_continue = True
            self._transport.write(CONTINUE)
        if turn.request_done:
            self._pending = data
            self._decide(turn)
        elif data:
            self._on_body(turn, data)

    def _decide(self, turn: Turn) -> None:
        assert turn.run is not None and turn.held is not None
        turn.settle_key()
        view = turn.view()
        for fault in turn.run.faults[turn.link]:
            turn.answer = fault.act(view, turn.run.settings)
            if turn.answer is not None:
                turn.held = None
                turn.fault = dict(turn.answer.record)
                if turn.request_done:
                    self._answer(turn, turn.answer)
                return
        held, turn.held = turn.held, None
        self._start_upstream(turn, b"".join(held))

    def _on_body(self, turn: Turn, data: bytes) -> None:
        part = self._take_body(turn, data)
        if part is None:
            return
        if turn.held is not None:
            turn.held.append(part)
            if turn.request_done or turn.payload_size >= MAX_FINGERPRINTED:
                self._decide(turn)
        elif turn.answer is not None:
            if turn.request_done:
                self._answer(turn, turn.answer)
        else:
            self._send(part)
            if turn.request_done:
                self._on_request_sent(turn)

    def _take_body(self, turn: Turn, data: bytes) -> bytes | None:
        """The part of the data that is body, the rest waits in line; None if the request was refused."""
        try:
            used = turn.body.feed(data)
        except BadBody as error:
            self._refuse(BadHead(str(error)))
            return None
        turn.request_bytes += used
        turn.request_done = turn.body.done
        if used == len(data):
            return data
        self._pending, self._arrived = data[used:], time.perf_counter()
        return data[:used]

    def _forward(self, turn: Turn, data: bytes) -> None:
        if turn.request_done:
            self._pending = data
            self._start_upstream(turn, b"")
            return
        part = self._take_body(turn, data) if data else b""
        if part is not None:
            self._start_upstream(turn, part)

    def _start_upstream(self, turn: Turn, body: bytes) -> None:
        """Sends the rewritten header block and what there is of the body, in one go."""
        lane, tool = self._door.lane, self._door.is_tool
        endpoint = lane.run.model if not tool and lane.run else self._door.endpoint
        upstream = self._upstream
        if upstream is not None and upstream.endpoint is not endpoint:
            upstream.close()
            upstream = None
        if upstream is None:
            upstream = self._upstream = Upstream(self, endpoint, self._door.connect_timeout)
            upstream.pause(self._full)
        self._reader = ReplyReader(turn.head.method, turn.head.upgrade, turn.swallow_continue)
        lab_headers = turn.attempt.lab_headers if tool and turn.attempt else b""
        upstream.send(rewrite(turn.head, endpoint, lab_headers) + body)
        if turn.request_done:
            self._on_request_sent(turn)

    def _on_request_sent(self, turn: Turn) -> None:
        if self._upstream is not None and not self._upstream.connecting:
            turn.forwarded = True
        if self._eof and not self._pending:
            self._pass_eof()

    def _send(self, data: bytes) -> None:
        if self._upstream is not None:
            self._upstream.send(data)

    def _pass_eof(self) -> None:
        if self._upstream is not None:
            self._upstream.send_eof()

    @property
    def _tunnel(self) -> bool:
        return self._reader is not None and self._reader.tunnel

    # replies

    def on_connected(self, upstream: Upstream) -> None:
        turn = self._turn
        if turn is not None and turn.request_done:
            turn.forwarded = True
            if self._lost:
                turn.error = "the client left before its reply was complete"
                turn.record()
                self._leave()

    def on_unreachable(self, upstream: Upstream, reason: str) -> None:
        self._upstream, self._reader = None, None
        turn = self._turn
        if turn is None:
            return
        turn.error = reason
        turn.keep_alive = turn.keep_alive and turn.request_done
        if self._lost:
            turn.record()
            self._leave()
        else:
            self._hold(_UPSTREAM_FULL, False)
            self._answer(turn, error_reply(502, "bad_gateway", reason))

    def on_reply(self, upstream: Upstream, data: bytes) -> None:
        turn, reader = self._turn, self._reader
        if upstream is not self._upstream or turn is None or reader is None or turn.reply_done:
            self._drop(upstream)  # nobody asked: it cannot be the answer to anything
            return
        passed, surplus = reader.feed(data)
        self._write(turn, passed)
        if reader.head is not None:
            turn.status = reader.head.status
        if reader.done:
            turn.reply_done = True
            turn.keep_alive = turn.keep_alive and reader.head is not None and reader.head.keep_alive
            if surplus:
                self._drop(upstream)
            self._on_reply_done(turn, reader)

    def on_upstream_end(self, upstream: Upstream, reason: str | None) -> None:
        if upstream is not self._upstream:
            return
        self._upstream = None
        turn, reader = self._turn, self._reader
        if turn is None or reader is None:
            return
        turn.keep_alive = False
        if not turn.reply_done:
            self._write(turn, reader.take_rest())
            turn.reply_done = reason is None and (reader.endless or reader.tunnel)
            if not turn.reply_done:
                where = "in the middle of its reply" if turn.reply_bytes else "before its reply"
                turn.error = reader.error or f"the upstream closed {where}" + (
                    f": {reason}" if reason else ""
                )
        self._finish(turn)

    def on_full(self, full: bool) -> None:
        self._hold(_UPSTREAM_FULL, full)

    def _on_reply_done(self, turn: Turn, reader: ReplyReader) -> None:
        if turn.head.expects_continue and not turn.request_done and not reader.continued:
            turn.keep_alive = False  # the body may or may not follow: only a close is unambiguous
        if turn.request_done or not turn.keep_alive:
            self._finish(turn)

    def _write(self, turn: Turn, data: bytes) -> None:
        if data:
            self._transport.write(data)
            turn.reply_bytes += len(data)
            turn.ended = time.perf_counter()

    def _answer(self, turn: Turn, reply: Reply) -> None:
        """Gives the gateway's own reply and ends the turn."""
        turn.status = reply.status
        head_only = turn.head.method == "HEAD"
        self._write(turn, render(reply, keep_alive=turn.keep_alive, head_only=head_only))
        turn.reply_done = True
        self._finish(turn)

    def _finish(self, turn: Turn) -> None:
        """The turn is over: recorded, and the connection goes on to the next or closes."""
        if turn.request_done and not turn.recorded:
            turn.settle_key()
        turn.record()
        self._turn = self._reader = None
        if turn.keep_alive:
            if self._pending or self._eof:
                self._advance()
            return
        if self._upstream is not None:
            self._drop(self._upstream)
        if turn.request_done:
            self._draining = True
            self._transport.close()
        else:
            self._linger()

    def _refuse(self, error: BadHead) -> None:
        """Answers what is no request, and closes."""
        turn = self._turn
        if turn is None:
            turn = self._turn = Turn(
                self._door.link, RequestHead("", "", [], len(self._pending)), self._arrived
            )
            lane = self._door.lane
            turn.identify(lane.run, self._attempt if self._door.is_tool else lane.attempt)
        turn.request_done = turn.keep_alive = False
        turn.error = str(error)
        if turn.reply_bytes:
            self._finish(turn)
        else:
            self._answer(turn, error_reply(error.status, "bad_request", str(error)))

    def _linger(self) -> None:
        """Closes so that the reply arrives: a close with unread data would reset the connection."""
        self._draining = True
        self._pending = b""
        self._hold(_QUEUED | _UPSTREAM_FULL, False)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(_LINGER_S, self._transport.abort)

    def _drop(self, upstream: Upstream) -> None:
        if upstream is self._upstream:
            self._upstream = None
        upstream.abort()

    def _hold(self, why: int, hold: bool) -> None:
        """Stops reading from the client while there is a reason to."""
        before = self._paused
        self._paused = before | why if hold else before & ~why
        if bool(before) != bool(self._paused) and not self._transport.is_closing():
            if self._paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
