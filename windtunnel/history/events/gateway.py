"""What the gateway writes (``gateway-<lane>.jsonl``): every request, and the faults that it has met."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from windtunnel.faults.base import WhyNot


@dataclass(frozen=True)
class FaultMet:
    """A fault that one request has met, and what became of it.

    ``id`` is its entry's in the fault set, empty for ``ERROR_PROB``. ``why_not``: why it was not injected;
    ``detail``: of one that failed, the exception's type. ``delay_ms``: what it really added, as measured.
    ``shows``: what the caller must have seen if it was delivered (``status`` and ``digest`` of the body,
    ``lost``, ``closed`` if the connection was closed on it, ``delay_ms``); None if it cannot see it.
    ``content``: the caller got a body that the upstream did not give to this request.
    """

    id: str
    kind: str
    injected: bool
    why_not: WhyNot | None = None
    detail: str = ""
    delay_ms: float = 0.0
    shows: dict[str, Any] | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    content: bool = False


@dataclass(frozen=True)
class Exchange:
    """One request as the gateway saw it; ``ms`` from its first request byte to its last reply byte.

    Where it got no reply, ``ms`` is to its end.

    ``identity``: ``baggage`` if the request named itself, ``counted`` if the gateway counted arrivals,
    ``mismatch`` if what it said was not the lane's attempt. ``forwarded`` tells whether the upstream got
    the whole request. ``status`` and the sizes are those of what crossed the client's side. ``faults`` are
    those that it has met, in the order of their set; ``configuration`` is the number of that set.
    ``eligible``: the ids of armed faults whose selectors chose it by a header or its body, met or not.
    """

    start: float
    run: str
    episode: str
    attempt: int
    link: str
    method: str
    target: str
    fingerprint: str
    call: int
    try_: int
    identity: Literal["baggage", "counted", "mismatch"]
    ms: float
    status: int | None
    request_complete: bool
    reply_complete: bool
    forwarded: bool
    request_bytes: int
    reply_bytes: int
    faults: list[FaultMet] = field(default_factory=list)
    configuration: int = 0
    error: str | None = None
    eligible: list[str] = field(default_factory=list)
    event: Literal["exchange"] = "exchange"


@dataclass(frozen=True)
class FaultsSet:
    """A fault set took the place of the one before, from the next request of this attempt on.

    ``number`` counts the configurations of the lab; exchanges name the one that they were decided under.
    ``entries``: the ids of the set's faults and toxics.
    """

    t: float
    episode: str
    attempt: int
    number: int
    faults: str
    entries: list[str]
    event: Literal["faults_set"] = "faults_set"
