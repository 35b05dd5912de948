"""Events of the runner about the processes and connections of the subject."""

from __future__ import annotations

from typing import Literal

from wirefault.core.sockets import Address
from wirefault.history.lines import BaseEvent, Clock


class SubjectKilled(BaseEvent, frozen=True, tag="subject_killed"):
    """The runner killed the subject's process tree at a point of the wire (fault ``kill_subject``)."""

    t: Clock
    episode: str
    attempt: int
    number: int  # among the attempt's kills, from 1
    link: str
    entry: str  # id of the fault set's entry
    point: str  # as the fault's ``at``
    signal: Literal["kill", "term"]
    dead: bool  # all its processes have ended
    ms: Clock  # from the gateway's order to the last process's end


class SubjectResumed(BaseEvent, frozen=True, tag="subject_resumed"):
    """The subject runs again after a kill, in the same attempt and the same world."""

    t: Clock
    episode: str
    attempt: int
    number: int  # of the kill
    command: str  # that resumed it, without secrets


_ONLY_HTTP2 = (
    "its client speaks only HTTP/2, as gRPC does: no fault of single requests can act on it; make it speak"
    " HTTP/1.1 (for gRPC, the server's REST interface)"
)


ONLY_HTTP2 = f"{_ONLY_HTTP2}, or let it pass (--pass)"
"""Reason why an intercepted connection was not read, and what helps."""


class PipeServer(BaseEvent, frozen=True, tag="pipe_server"):
    """The subject started an MCP server over a pipe past the lab: no fault can act on its messages.

    The runner polls for them: one that is not named so may be missing.
    """

    t: Clock
    episode: str
    attempt: int
    # program and script
    command: str

    @property
    def text(self) -> str:
        """Return what it is and what helps, as a clause."""
        return f"MCP server over a pipe ({self.command}): wirefault mcp --config FILE"


class WentPastLab(BaseEvent, frozen=True, tag="went_past_lab"):
    """The subject's program opened ``count`` connections to ``host`` whose requests the lab did not see.

    The runner polls for connections that no link carried: short ones may be missing. The ingress and the
    gateway record connections that they pass on unread.
    """

    t: Clock
    episode: str
    attempt: int
    host: str
    port: int
    protocol: Literal["tcp", "udp"]
    program: str
    count: int
    # recorded by the gateway: the link that carried it unread, whose toxics could act
    link: str = ""
    only_http2: bool = False  # its client speaks only HTTP/2
    # bytes from and to the subject, recorded by the ingress and the gateway
    sent: int | None = None
    received: int | None = None

    @property
    def text(self) -> str:
        """Return program and destination, as part of a sentence."""
        how = " by UDP" if self.protocol == "udp" else " over HTTP/2" if self.only_http2 else ""
        often = f" ({self.count} connections)" if self.count > 1 else ""
        link = f" (link {self.link})" if self.link else ""
        return f"{self.program} to {Address(self.host, self.port)}{link}{how}{often}"

    @property
    def sentence(self) -> str:
        """Return a sentence with the event, and for HTTP/2 with the reason and what helps."""
        if self.only_http2:
            why = _ONLY_HTTP2 if self.link else ONLY_HTTP2
            return f"connection whose requests the lab cannot read: {self.text}: {why}"
        return f"connection bypassed the lab: {self.text}"
