"""Messages that nobody answers: lost, ignored, or many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from wirefault.core.caller_errors import TIMEOUT
from wirefault.dialects.http import Ending, RawReply, Reply, Step, data_of
from wirefault.dialects.mcp import (
    CALL,
    CANCELLED,
    PROGRESS,
    McpMessage,
    line_of,
    notification_message,
    read_message,
)
from wirefault.faults.base import Act, Changed, Fault, Miss, Try, WhyNot
from wirefault.faults.catalogue.mcp.responses import Replacement, ResponseFault

_ACCEPTED = Reply(status=202)


class LostNotification(Fault):
    """A notification does not arrive: the client's at the server, or the server's at the client.

    The client's is accepted with 202 and goes nowhere; without ``notifications/initialized`` some servers
    refuse all that follows. The server's is taken out of the event stream of a call, or of the stream on
    which it sends of its own accord: progress that seems to stand still, a changed list of tools that nobody
    hears of. Nobody is told, and nothing is sent again.
    """

    name = "lost_notification"
    family = "mcp"
    where = "mcp"
    messages: ClassVar[tuple[str, ...]] = (CALL, "notifications/*", "GET")

    method: str = Field("notifications/*", description="which notifications; * stands for anything")

    def act(self, tried: Try) -> Act | Miss:
        sent = read_message(tried.request.body)
        if sent is not None and sent.kind == "notification":
            lost = fnmatchcase(sent.method, self.method)
            return (
                Act(answer=_ACCEPTED, evidence={"lost": sent.method}) if lost else Miss("nothing_to_change")
            )
        return Act(events=partial(_Losing, self.method))


@dataclass
class _Losing:
    """Implements ``EventEditor``: takes notifications out of an event stream."""

    method: str
    ending: Ending = "keep"
    why_not: WhyNot | None = "nothing_to_change"
    evidence: dict[str, Any] = field(default_factory=lambda: {"lost": []})

    def event(self, data: bytes) -> Sequence[Step]:
        message = read_message(data_of(data))
        if message is None or message.kind != "notification" or not fnmatchcase(message.method, self.method):
            return (data,)
        self.why_not = None
        self.evidence["lost"] = [*self.evidence["lost"], message.method][:100]
        return ()

    def end(self) -> Sequence[Step]:
        return ()


class IgnoredCancel(Fault):
    """The client's cancellation goes nowhere: the server works on, and its answer comes all the same.

    A client that believes that cancelling undoes a write is wrong here. A client of the stateless era cancels
    over HTTP by closing the connection, without a message: that cannot be ignored here.
    """

    name = "ignored_cancel"
    family = "mcp"
    where = "mcp"
    messages: ClassVar[tuple[str, ...]] = (CANCELLED,)

    def act(self, tried: Try) -> Act | Miss:
        sent = read_message(tried.request.body)
        if sent is None or sent.method != CANCELLED:
            return Miss("nothing_to_change")
        return Act(answer=_ACCEPTED, evidence={"request": sent.params.get("requestId")})


class SlowProgress(ResponseFault):
    """The response is held back, while progress is reported again and again.

    It is for time limits that begin anew with every sign of progress: such a client may wait for ever. The
    server has done it at once. A request that asks for no progress is left alone.
    """

    name = "slow_progress"
    can_cause = TIMEOUT

    ms: float = Field(30_000, ge=0, le=600_000, description="milliseconds until the response")
    steps: int = Field(10, ge=1, le=1000, description="how many reports of progress come before it")

    def act(self, tried: Try) -> Act | Miss:
        asked = read_message(tried.request.body)
        if asked is None or asked.progress_token is None:
            return Miss("nothing_to_change")
        return super().act(tried)

    def sent(self, tried: Try, asked: McpMessage, response: McpMessage) -> Replacement:
        pause = self.ms / 1000 / self.steps
        steps: list[Any] = []
        for step in range(1, self.steps + 1):
            # the total is never reached: what is reported as done is not done
            said = {"progressToken": asked.progress_token, "progress": step, "total": self.steps + 1}
            steps += (pause, notification_message(PROGRESS, said))
        return Replacement([*steps, response.value], {"delay_ms": self.ms, "progress": self.steps})


_PRINTED = {
    "log": b"INFO: connected to the database\n",
    "json": b'{"level": "info", "message": "connected"}\n',
    "utf8": b"caf\xe9 \xff\xfe\n",
    "empty": b"\n",
}


class _LineFault(Fault):
    """Changes a line. Over HTTP a message has no line."""

    family = "mcp"
    where = "mcp"

    def act(self, tried: Try) -> Act | Miss:
        if not tried.lines:
            return Miss("not_a_line")
        return Act(reply=self._changed)

    def _changed(self, reply: Reply) -> Changed | Miss:
        raise NotImplementedError


class SplitLine(_LineFault):
    """The line of a response is cut in two. Over stdio alone.

    ``pause``: its second half comes later, which is nothing wrong: a pipe may do that. ``newline``: a line's
    end stands in its middle, so that two lines come that are no JSON. ``unfinished``: its second half never
    comes, and the next line continues it.
    """

    name = "split_line"
    can_cause = TIMEOUT

    kind: Literal["pause", "newline", "unfinished"] = Field("newline", description="how it is cut")
    ms: float = Field(1000, ge=0, le=600_000, description="milliseconds between the halves (pause)")

    def _changed(self, reply: Reply) -> Changed | Miss:
        line = line_of(reply.body)
        middle = len(line) // 2
        first, second = line[:middle], line[middle:]
        evidence = {"kind": self.kind, "cut_at": middle, "of": len(line)}
        if self.kind == "unfinished":
            return Changed(RawReply((first,), "keep"), evidence)
        between = self.ms / 1000 if self.kind == "pause" else b"\n"
        return Changed(RawReply((first, between, second), "keep"), evidence)


class GarbageLine(_LineFault):
    """A line that is no message comes before the response, as of a server that prints. Over stdio alone.

    ``log``: words. ``json``: JSON, but no JSON-RPC. ``utf8``: bytes that are no UTF-8. ``empty``: nothing. A
    correct client skips it.
    """

    name = "garbage_line"
    can_cause = TIMEOUT

    kind: Literal["log", "json", "utf8", "empty"] = Field("log", description="what it holds")

    def _changed(self, reply: Reply) -> Changed | Miss:
        return Changed(RawReply((_PRINTED[self.kind], line_of(reply.body)), "keep"), {"kind": self.kind})
