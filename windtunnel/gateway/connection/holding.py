"""A client's connection, the side of the faults: a request is held for them, delayed, and let go."""

from __future__ import annotations

import asyncio
import time

from windtunnel.faults.plan import Plan
from windtunnel.gateway.connection.edge import DELAYED, LinkListener
from windtunnel.gateway.connection.replying import Replying
from windtunnel.gateway.connection.request import RequestInProgress
from windtunnel.gateway.endpoint import rewrite
from windtunnel.gateway.http1.heads import RequestHead
from windtunnel.gateway.http1.messages import ask_for_identity, reframed
from windtunnel.gateway.http1.rendering import CONTINUE


class Holding(Replying):
    """What becomes of a request before the upstream gets it."""

    def __init__(self, door: LinkListener) -> None:
        super().__init__(door)
        self._delay: asyncio.TimerHandle | None = None
        self._delayed_since = 0.0

    @property
    def delayed(self) -> bool:
        return self._delay is not None

    def on_request_done(self, turn: RequestInProgress) -> None:
        """All of the request is here, and has gone where it goes."""
        raise NotImplementedError

    def on_left(self) -> None:
        """The client is gone."""
        raise NotImplementedError

    def ask_faults(self, turn: RequestInProgress) -> None:
        """Asks them at once if the request is whole, and holds what they may act on."""
        if turn.request_done:
            turn.decide()
            if turn.plan is not None:
                turn.hold()
            return
        turn.hold()
        if turn.head.expects_continue:
            turn.swallow_continue = True
            self.write(turn, CONTINUE)

    def act(self, turn: RequestInProgress) -> None:
        """What the faults say is done now, or after the delay that they add."""
        delay = turn.plan.delay if turn.plan else 0.0
        if not delay or turn.settling:
            self._go_on(turn)
            return
        self._delayed_since = time.perf_counter()
        self._delay = asyncio.get_running_loop().call_later(delay, self.on_delay_over)
        self.hold(DELAYED, not turn.request_done)

    def on_delay_over(self) -> None:
        turn = self.turn
        self.stop_delay()
        self.hold(DELAYED, False)
        if turn is not None:
            self._go_on(turn)

    def stop_delay(self) -> None:
        """Ends the delay in progress, if any, and says how long it has been."""
        if self._delay is None:
            return
        self._delay.cancel()
        self._delay = None
        if self.turn is not None and self.turn.plan is not None:
            self.turn.plan.delayed(time.perf_counter() - self._delayed_since)

    def _go_on(self, turn: RequestInProgress) -> None:
        """What was held is forwarded, or thrown away if a fault answers."""
        held = turn.take_held()
        if not turn.answered_here:
            self.forward(turn, held)
        if turn.request_done and not (self.lost and turn.answered_here):
            self.on_request_done(turn)
        if self.lost and self.turn is turn:
            self.on_left()

    def forward(self, turn: RequestInProgress, body: bytes) -> None:
        """Sends the rewritten header block and what there is of the body, in one go."""
        turn.forwarding = True
        head = turn.head
        if turn.plan is not None:
            head, body = self._changed_request(head, turn.plan, body)
        upstream = self.open_upstream(self.endpoint())
        lab_headers = turn.attempt.lab_headers if self.is_tool and turn.attempt else b""
        self.send(turn, upstream, head, rewrite(head, upstream.endpoint, lab_headers) + body)

    @staticmethod
    def _changed_request(head: RequestHead, made: Plan, body: bytes) -> tuple[RequestHead, bytes]:
        """The request as faults want it."""
        if made.winner is not None and made.winner.act.request is not None:
            changed = made.winner.guarded(reframed, made.winner.act.request, head)
            if changed is not None:
                head, body = changed
                made.winner.changed()
        asked = ask_for_identity(head) if made.line else ""
        if asked not in ("", "identity"):
            for met in made.line:
                met.evidence["accept_encoding"] = asked
        return head, body
