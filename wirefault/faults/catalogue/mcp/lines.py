"""Lines of stdio that are no messages: one that is cut, one that a server printed by mistake."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wirefault.core.caller_errors import TIMEOUT
from wirefault.dialects.http import RawReply, Reply
from wirefault.dialects.mcp import line_of
from wirefault.faults.base import Act, Changed, Fault, Miss, Try

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
