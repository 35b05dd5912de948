"""Determine whether a run is reproducible from its seed, and if not, why not. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, product
from typing import Any

from wirefault.dialects.mcp import MCP
from wirefault.faults.base import BUDGET_ID
from wirefault.faults.sets.fault_set import FaultSetError
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    BudgetSpent,
    Event,
    Exchange,
    FaultsSet,
    LateRequest,
    RecoveryTried,
    ToolCalled,
)
from wirefault.judging.judge import RunJudgement
from wirefault.judging.oracle.validity import who_failed
from wirefault.settings.settings import timeout_setting
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic

_CallKey = tuple[str, int, str, str, int]


class CallsAtOnce:
    """The concurrent requests of a run, whose order of arrival is chance.

    Two requests are concurrent if they overlapped, or if the model asked for both in one reply: a fast one
    may end before the other starts, but their order could have been reversed.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._replies = {_key(event): event.reply for event in events if isinstance(event, ToolCalled)}

    def are(self, exchange: Exchange, other: Exchange) -> bool:
        """Whether these two requests of one attempt are concurrent."""
        if exchange.start < _end(other) and other.start < _end(exchange):
            return True
        reply = self._reply(exchange)
        return reply is not None and reply == self._reply(other) and _key(exchange) != _key(other)

    def among(self, exchanges: Iterable[Exchange]) -> list[Exchange]:
        """The requests of one attempt that are concurrent with another. Tries of one call do not count."""
        ordered = sorted(exchanges, key=lambda exchange: exchange.start)
        ends = accumulate((_end(exchange) for exchange in ordered), max)
        after = {id(later) for later, end in zip(ordered[1:], ends, strict=False) if later.start < end}
        before = {id(earlier) for earlier, later in pairwise(ordered) if later.start < _end(earlier)}
        calls: defaultdict[int | None, set[_CallKey]] = defaultdict(set)
        for exchange in ordered:
            calls[self._reply(exchange)].add(_key(exchange))
        parallel = {reply for reply, keys in calls.items() if reply is not None and len(keys) > 1}
        return [e for e in ordered if id(e) in after | before or self._reply(e) in parallel]

    def _reply(self, exchange: Exchange) -> int | None:
        """The model's reply that asked for the call; None if the history does not have it."""
        return self._replies.get(_key(exchange))


def calls_in(events: Iterable[Event]) -> Iterator[Exchange]:
    """The requests whose order may matter.

    On MCP links these are the tool calls, on which faults act; the server's stream is always open.
    """
    for event in events:
        if isinstance(event, Exchange) and (event.dialect != MCP.name or event.tool):
            yield event


def _key(event: Exchange | ToolCalled) -> _CallKey:
    return event.episode, event.attempt, event.link, event.fingerprint, event.call


def _end(exchange: Exchange) -> float:
    return exchange.start + exchange.ms / 1000


NEAR = 0.2
_MODEL_BUDGETS = ("tokens", "cost")
_WHICH = "the order decides which one"
_BY_CLOCK = ("time", "memory", "requests_a_minute", "concurrent")


def obstacles(judgement: RunJudgement) -> list[str]:
    """List everything in the run that depended on order, on the clock or on an unscripted model."""
    return [*_ends(judgement), *what_decides(judgement)]


def what_decides(judgement: RunJudgement) -> list[str]:
    """List the obstacles without the reasons why the run ended early: another run may have completed it."""
    events = judgement.events
    at_once = CallsAtOnce(events)
    reasons = [
        *_subject(judgement),
        *_toxics(judgement, events),
        *_clock(judgement, events),
        *_late(events),
        *_recoveries(events),
        *_order(events),
        *_triggers(judgement, events, at_once),
        *_delays(judgement, events),
        *_radius(events, at_once),
        *_budgets(events, at_once),
    ]
    return list(dict.fromkeys(reasons))


def _subject(judgement: RunJudgement) -> Iterator[str]:
    if judgement.started.subject_kind:
        yield "the subject is opaque: the faults repeat, but its behaviour may not"
    elif judgement.started.settings.get("model", "scripted") not in ("scripted", "replay"):
        yield "the model is not scripted: the faults repeat, but its answers may not"


