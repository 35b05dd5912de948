"""A client's connection, the side of what it is given: replies, faults' answers, and how a turn ends."""

from __future__ import annotations

import time

from windtunnel.dialects.http import Ending, RawReply, Reply
from windtunnel.faults.plan import MetFault
from windtunnel.gateway.connection.edge import ClientEdge, LinkListener
from windtunnel.gateway.connection.edits import ReplyEdit
from windtunnel.gateway.connection.player import Player, Sent
from windtunnel.gateway.connection.request import RequestInProgress
from windtunnel.gateway.http1.rendering import refusal, render
from windtunnel.gateway.http1.reply_reader import ReplyReader
from windtunnel.gateway.lane import Attempt

CLIENT_LEFT = "the client left before its reply was complete"
_ATTEMPT_OVER = "the attempt ended before its reply was complete"


class Playing(ClientEdge):
    """``turn`` is the request in progress, ``reader`` follows the upstream's reply to it.

    With a fault about, ``edit`` says what becomes of that reply, and ``player`` gives it to the client.
    ``hanging``: a fault lets the client wait for ever.
    """

    def __init__(self, door: LinkListener) -> None:
        super().__init__(door)
        self.turn: RequestInProgress | None = None
        self.reader: ReplyReader | None = None
        self.edit: ReplyEdit | None = None
        self.player: Player | None = None
        self.hanging = False

    def next_request(self) -> None:
        """The last turn is over, and the connection goes on."""
        raise NotImplementedError

    @property
    def reply_begun(self) -> bool:
        """Whether the client may have had a part of its reply."""
        return self.player is not None or (self.reader is not None and self.reader.begun)

    # what the client gets

    def write(self, turn: RequestInProgress, data: bytes) -> None:
        if data:
            self.transport.write(data)
            turn.reply_bytes += len(data)
            turn.ended = time.perf_counter()

    def answer(self, turn: RequestInProgress, reply: Reply) -> None:
        """Gives the gateway's own reply and ends the turn."""
        turn.status = reply.status
        turn.reply_done = True
        self.write(turn, self._rendered(turn, reply))
        self.finish(turn)

    def answer_by_fault(self, turn: RequestInProgress, met: MetFault, answer: Reply | RawReply) -> None:
        """Gives a fault's answer in the upstream's place."""
        play = answer
        if isinstance(play, Reply):
            whole = met.guarded(self._rendered, turn, play)
            if whole is None:
                self.answer(turn, refusal(502, "bad_gateway", f"the fault {met.id} made no reply"))
                return
            play = RawReply((whole,), "keep")
        met.changed()
        self.player = self.new_player(turn)
        self.player.add(play.steps)
        self.player.finish(play.ending)

    @staticmethod
    def _rendered(turn: RequestInProgress, reply: Reply) -> bytes:
        return render(reply, keep_alive=turn.keep_alive, head_only=turn.head.method == "HEAD")

    def new_player(self, turn: RequestInProgress) -> Player:
        def write(data: bytes) -> None:
            self.write(turn, data)
            self.throttle()

        sent = Sent(turn.head.method)
        return Player(sent, write, lambda: self._full, lambda: turn.settling, self._on_played)

    @property
    def behind(self) -> bool:
        return self._full or (self.player is not None and self.player.behind)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.player is not None:
            self.player.run()
            self.throttle()

    def _on_played(self, ending: Ending) -> None:
        """All has been given: the reply ends as it should."""
        turn, player = self.turn, self.player
        assert turn is not None and player is not None
        sent = player.sent
        sent.broken_off = ending in ("close", "reset")
        sent.ended_by_close = ending == "close" or (ending == "keep" and not turn.keep_alive)
        turn.reply_done = sent.whole and turn.error is None
        if ending == "hang" and not (turn.settling or self.lost or self.eof):
            self.hanging = True
            if self.upstream is not None:
                self.drop(self.upstream)
            return
        # what is no whole reply, or more than one, leaves the client no way to go on
        turn.keep_alive = turn.keep_alive and ending == "keep" and sent.whole and not sent.surplus
        if ending == "reset":
            self._record(turn)
            self.reset()
        else:
            self.finish_if_over(turn)

    # the end of a turn

    def finish_if_over(self, turn: RequestInProgress) -> None:
        if turn.request_done or not turn.keep_alive:
            self.finish(turn)

    def finish(self, turn: RequestInProgress) -> None:
        """The turn is over: it is recorded, and the connection goes on to the next or closes."""
        self._record(turn)
        if turn.keep_alive:
            self.next_request()
            return
        if self.upstream is not None:
            self.drop(self.upstream)
        self.close(unread=not turn.request_done)

    def give_up(self, error: str) -> None:
        """Records the turn in progress, which will not come to its end."""
        if self.turn is not None:
            self.turn.error = self.turn.error or error
            self._record(self.turn)

    def _record(self, turn: RequestInProgress) -> None:
        player, edit = self.player, self.edit
        self.turn = self.reader = self.player = self.edit = None
        self.hanging = False
        if player is not None:
            player.stop()
            turn.status = player.sent.status
            _account(turn, player, edit)
        turn.record()

    def end(self, reason: str) -> None:
        """Closes both sides at once; a request in progress is recorded with that reason."""
        self.give_up(reason)
        super().end(reason)

    def release(self, attempt: Attempt) -> None:
        turn = self.turn
        held_up = self.hanging or (self.player is not None and self.player.waiting)
        if held_up and turn is not None and turn.attempt is attempt:
            self.end(_ATTEMPT_OVER)


def _account(turn: RequestInProgress, player: Player, edit: ReplyEdit | None) -> None:
    """Puts into the ledger what the client was sent by the fault that answered it or changed its reply."""
    met = edit.natural.changed_by if edit else turn.plan.winner if turn.plan else None
    if met is None or not met.injected:
        return
    sent = player.sent
    met.shows.update(sent.shows())
    met.content = sent.whole and (edit is None or sent.digest != edit.natural.digest.hexdigest())
    if player.waited:
        met.delayed(player.waited * 1000)
