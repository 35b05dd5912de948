"""What faults do to a request that is forwarded: a delay before it goes on, and copies of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from wirefault.dialects.mcp import ToolAnswer
from wirefault.faults.plan import MetFault
from wirefault.gateway.connection.request_in_progress import RequestInProgress
from wirefault.gateway.connection.server_reply import ServerReply
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.http1.reply_reader import ReplyReader


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
