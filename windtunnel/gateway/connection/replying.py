"""A client's connection, the side of the upstream: its replies as they are, or through faults."""

from __future__ import annotations

from dataclasses import dataclass, field

from windtunnel.faults.plan import MetFault
from windtunnel.gateway.connection.edge import LinkListener
from windtunnel.gateway.connection.edits import ReplyEdit
from windtunnel.gateway.connection.playing import CLIENT_LEFT, Playing
from windtunnel.gateway.connection.request import RequestInProgress
from windtunnel.gateway.connection.upstream import Upstream
from windtunnel.gateway.endpoint import Endpoint
from windtunnel.gateway.http1.heads import RequestHead
from windtunnel.gateway.http1.rendering import refusal
from windtunnel.gateway.http1.reply_reader import ReplyReader


@dataclass
class Copies:
    """A request that the upstream gets several times: ``left`` are still to be sent."""

    met: MetFault
    head: RequestHead
    message: bytes
    left: int
    statuses: list[int] = field(default_factory=list)

    def answered(self, reader: ReplyReader) -> None:
        if reader.head is not None:
            self.statuses.append(reader.head.status)


class Replying(Playing):
    """What the upstream does. ``copies``: the request in progress is one that it gets several times."""

    def __init__(self, door: LinkListener) -> None:
        super().__init__(door)
        self._copies: Copies | None = None

    def take_early(self) -> None:
        """What the client sent before its connection became a tunnel."""
        raise NotImplementedError

    def pass_on_end(self) -> None:
        """Tells the upstream if the client will send no more, once all that it has sent is on its way."""
        raise NotImplementedError

    @property
    def copies_left(self) -> bool:
        return self._copies is not None and self._copies.left > 0

    def endpoint(self) -> Endpoint:
        """Who gets the client's requests."""
        run = None if self.is_tool else self.door.lane.run
        return run.model if run else self.door.endpoint

    def new_upstream(self, endpoint: Endpoint) -> Upstream:
        return Upstream(self, endpoint, self.door.connect_timeout)

    def on_connected(self, upstream: Upstream) -> None:
        turn = self.turn
        if turn is not None and turn.request_done:
            turn.forwarded = True
        if self.lost:
            self.give_up(CLIENT_LEFT)
            self.leave()

    def on_unreachable(self, upstream: Upstream, reason: str) -> None:
        turn = self.turn
        if upstream is not self.upstream or turn is None:
            return
        self.drop(upstream)
        turn.error = reason
        turn.miss("upstream_failed")
        turn.keep_alive = turn.keep_alive and turn.request_done
        if self.lost:
            self.give_up(reason)
            self.leave()
        else:
            self.player = self.edit = None  # the reply is ours
            self.answer(turn, refusal(502, "bad_gateway", reason))

    def send(self, turn: RequestInProgress, upstream: Upstream, head: RequestHead, message: bytes) -> None:
        """Sends the request, or the beginning of it, and gets ready for its reply."""
        winner = turn.plan.winner if turn.plan else None
        if winner is not None and winner.act.copies > 1:
            self._copies = Copies(winner, head, message, winner.act.copies - 1)
            self.reader = ReplyReader(head.method, head.upgrade, True)
        else:
            self._copies = None
            self._expect_reply(turn, head)
        upstream.send(message)

    def _expect_reply(self, turn: RequestInProgress, head: RequestHead) -> None:
        line = turn.plan.line if turn.plan else []
        if not line and not turn.remembers:
            self.reader = ReplyReader(head.method, head.upgrade, turn.swallow_continue)
            return
        self.edit = ReplyEdit(
            line,
            head,
            keep_alive=turn.keep_alive,
            swallow_continue=turn.swallow_continue,
            remember=turn.memory if turn.remembers else None,
        )
        self.reader = self.edit.reader
        self.player = self.new_player(turn)

    # its replies

    def on_reply(self, upstream: Upstream, data: bytes) -> None:
        turn, reader = self.turn, self.reader
        if upstream is not self.upstream or turn is None or reader is None or turn.reply_done:
            self.drop(upstream)  # nobody asked: it cannot be the answer to anything
            return
        if self._copies is not None and self._copies.left:
            self._swallow(turn, self._copies, upstream, reader, data)
            return
        surplus = self._pass_on(turn, reader, data)
        if reader.tunnel:
            self.take_early()
        elif self.edit.done if self.edit else reader.done:
            turn.keep_alive = turn.keep_alive and reader.keep_alive
            if turn.head.expects_continue and not turn.request_done and not reader.continued:
                turn.keep_alive = False  # the body may or may not follow: only a close is unambiguous
            if surplus or not reader.done:
                self.drop(upstream)
            self._on_reply_end(turn, reader)

    def _pass_on(self, turn: RequestInProgress, reader: ReplyReader, data: bytes) -> bytes:
        """Gives the client its part of these bytes; what came after the reply's end."""
        if self.edit is not None and self.player is not None:
            steps, surplus = self.edit.feed(data)
            self.player.add(steps)
            self.throttle()
            return surplus
        passed, surplus = reader.feed(data)
        self.write(turn, passed)
        if reader.head is not None:
            turn.status = reader.head.status
        return surplus

    def _on_reply_end(self, turn: RequestInProgress, reader: ReplyReader) -> None:
        """The upstream's reply has come to its end, or no more of it is wanted."""
        if self._copies is not None:
            self._copies.answered(reader)
        edit, player = self.edit, self.player
        if edit is None or player is None:
            turn.reply_done = True
            self.finish_if_over(turn)
            return
        self.reader = None
        player.add(edit.end())
        player.finish(edit.ending)

    def on_upstream_end(self, upstream: Upstream, reason: str | None) -> None:
        if upstream is not self.upstream:
            return
        self.drop(upstream)
        turn, reader = self.turn, self.reader
        if turn is None or reader is None:
            return
        copies = self._copies if self._copies is not None and self._copies.left else None
        whole = turn.reply_done or (reason is None and reader.ends_by_close)
        if whole and copies:
            self._send_again(turn, copies, reader)
            return
        turn.keep_alive = False
        if turn.reply_done:
            self.finish(turn)
        elif whole:
            self._on_reply_end(turn, reader)
        else:
            self._on_broken_reply(turn, reader, reason, swallowed=copies is not None)

    def _on_broken_reply(
        self, turn: RequestInProgress, reader: ReplyReader, reason: str | None, *, swallowed: bool
    ) -> None:
        edit, player = self.edit, self.player
        steps = edit.fail() if edit else () if swallowed else (reader.take_rest(),)
        where = "in the middle of" if reader.begun or any(steps) else "before"
        detail = f": {reason}" if reason else ""
        turn.error = reader.error or f"the upstream closed {where} its reply{detail}"
        turn.miss("upstream_failed")
        if player is None:
            self.write(turn, b"".join(step for step in steps if isinstance(step, bytes)))
            self.finish(turn)
            return
        self.reader = None
        player.add(steps)
        player.finish("close")

    # a request that it gets several times

    def _swallow(
        self, turn: RequestInProgress, copies: Copies, upstream: Upstream, reader: ReplyReader, data: bytes
    ) -> None:
        _, surplus = reader.feed(data)
        if reader.done:
            if surplus or not reader.keep_alive:
                self.drop(upstream)
            self._send_again(turn, copies, reader)

    def _send_again(self, turn: RequestInProgress, copies: Copies, reader: ReplyReader) -> None:
        copies.answered(reader)
        copies.left -= 1
        copies.met.changed({"statuses": copies.statuses})
        if copies.left:
            self.reader = ReplyReader(copies.head.method, copies.head.upgrade, True)
        else:
            self._expect_reply(turn, copies.head)
        self.open_upstream(self.endpoint()).send(copies.message)
        self.pass_on_end()