def _ends(judgement: RunJudgement) -> Iterator[str]:
    finished = judgement.finished
    if finished is None or not finished.completed:
        yield "the run did not complete"
    reasons = [episode.why for episode in judgement.episodes if episode.outcome == "invalid"]
    if reasons:
        yield f"{who_failed(reasons)} failed in {len(reasons)} of {len(judgement.episodes)} episodes"


def _late(events: Sequence[Event]) -> Iterator[str]:
    count = sum(isinstance(event, LateRequest) for event in events)
    if count:
        requests = "1 request" if count == 1 else f"{count} requests"
        yield f"{requests} of an earlier attempt came late and met a later attempt's faults"


_BY_THE_CLOCK = ("breaker", "deadline", "hedge")


def _recoveries(events: Sequence[Event]) -> Iterator[str]:
    """Strategies of RECOVERY that decide by the clock whether a request is sent."""
    tried = {event.strategy for event in events if isinstance(event, RecoveryTried)}
    for strategy in _BY_THE_CLOCK:
        if strategy in tried:
            yield f"the strategy {strategy} decides by the clock which requests are sent"


def _toxics(judgement: RunJudgement, events: Sequence[Event]) -> Iterator[str]:
    for armed in events:
        if isinstance(armed, AttemptArmed):
            for planned in armed.toxics:
                yield from _toxic(planned, _client_ms(judgement, planned.link))


def _client_ms(judgement: RunJudgement, link: str) -> float:
    """The timeout of the link's client; 0 if it is unknown, as for opaque subjects."""
    if judgement.started.subject_kind:
        return 0.0
    settings = judgement.started.settings
    name = timeout_setting(link, str(settings.get("translator_backend", "offline")))
    return 1000 * float(settings.get(name, 0))


def _toxic(planned: PlannedToxic, client_ms: float) -> Iterator[str]:
    try:
        known = toxic(planned.kind)
        attributes = known.complete(planned.attributes)
    except ValueError as error:
        yield f"this version does not know a toxic of the run: {error}"
        return
    if planned.during is not None and planned.during.unit == "s":
        yield f"{planned.kind} depends on the clock: it is active {planned.during}"
    elif planned.seconds:
        yield f"{planned.kind} depends on the clock: it lasts {planned.seconds:g} s"
    jitter_ms, ms = known.jitter_ms(attributes), known.fixed_delay_ms(attributes)
    if jitter_ms > 0:
        yield f"{planned.kind} has jitter ({jitter_ms} ms)"
    if ms and client_ms and abs(ms - client_ms) <= NEAR * client_ms:
        yield f"a {planned.kind} of {ms} ms is within 20 % of the client's timeout, {client_ms:g} ms"


def _clock(judgement: RunJudgement, events: Sequence[Event]) -> Iterator[str]:
    limit_ms = 1000 * float(judgement.started.settings.get("attempt_time", 0))
    ended = [event for event in events if isinstance(event, AttemptEnded)]
    if limit_ms and any(attempt.ended_by == "limit" and attempt.ms >= limit_ms for attempt in ended):
        yield f"an attempt was ended by its time limit, {limit_ms / 1000:g} s"
    for event in events:
        if isinstance(event, FaultsSet):
            yield f"faults were set while it ran (configuration {event.number})"


def _order(events: Sequence[Event]) -> Iterator[str]:
    counted = sorted(
        (exchange for exchange in calls_in(events) if exchange.identity == "counted"),
        key=lambda exchange: (exchange.episode, exchange.attempt, exchange.link, exchange.start),
    )
    for earlier, later in pairwise(counted):
        same = (earlier.episode, earlier.attempt, earlier.link) == (later.episode, later.attempt, later.link)
        if same and later.start < earlier.start + earlier.ms / 1000:
            yield "requests that did not name themselves were counted while they overlapped"


