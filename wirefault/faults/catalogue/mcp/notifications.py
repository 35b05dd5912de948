"""Messages that nobody answers: lost, ignored, or many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, ClassVar

from pydantic import Field

from wirefault.core.caller_errors import TIMEOUT
from wirefault.dialects.http import Ending, Reply, Step, data_of
from wirefault.dialects.mcp import (
    CALL,
    CANCELLED,
    PROGRESS,
    McpMessage,
    notification_message,
    read_message,
)
from wirefault.faults.base import Act, Fault, Miss, Try, WhyNot
from wirefault.faults.catalogue.mcp.base import Replacement, ResponseFault

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
