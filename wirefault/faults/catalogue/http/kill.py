"""The fault of the subject itself: its process tree is killed at a point of the wire, and then resumed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from wirefault.core.caller_errors import CLOSED, TIMEOUT
from wirefault.dialects.http import Ending, Reply, ReplyInPieces, Step
from wirefault.faults.base import Act, Changed, Fault, Kill, KillPoint, Try, WhyNot


class KillSubject(Fault):
    """Kill the subject with all its processes at a point of the wire, then resume it in the same attempt.

    ``before_reply``: the upstream has executed the request, and its reply is not delivered yet: a crash
    between effect and reply. ``after_reply``: the reply is delivered, and no further request has come.
    ``mid_stream``: after some events of the model's reply. ``before_request``: the request never reaches its
    upstream; ``when: {nth: n}`` chooses it. The gateway holds the connection, and takes no other request,
    until all processes have ended. Then ``subject.resume`` runs (the same command without it) in the same
    world: a subject that starts anew repeats its writes. In one attempt it kills ``times`` times.
    """

    name = "kill_subject"
    family = "http"
    can_cause = CLOSED | TIMEOUT
    kills = True
    chooses = True  # after its last kill every try passes

    at: KillPoint = Field("before_reply", description="the point of the wire")
    after: int = Field(1, ge=0, le=10_000, description="mid_stream: number of events delivered first")
    signal: Literal["kill", "term"] = Field(
        "kill", description="SIGKILL, or SIGTERM and after ``grace`` SIGKILL"
    )
    grace: float = Field(3.0, ge=0, le=60, description="seconds from SIGTERM to SIGKILL")
    wait_ms: float = Field(
        50, ge=0, le=60_000, description="after_reply: milliseconds from the reply's last byte to the signal"
    )

    times: int = Field(1, ge=1, le=100, description="number of kills in one attempt")

    @property
    def max_kills(self) -> int:
        return self.times

    def act(self, tried: Try) -> Act:
        wait_s = self.wait_ms / 1000 if self.at == "after_reply" else 0.0
        kill = Kill(self.at, self.signal, self.grace, wait_s)
        evidence = {"at": self.at, "signal": self.signal}
        if self.at == "before_request":
            return Act(answer=ReplyInPieces(ending="hang"), kill=kill, evidence=evidence)
        if self.at == "mid_stream":
            return Act(events=partial(_StreamStop, self.after, evidence), kill=kill, evidence=evidence)
        return Act(reply=partial(self._held, evidence), kill=kill, evidence=evidence)

    def _held(self, evidence: dict[str, Any], reply: Reply) -> Changed:
        """Nothing of the reply, or all of it; the connection stays open until the subject is dead."""
        evidence = {**evidence, "upstream_status": reply.status}
        if self.at == "before_reply":
            return Changed(ReplyInPieces(ending="hang"), {**evidence, "lost_bytes": len(reply.body)})
        return Changed(ReplyInPieces(reply, (reply.body,), "hang", len(reply.body)), evidence)


class _StreamStop:
    """Stops an event stream after some events. Implements ``EventEditor``."""

    def __init__(self, after: int, evidence: dict[str, Any]) -> None:
        self.ending: Ending = "keep"
        self.why_not: WhyNot | None = "nothing_to_change"
        self.evidence = evidence
        self._after = after
        self._events = 0

    def event(self, data: bytes) -> Sequence[Step]:
        if self._events < self._after:
            self._events += 1
            return (data,)
        self.ending, self.why_not = "hang", None
        self.evidence = {**self.evidence, "events": self._events}
        return ()

    def end(self) -> Sequence[Step]:
        return ()