def _triggers(judgement: RunJudgement, events: Sequence[Event], at_once: CallsAtOnce) -> Iterator[str]:
    """Triggers that depend on the clock, or that count concurrent calls."""
    crowded = {
        link
        for (_, _, link), exchanges in _by(events, "episode", "attempt", "link").items()
        if at_once.among(exchanges)
    }
    counting: dict[str, list[str]] = {}
    try:
        faults = read_canonical(str(judgement.started.settings.get("faults", ""))).on(judgement.started.wired)
    except FaultSetError:  # the account of the faults reports it
        return
    for entry in faults.faults:
        if entry.when.window is not None:
            yield f"{entry.id} depends on the clock (window)"
        if entry.dose.by_clock:
            yield f"{entry.id} depends on the clock ({'during' if entry.dose.during else 'duration'})"
        links = sorted(crowded & set(entry.links))
        if links and (entry.when.counts or entry.fault.by_order or entry.dose.by_calls):
            counting.setdefault(", ".join(links), []).append(entry.id)
    for drawn in faults.toxics:
        links = sorted(crowded & set(drawn.links))
        if links and drawn.dose.by_calls:
            counting.setdefault(", ".join(links), []).append(drawn.id)
    for names, ids in counting.items():
        count = "counts" if len(ids) == 1 else "count"
        yield f"{', '.join(ids)} {count} calls, and some to {names} were made at once"


def _delays(judgement: RunJudgement, events: Sequence[Event]) -> Iterator[str]:
    """Injected delays close to the client's timeout: chance decides which ends first."""
    for exchange in events:
        if isinstance(exchange, Exchange):
            client_ms = _client_ms(judgement, exchange.link)
            for fault in exchange.faults:
                if fault.injected and fault.delay_ms and abs(fault.delay_ms - client_ms) <= NEAR * client_ms:
                    yield f"a delay by {fault.id} was within 20 % of the client's timeout, {client_ms:g} ms"


def _radius(events: Sequence[Event], at_once: CallsAtOnce) -> Iterator[str]:
    """Concurrent calls inside and outside a blast radius: chance decided which were inside."""
    for exchanges in _by(events, "episode", "attempt").values():
        faulted = [
            exchange for exchange in exchanges if any(not fault.of_budget for fault in exchange.faults)
        ]
        outside = [
            exchange for exchange in faulted if any(f.why_not == "outside_radius" for f in exchange.faults)
        ]
        inside = [exchange for exchange in faulted if exchange not in outside]
        if any(at_once.are(*pair) for pair in product(inside, outside)):
            yield f"one of several concurrent calls used up the blast radius: {_WHICH}"


def _budgets(events: Sequence[Event], at_once: CallsAtOnce) -> Iterator[str]:
    """Budgets that depended on the clock or on other episodes, or acted on one of several requests."""
    for event in events:
        if isinstance(event, BudgetSpent):
            yield from _budget(event.budget, "was used up")
    for exchanges in _by(events, "episode", "attempt").values():
        if not any(fault.of_budget for exchange in exchanges for fault in exchange.faults):
            continue
        crowded = at_once.among(exchanges)
        crowded_models = at_once.among(e for e in exchanges if e.of_model)
        for exchange, fault in ((e, f) for e in exchanges for f in e.faults if f.of_budget and f.injected):
            budget = fault.id.removeprefix(BUDGET_ID)
            if fault.delay_ms:
                yield from _budget(budget, "slowed requests")
            if exchange in (crowded_models if budget.partition(".")[2] in _MODEL_BUDGETS else crowded):
                yield f"the budget {budget} acted on one of several concurrent requests: {_WHICH}"


def _budget(budget: str, effect: str) -> Iterator[str]:
    scope, _, name = budget.partition(".")
    if name in _BY_CLOCK:
        yield f"the budget {budget} depends on the clock, and {effect}"
    elif scope == "run":
        yield f"the budget {budget} {effect}: the order of the episodes decides which one is affected"


def _by(events: Iterable[Event], *names: str) -> Mapping[tuple[Any, ...], list[Exchange]]:
    """Group the requests whose order may matter by these fields."""
    groups: defaultdict[tuple[Any, ...], list[Exchange]] = defaultdict(list)
    for exchange in calls_in(events):
        groups[tuple(getattr(exchange, name) for name in names)].append(exchange)
    return groups
