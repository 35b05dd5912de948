"""The tries of an episode as their callers recorded them, matched with the gateway's record of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windtunnel.history.events import AttemptArmed, Event, Exchange, ModelCall, ToolTry
from windtunnel.judging.evidence.record import TryEvidence
from windtunnel.links.catalog import MODEL_LINK
from windtunnel.toxiproxy.toxics import ObservedTry

_Key = tuple[int, str, str, int, int]


@dataclass(frozen=True)
class SeenTry:
    """One try as its caller recorded it, at a tool or at the model, with the gateway's record of it."""

    attempt: int
    link: str
    fingerprint: str
    call: int
    try_: int
    ms: float
    timeout_ms: float
    status: int | None
    error: str | None
    route: str
    digest: str
    exchange: Exchange | None

    @property
    def lost(self) -> bool:
        """No valid reply came; any HTTP status is one."""
        return self.error is not None and not self.error.startswith("http_")

    @property
    def gave_up(self) -> bool:
        """It ended by the caller's own timeout."""
        return "timeout" in str(self.error).lower()

    @property
    def sighting(self) -> ObservedTry:
        there = self.exchange
        return ObservedTry(
            client_ms=self.ms,
            client_failed=self.lost,
            client_error=self.error if self.lost else None,
            client_timeout_ms=self.timeout_ms,
            gateway_ms=there.ms if there else 0.0,
            gateway_complete_request=bool(there and there.request_complete),
            gateway_complete_reply=bool(there and there.reply_complete),
            reply_bytes=there.reply_bytes if there else 0,
        )

    def evidence(self, shows: bool) -> TryEvidence:
        return TryEvidence(self.fingerprint, self.call, self.try_, self.error, shows)


@dataclass
class Records:
    """The records of one episode, tries matched with exchanges."""

    armed: list[AttemptArmed] = field(default_factory=list)
    seen: list[SeenTry] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)

    def crossing(self, attempt: int, link: str) -> list[SeenTry]:
        """The tries of that attempt that went through the link's proxy."""
        mine = [one for one in self.seen if (one.attempt, one.link) == (attempt, link)]
        return [one for one in mine if one.route == "proxy"]


def collect(events: Sequence[Event]) -> Records:
    """The records of one episode's events, which may come in any order."""
    exchanges = [event for event in events if isinstance(event, Exchange)]
    # the model's body is not hashed: on its link the ordinal alone is the key
    by_try = {(e.attempt, e.link, _print(e.link, e.fingerprint), e.call, e.try_): e for e in exchanges}
    records = Records([e for e in events if isinstance(e, AttemptArmed)], exchanges=exchanges)
    for event in events:
        if isinstance(event, (ToolTry, ModelCall)):
            records.seen.append(_seen(event, by_try))
    records.armed.sort(key=lambda one: one.attempt)
    records.seen.sort(key=repeatable_order)
    return records


def _seen(event: ToolTry | ModelCall, by_try: Mapping[_Key, Exchange]) -> SeenTry:
    if isinstance(event, ToolTry):
        key = (event.attempt, event.link, event.fingerprint, event.call, event.try_)
        timeout_ms, route = event.timeout_ms, str(event.route)
    else:
        key = (event.attempt, MODEL_LINK.name, "", event.ordinal, event.try_)
        timeout_ms, route = 0.0, "proxy"
    return SeenTry(
        *key,
        ms=event.ms,
        timeout_ms=timeout_ms,
        status=event.status,
        error=event.error,
        route=route,
        digest=event.reply_digest,
        exchange=by_try.get(key) if route == "proxy" else None,
    )


def repeatable_order(one: Exchange | SeenTry) -> tuple[int, str, str, int, int]:
    """The same in every run of one seed, whatever came first under parallel calls."""
    return one.attempt, one.link, one.fingerprint, one.call, one.try_


def _print(link: str, fingerprint: str) -> str:
    return "" if link == MODEL_LINK.name else fingerprint
