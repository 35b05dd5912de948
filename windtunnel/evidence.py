"""How far each fault of an episode came: drawn, armed, met, injected, observed. Pure.

Toxiproxy keeps no record of the requests that a toxic touched, so for toxics *injected* is taken from the
caller's record too: the same as *observed*. For the gateway's faults the exchange is the record of the
injector. A fault is *delivered* when it was observed by a caller that kept a record of the try, or, where
none did, when it was injected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from proxy_manager.toxics import Sighting, toxic
from windtunnel.catalog import MODEL_LINK
from windtunnel.events import (
    AttemptArmed,
    Event,
    Exchange,
    FaultMet,
    ModelCall,
    ToolTry,
)
from windtunnel.schedule import PlannedToxic

Stage = Literal["drawn", "armed", "met", "injected", "observed"]


@dataclass(frozen=True)
class TryEvidence:
    """One try that met a fault, and whether it shows the fault's signature. ``error`` is the caller's."""

    fingerprint: str
    call: int
    try_: int
    error: str | None
    shows: bool


@dataclass(frozen=True)
class FaultRecord:
    """One fault and how far it came.

    ``source``: a toxic, ``ERROR_PROB`` (``error``) or a fault set's entry ``id``. ``attributes``: a toxic's,
    or the evidence of what the gateway did. ``why_not`` says why it was not observed: ``not_exercised`` (no
    request crossed it), ``not_seen`` (the caller's record does not show it), ``unknown_kind`` (this version
    knows no such toxic), or why the gateway did not inject it.
    """

    link: str
    kind: str
    stream: str | None
    attempt: int
    attributes: Mapping[str, Any]
    source: Literal["toxic", "error", "fault"]
    drawn: bool
    armed: bool
    met: bool
    injected: bool
    observed: bool
    delivered: bool
    why_not: str | None = None
    tries: tuple[TryEvidence, ...] = ()
    id: str = ""

    @property
    def stage(self) -> Stage:
        """How far it came."""
        if self.observed:
            return "observed"
        return "injected" if self.injected else "met" if self.met else "armed" if self.armed else "drawn"

    def as_dict(self) -> dict[str, Any]:
        """For JSON; free of times, so that it can be compared between two runs of one seed."""
        return asdict(self) | {"stage": self.stage, "tries": [asdict(one) for one in self.tries]}


@dataclass(frozen=True)
class Unexplained:
    """A try that failed although no fault of the lab explains it."""

    attempt: int
    link: str
    call: int
    try_: int
    error: str
    route: str


@dataclass(frozen=True)
class Evidence:
    faults: tuple[FaultRecord, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()


_Key = tuple[int, str, str, int, int]


@dataclass(frozen=True)
class _Seen:
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
    def sighting(self) -> Sighting:
        there = self.exchange
        return Sighting(
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
class _Records:
    """The records of one episode, tries matched with exchanges."""

    armed: list[AttemptArmed] = field(default_factory=list)
    seen: list[_Seen] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)

    def crossing(self, attempt: int, link: str) -> list[_Seen]:
        """The tries of that attempt that went through the link's proxy."""
        mine = [one for one in self.seen if (one.attempt, one.link) == (attempt, link)]
        return [one for one in mine if one.route == "proxy"]


def gather(events: Iterable[Event]) -> Evidence:
    """The evidence of one episode's events, which may come in any order."""
    records = _collect(list(events))
    toxics = [_toxic(records, one.attempt, plan) for one in records.armed for plan in one.toxics]
    faulted = sorted((one for one in records.exchanges if one.faults), key=_order)
    faults = [_fault(records, one, met) for one in faulted for met in one.faults]
    return Evidence((*toxics, *faults), tuple(_unexplained(records)))


def _collect(events: Sequence[Event]) -> _Records:
    exchanges = [event for event in events if isinstance(event, Exchange)]
    # the model's body is not hashed: on its link the ordinal alone is the key
    by_try = {(e.attempt, e.link, _print(e.link, e.fingerprint), e.call, e.try_): e for e in exchanges}
    records = _Records([e for e in events if isinstance(e, AttemptArmed)], exchanges=exchanges)
    for event in events:
        if isinstance(event, (ToolTry, ModelCall)):
            records.seen.append(_seen(event, by_try))
    records.armed.sort(key=lambda one: one.attempt)
    records.seen.sort(key=_order)
    return records


def _seen(event: ToolTry | ModelCall, by_try: Mapping[_Key, Exchange]) -> _Seen:
    if isinstance(event, ToolTry):
        key = (event.attempt, event.link, event.fingerprint, event.call, event.try_)
        timeout_ms, route = event.timeout_ms, str(event.route)
    else:
        key = (event.attempt, MODEL_LINK.name, "", event.ordinal, event.try_)
        timeout_ms, route = 0.0, "proxy"
    return _Seen(
        *key,
        ms=event.ms,
        timeout_ms=timeout_ms,
        status=event.status,
        error=event.error,
        route=route,
        digest=event.reply_digest,
        exchange=by_try.get(key) if route == "proxy" else None,
    )


