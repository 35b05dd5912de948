"""Faults of notifications and of lines on stdio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from wirefault.core.caller_errors import TIMEOUT
from wirefault.dialects.http import Ending, Reply, ReplyInPieces, Step, data_of
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
    """Drop a notification of the client or of the server.

    The client's is accepted with 202 and not forwarded; without ``notifications/initialized`` some servers
    refuse everything that follows. The server's is removed from a call's event stream or from the server's
    push stream: progress seems to stall, or a changed tool list goes unnoticed. Neither side gets an error.
    """

    name = "lost_notification"
    family = "mcp"
    where = "mcp"
    messages: ClassVar[tuple[str, ...]] = (CALL, "notifications/*", "GET")

    method: str = Field("notifications/*", description="pattern of the notification's method")

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
    """Implements ``EventEditor``: removes notifications from an event stream."""

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
    """Drop the client's cancellation: the server continues and still sends its response.

    For clients that assume that cancelling undoes a write. In the stateless protocol a client cancels over
    HTTP by closing the connection, without a message; this fault cannot ignore that.
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
    """Delay the response and keep reporting progress.

    For time limits that restart at every progress report: such a client may wait forever. The server has
    executed the call at once. Requests without a progress token pass.
    """

    name = "slow_progress"
    can_cause = TIMEOUT

    ms: float = Field(30_000, ge=0, le=600_000, description="milliseconds until the response")
    steps: int = Field(10, ge=1, le=1000, description="number of progress reports before it")

    def act(self, tried: Try) -> Act | Miss:
        asked = read_message(tried.request.body)
        if asked is None or asked.progress_token is None:
            return Miss("nothing_to_change")
        return super().act(tried)

    def sent(self, tried: Try, asked: McpMessage, response: McpMessage) -> Replacement:
        pause = self.ms / 1000 / self.steps
        steps: list[Any] = []
        for step in range(1, self.steps + 1):
            # the total is never reached: the reported progress is false
            said = {"progressToken": asked.progress_token, "progress": step, "total": self.steps + 1}
            steps += (pause, notification_message(PROGRESS, said))
        return Replacement([*steps, response.value], {"delay_ms": self.ms, "progress": self.steps})


_GARBAGE = {
    "log": b"INFO: connected to the database\n",
    "json": b'{"level": "info", "message": "connected"}\n',
    "utf8": b"caf\xe9 \xff\xfe\n",
    "empty": b"\n",
}


class _LineFault(Fault):
    """Changes a line on stdio; HTTP has no lines."""

    family = "mcp"
    where = "mcp"

    def act(self, tried: Try) -> Act | Miss:
        if not tried.lines:
            return Miss("not_a_line")
        return Act(reply=self._changed)

    def _changed(self, reply: Reply) -> Changed | Miss:
        raise NotImplementedError


class SplitLine(_LineFault):
    """Split a response's line in two; stdio only.

    ``pause``: the second half comes later, which pipes are allowed to do. ``newline``: a newline in the
    middle makes two lines of invalid JSON. ``unfinished``: the second half is dropped, and the next line is
    appended to the first half.
    """

    name = "split_line"
    can_cause = TIMEOUT

    kind: Literal["pause", "newline", "unfinished"] = Field("newline", description="how the line is split")
    ms: float = Field(1000, ge=0, le=600_000, description="milliseconds between the halves (pause)")

    def _changed(self, reply: Reply) -> Changed | Miss:
        line = line_of(reply.body)
        middle = len(line) // 2
        first, second = line[:middle], line[middle:]
        evidence = {"kind": self.kind, "cut_at": middle, "of": len(line)}
        if self.kind == "unfinished":
            return Changed(ReplyInPieces(None, (first,), "keep"), evidence)
        between = self.ms / 1000 if self.kind == "pause" else b"\n"
        return Changed(ReplyInPieces(None, (first, between, second), "keep"), evidence)


class GarbageLine(_LineFault):
    """Send a line that is not a message before the response, like a server that prints to stdout; stdio only.

    ``log``: a log line. ``json``: JSON that is not JSON-RPC. ``utf8``: invalid UTF-8. ``empty``: an empty
    line. A correct client skips it.
    """

    name = "garbage_line"
    can_cause = TIMEOUT

    kind: Literal["log", "json", "utf8", "empty"] = Field("log", description="content of the line")

    def _changed(self, reply: Reply) -> Changed | Miss:
        lines = _GARBAGE[self.kind], line_of(reply.body)
        return Changed(ReplyInPieces(None, lines, "keep"), {"kind": self.kind})
