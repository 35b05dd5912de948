"""Whether a run would come out the same again from its seed; if not, why not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from windtunnel.dialects.mcp import MCP
from windtunnel.faults.sets.canonical import read_canonical
from windtunnel.faults.sets.fault_set import FaultSetError
from windtunnel.history.events import AttemptArmed, AttemptEnded, Event, Exchange, FaultsSet
from windtunnel.judging.judge import RunJudgement
from windtunnel.settings.settings import timeout_setting
from windtunnel.toxiproxy.planned import PlannedToxic
from windtunnel.toxiproxy.toxics import toxic

NEAR = 0.2


def obstacles(judgement: RunJudgement, events: Iterable[Event]) -> list[str]:
    """What in the run depended on order, on the clock or on a model that is not the lab's; none is best."""
    events = list(events)
    reasons = [
        *_run(judgement),
        *_toxics(judgement, events),
        *_clock(judgement, events),
        *_order(events),
        *_triggers(judgement, events),
        *_delays(judgement, events),
    ]
    return list(dict.fromkeys(reasons))


def _run(judgement: RunJudgement) -> Iterator[str]:
    settings, finished = judgement.started.settings, judgement.finished
    if judgement.started.subject_kind:
        yield "the subject is opaque: the faults repeat, what it does may not"
    elif settings.get("model", "scripted") not in ("scripted", "replay"):
        yield "the model is not the scripted one: the faults repeat, its answers may not"
    if finished is None or not finished.completed:
        yield "the run did not complete"
    invalid = sum(episode.outcome == "invalid" for episode in judgement.episodes)
    if invalid:
        yield f"the lab failed in {invalid} of {len(judgement.episodes)} episodes"


def _toxics(judgement: RunJudgement, events: Sequence[Event]) -> Iterator[str]:
    for armed in events:
        if isinstance(armed, AttemptArmed):
            for planned in armed.toxics:
                yield from _toxic(planned, _client_ms(judgement, planned.link))


def _client_ms(judgement: RunJudgement, link: str) -> float:
    """How long the client of that link waited, 0 if nobody knows.

    An older history knows one time for all tools; an opaque subject has limits of its own.
    """
    if judgement.started.subject_kind:
        return 0.0
    settings = judgement.started.settings
    name = timeout_setting(link, str(settings.get("translator_backend", "offline")))
    return 1000 * float(settings.get(name, settings.get("tool_timeout", 0)))


def _toxic(planned: PlannedToxic, client_ms: float) -> Iterator[str]:
    try:
        known = toxic(planned.kind)
        attributes = known.complete(planned.attributes)
    except ValueError as error:
        yield f"this version does not know a toxic of the run: {error}"
        return
    if planned.seconds:
        yield f"{planned.kind} goes by the clock: it lasts {planned.seconds:g} s"
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


def _calls(events: Iterable[Event]) -> Iterator[Exchange]:
    """The requests whose order may matter: of MCP the calls of tools, since faults strike these, and a stream
    of what the server says is open beside them all."""
    for event in events:
        if isinstance(event, Exchange) and (event.dialect != MCP.name or event.tool):
            yield event


def _order(events: Sequence[Event]) -> Iterator[str]:
    counted = sorted(
        (exchange for exchange in _calls(events) if exchange.identity == "counted"),
        key=lambda exchange: (exchange.episode, exchange.attempt, exchange.link, exchange.start),
    )
    for earlier, later in pairwise(counted):
        same = (earlier.episode, earlier.attempt, earlier.link) == (later.episode, later.attempt, later.link)
        if same and later.start < earlier.start + earlier.ms / 1000:
            yield "requests that did not name themselves were counted while they overlapped"


def _triggers(judgement: RunJudgement, events: Sequence[Event]) -> Iterator[str]:
    """Triggers that go by the clock, or that count where the order of arrival is chance."""
    crowded = set(_overlapping(events))
    counting: dict[str, list[str]] = {}
    try:
        faults = read_canonical(str(judgement.started.settings.get("faults", ""))).on(judgement.started.wired)
    except FaultSetError:  # the account of the faults says so
        return
    for entry in faults.faults:
        if entry.when.window is not None:
            yield f"{entry.id} goes by the clock (window)"
        links = sorted(crowded & set(entry.links))
        if links and (entry.when.counts or entry.fault.by_order):
            counting.setdefault(", ".join(links), []).append(entry.id)
    for names, ids in counting.items():
        count = "counts" if len(ids) == 1 else "count"
        yield f"{', '.join(ids)} {count} calls, and some to {names} were in progress at once"


def _overlapping(events: Sequence[Event]) -> Iterator[str]:
    """Links on which two requests of one attempt were in progress at once."""
    until: dict[tuple[str, int, str], float] = {}
    for exchange in sorted(_calls(events), key=lambda exchange: exchange.start):
        key = (exchange.episode, exchange.attempt, exchange.link)
        if exchange.start < until.get(key, 0.0):
            yield exchange.link
        until[key] = max(until.get(key, 0.0), exchange.start + exchange.ms / 1000)


def _delays(judgement: RunJudgement, events: Sequence[Event]) -> Iterator[str]:
    """Injected delays about as long as the client waits: which of the two is first is chance."""
    for exchange in events:
        if isinstance(exchange, Exchange):
            client_ms = _client_ms(judgement, exchange.link)
            for met in exchange.faults:
                if met.injected and met.delay_ms and abs(met.delay_ms - client_ms) <= NEAR * client_ms:
                    yield f"a delay by {met.id} was within 20 % of the client's timeout, {client_ms:g} ms"