def _order(one: Exchange | _Seen) -> tuple[int, str, str, int, int]:
    """The same in every run of one seed, whatever came first under parallel calls."""
    return one.attempt, one.link, one.fingerprint, one.call, one.try_


def _print(link: str, fingerprint: str) -> str:
    return "" if link == MODEL_LINK.name else fingerprint


def _toxic(records: _Records, attempt: int, plan: PlannedToxic) -> FaultRecord:
    crossing = records.crossing(attempt, plan.link)
    reached = any((e.attempt, e.link) == (attempt, plan.link) for e in records.exchanges)
    shown = [_shows(plan, one) for one in crossing]
    observed = any(shown)
    why_not: str | None = None
    if None in shown:
        why_not = "unknown_kind"
    elif not observed:
        why_not = "not_seen" if crossing or reached else "not_exercised"
    return FaultRecord(
        link=plan.link,
        kind=plan.kind,
        stream=plan.stream,
        attempt=attempt,
        attributes=dict(plan.attributes),
        source="toxic",
        drawn=True,
        armed=True,
        met=bool(crossing) or reached,
        injected=observed,
        observed=observed,
        delivered=observed,
        why_not=why_not,
        tries=tuple(one.evidence(bool(sign)) for one, sign in zip(crossing, shown, strict=True)),
    )


def _shows(plan: PlannedToxic, seen: _Seen) -> bool | None:
    """Whether the try shows the toxic; None if this version cannot tell, for it knows no such toxic."""
    try:
        known = toxic(plan.kind)
        attributes = known.complete(plan.attributes)
    except ValueError:
        return None
    return known.observed(plan.stream, attributes, seen.sighting)


def _fault(records: _Records, exchange: Exchange, met: FaultMet) -> FaultRecord:
    """A fault that the gateway drew for a try that was made."""
    caller = [one for one in records.seen if one.exchange is exchange]
    shown = [met.injected and _sees(one, met) for one in caller]
    observed = any(shown)
    silent = observed or met.shows is None  # what a caller cannot see is no fault of its record
    return FaultRecord(
        link=exchange.link,
        kind=met.kind,
        stream=None,
        attempt=exchange.attempt,
        attributes={key: value for key, value in met.evidence.items() if key != "kind" or met.id},
        source="fault" if met.id else "error",
        drawn=True,
        armed=True,
        met=True,
        injected=met.injected,
        observed=observed,
        delivered=observed if caller and met.shows is not None else met.injected,
        why_not=met.why_not or (None if silent else "not_seen"),
        tries=tuple(one.evidence(shows) for one, shows in zip(caller, shown, strict=True)),
        id=met.id,
    )


def _sees(seen: _Seen, met: FaultMet) -> bool:
    """Whether the caller's record of the try shows what the gateway did."""
    shows = met.shows or {}
    delay = float(shows.get("delay_ms", 0.0))
    patience = seen.timeout_ms or (seen.ms if "timeout" in str(seen.error).lower() else delay)
    if not shows or seen.ms < 0.9 * min(delay, patience):
        return False
    if delay > patience and seen.lost:
        return True  # it gave up before the rest could come
    if "lost" in shows:
        return seen.lost
    digest = shows.get("digest", "")
    return "status" not in shows or (seen.status == shows["status"] and seen.digest in ("", digest))


def _unexplained(records: _Records) -> Iterable[Unexplained]:
    plans = {(one.attempt, plan.link): plan for one in records.armed for plan in one.toxics}
    for one in records.seen:
        plan = plans.get((one.attempt, one.link)) if one.route == "proxy" else None
        if one.error is not None and not _explained(one, plan):
            yield Unexplained(one.attempt, one.link, one.call, one.try_, one.error, one.route)


def _explained(seen: _Seen, plan: PlannedToxic | None) -> bool:
    """By the gateway's fault, by the link's toxic, or because the service itself refused (4xx, not 429)."""
    faults = seen.exchange.faults if seen.exchange else []
    if any(_explains(met, seen) for met in faults if met.injected):
        return True
    if seen.lost:
        return plan is not None and bool(_shows(plan, seen))
    return seen.status is not None and 400 <= seen.status < 500 and seen.status != 429


def _explains(met: FaultMet, seen: _Seen) -> bool:
    """A request that was changed may fail in any way; of a reply that was, nothing may have arrived."""
    if met.shows is None or _sees(seen, met):
        return True
    return seen.lost and ("status" in met.shows or "lost" in met.shows)
