"""The server or its stream ends before the response is there."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, TIMEOUT, ErrorKind
from wirefault.dialects.http import Ending, RawReply, json_reply
from wirefault.dialects.mcp import (
    INITIALIZE,
    INVALID_REQUEST,
    SESSION_HEADER,
    McpMessage,
    error_message,
    read_message,
)
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.catalogue.mcp.base import Replacement, ResponseFault


class EndedStream(ResponseFault):
    """The event stream of a call ends, and the response has not come. The server has done it.

    ``before_id``: nothing came by which the client could go on. ``after_id``: the stream gave an event's id
    first, so that a client of the session era asks for the rest by GET with ``Last-Event-ID``; a server that
    never gave that id has nothing to say to it. ``ending``: in order (``keep``: the stream is over, the
    connection stays), a closed or a reset connection. Over stdio there are no events to go on from, and
    ``close`` is the end of the server's output.
    """

    name = "ended_stream"
    can_cause = CLOSED | TIMEOUT

    at: Literal["before_id", "after_id"] = Field("before_id", description="where it ends")
    ending: Literal["keep", "close", "reset"] = Field("keep", description="how")
    id: str = Field("wirefault-1", pattern=r"^[!-~]+$", description="the id of the event (after_id)")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return self.can_cause if self.ending != "keep" else TIMEOUT

    def sent(self, tried: Try, asked: McpMessage, response: McpMessage) -> Replacement:
        # an empty event with an id, as servers send it to begin a stream that can be resumed
        given = [b"id: " + self.id.encode() + b"\ndata: \n\n"] if self.at == "after_id" else []
        ending: Ending = self.ending
        return Replacement(given or [b": nothing\n\n"], {"at": self.at, "lost": response.id}, ending)


class ServerDeath(Fault):
    """The server dies in a call and is started anew, and has forgotten its sessions.

    It counts the logical calls that it may strike, by link and episode: the first finds its connection closed
    (the server has done it, if ``executed``), the next ``down`` ones find nobody there, and the ``forgets``
    ones after them are told that their session is unknown, unless they begin a new one or need none.

    Over stdio the first kills the server, and the client reads the end of its output. A server is started
    anew when the client starts it, as after any death: the session ended with the stream, and one that was
    started behind the client's back would be silent where it died, and not know that it was initialised. No
    SDK starts one by itself. In each of the ``down`` calls a server that was started anew is killed, too.
    """

    name = "server_death"
    family = "mcp"
    where = "mcp"
    chooses = True
    can_cause = CLOSED | {"http_4xx"}

    executed: bool = Field(True, description="whether the server does what it dies of")
    down: int = Field(1, ge=0, le=10_000, description="calls while nobody is there")
    forgets: int = Field(1000, ge=0, le=10_000, description="calls whose sessions are unknown then")

    @property
    def by_order(self) -> bool:
        return True

    def act(self, tried: Try) -> Act | Miss | None:
        place = tried.ordinal - 1
        if place == 0 and self.executed:
            lost = Changed(RawReply(ending="close"), {"died": True})
            return Act(reply=lambda reply: lost)
        if place <= self.down:
            return Act(answer=RawReply(ending="close"), evidence={"died": place == 0})
        return _unknown(tried) if place <= self.down + self.forgets else None


def _unknown(tried: Try) -> Act | None:
    asked = read_message(tried.request.body)
    if asked is None or asked.method == INITIALIZE or not tried.request.header(SESSION_HEADER):
        return None
    error = error_message(asked.id, INVALID_REQUEST, "Session not found")
    return Act(answer=json_reply(404, error), evidence={"status": 404})
