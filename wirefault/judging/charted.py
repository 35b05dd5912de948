"""A run's data for its charts, from its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from wirefault.core.caller_errors import ERROR_KINDS
from wirefault.faults.catalogue import FAULTS
from wirefault.history.events import (
    AttemptEnded,
    AttemptHealed,
    EpisodeJudged,
    EpisodeStarted,
    Event,
    Exchange,
    RunFinished,
    RunStarted,
)
from wirefault.history.judged_events import FaultRecord, TryEvidence
from wirefault.history.reader import HistoryError, moment_of
from wirefault.judging.chart_data import REFUSED, ChartedPrompt, ChartedTry, FaultSpan, RunData
from wirefault.judging.evidence.gather import gather, unexplained
from wirefault.judging.evidence.toxics import ToxicTimes
from wirefault.judging.judge import ByControl
from wirefault.judging.rates import is_unchecked_claim
from wirefault.judging.requests import Request
from wirefault.judging.subject_name import subject_name
from wirefault.judging.trace import EpisodeTrace, traces

_E = TypeVar("_E")


def run_data(
    events: Sequence[Event],
    control: Mapping[str, ByControl] | None = None,
    joined: Iterable[EpisodeTrace] = (),
) -> RunData:
    """Return the data of one run. Raises ``HistoryError`` if the history has no start.

    ``control``: what an experiment's control shows about the episodes. ``joined``: the traces of the events,
    if they have been made.
    """
    begins = sorted(_all(events, RunStarted), key=lambda event: event.t)
    if not begins:
        raise HistoryError("no run_started in this history: is the agent's file missing?")
    begin, end = begins[0], max(moment_of(event) for event in events)
    episodes = {trace.episode: trace for trace in joined or traces(events) if trace.all(EpisodeStarted)}
    tries = {name: list(_tries(trace, begin.t)) for name, trace in episodes.items()}
    every = [tried for group in tries.values() for tried in group]
    prompts = [
        (trace.all(EpisodeStarted)[-1], _prompt(trace, begin.t, tries[name], (control or {}).get(name)))
        for name, trace in episodes.items()
    ]
    return RunData(
        run_id=begin.run_id,
        seed=begin.seed,
        subject=subject_name(begin, events),
        planned=begin.prompts,
        length=max(end - begin.t, 0.001),
        prompts=tuple(prompt for _, prompt in sorted(prompts, key=lambda pair: pair[0].t)),
        tries=tuple(sorted(every, key=lambda tried: (tried.start, tried.link))),
        spans=(*_toxic_spans(episodes.values(), begin.t, end), *_injected_spans(events, begin.t)),
        unfinished=_unfinished(events),
        links=begin.wired.names,
        models=begin.wired.model_names,
        has_record=all(trace.keeps_record for trace in episodes.values()),
    )


def _all(events: Iterable[Event], kind: type[_E]) -> list[_E]:
    return [event for event in events if isinstance(event, kind)]


def _unfinished(events: Sequence[Event]) -> str | None:
    ends = _all(events, RunFinished)
    if not ends:
        return "no end in its history"
    last = max(ends, key=lambda event: event.t)
    return None if last.completed else last.reason or "stopped early"


def _tries(trace: EpisodeTrace, zero: float) -> Iterator[ChartedTry]:
    """Return the tries of one episode, explained by its judgement; before any, by the evidence of its faults.

    If the subject keeps no record, the gateway's is used.
    """
    evidence = trace.last(EpisodeJudged) or gather(trace)
    if not trace.keeps_record:
        yield from (_charted(trace, each, zero, evidence.faults) for each in trace.requests if each.exchange)
        return
    for tried in trace.tries:
        crossed = list(_crossed(tried, evidence.faults))
        explaining = [record for record, of_try in crossed if of_try.explains]
        visible = explaining or [record for record, of_try in crossed if of_try.shows]
        fault = (visible or [record for record, _ in crossed])[-1:]
        no_cause = tried.error is None or unexplained(tried) in evidence.unexplained
        yield ChartedTry(
            link=tried.link_name,
            start=tried.start - zero,
            end=tried.start + tried.ms / 1000 - zero,
            ms=tried.ms,
            error=tried.error,
            fault=_drawn_as(fault[0]) if fault else None,
            cause=None if no_cause else _drawn_as(explaining[-1]) if explaining else REFUSED,
            direct=tried.direct,
        )


def _charted(
    trace: EpisodeTrace, request: Request, zero: float, records: Iterable[FaultRecord]
) -> ChartedTry:
    """Return the request by the gateway's record, and whether toxics let its reply through.

    A toxic that only changed how long it took is its fault, too, but explains no failure.
    """
    start, status = request.start - zero, request.status
    # show a delay only if no other fault acted
    kinds = [group_of(fault.kind) for fault in sorted(request.injected, key=lambda each: each.delay_ms > 0)]
    if request.replies_are_lost or request.never_arrived:
        armed = (armed for armed in trace.armed if armed.attempt == request.attempt)
        kinds += [toxic.kind for each in armed for toxic in each.toxics if toxic.link == request.link_name]
    toxics = (record for record in records if record.source == "toxic" and record.delivered)
    on_its_way = (record.kind for record in toxics if (record.attempt, record.link) == request.try_key[:2])
    fault, crossed = kinds[0] if kinds else None, next(on_its_way, None)
    error = cause = None
    if request.failed is None and request.exchange and (request.exchange.status or 0) >= 400:
        status = request.exchange.status  # it failed, whether or not a slow toxic also kept this back
    if request.failed and status is None:
        error, cause = "connection_closed", fault
    elif request.failed and request.succeeded:
        error, cause = "tool_error", fault or REFUSED
    elif request.failed or (status or 0) >= 400:
        error, cause = f"http_{status}", fault or (REFUSED if (status or 0) < 500 else None)
    return ChartedTry(
        *(request.link_name, start, start + request.ms / 1000, request.ms, error, fault or crossed, cause),
        direct=False,
    )


def _crossed(tried: Request, records: Iterable[FaultRecord]) -> Iterator[tuple[FaultRecord, TryEvidence]]:
    """Return the faults on the try's path, each with its effect on the try."""
    for record in records:
        on_its_way = (record.attempt, record.link) == tried.try_key[:2] and not tried.direct
        if on_its_way and (record.source == "toxic" or record.reached("injected")):
            for of_try in record.tries:
                if (of_try.fingerprint, of_try.call, of_try.try_) == tried.try_key[2:]:
                    yield record, of_try


def _drawn_as(record: FaultRecord) -> str:
    return record.kind if record.source == "toxic" else group_of(record.kind)


def _toxic_spans(episodes: Iterable[EpisodeTrace], zero: float, end: float) -> list[FaultSpan]:
    """Return the spans of toxics, from start to end or heal; a toxic never healed lasts to the end of the
    history.

    All strengths of a toxic, and all its outages, form one span.
    """
    spans = []
    for trace in episodes:
        times, healed = ToxicTimes(trace.events), {each.attempt: each.t for each in trace.all(AttemptHealed)}
        for armed in trace.armed:
            healed_at = healed.get(armed.attempt, end)
            for toxic in armed.toxics:
                stood = times.of(armed.attempt, toxic)
                if stood:
                    begun, gone = max(armed.t, stood[0].begun), min(healed_at, stood[-1].gone)
                    spans.append(FaultSpan(toxic.link, toxic.kind, begun - zero, gone - zero, toxic=True))
    return sorted(spans, key=lambda span: span.start)


def _injected_spans(events: Sequence[Event], zero: float) -> list[FaultSpan]:
    """Return the spans of the gateway's faults: the requests that they changed."""
    spans = []
    for exchange in sorted(_all(events, Exchange), key=lambda event: event.start):
        start = exchange.start - zero
        spans += [
            FaultSpan(exchange.link, group_of(fault.kind), start, start + exchange.ms / 1000, toxic=False)
            for fault in exchange.faults
            if fault.injected
        ]
    return spans


def _prompt(
    trace: EpisodeTrace, zero: float, tries: Iterable[ChartedTry], control: ByControl | None
) -> ChartedPrompt:
    """Return one episode. After a late side effect the second verdict counts."""
    verdicts = sorted(trace.all(EpisodeJudged), key=lambda event: event.t)
    ends = trace.all(AttemptEnded)
    outcome = verdicts[-1].outcome if verdicts else None
    claim = verdicts[-1].claim if verdicts else "none"
    if verdicts and control is not None and control.repeated:
        outcome = "duplicate"
    return ChartedPrompt(
        episode=trace.episode,
        outcome=outcome,
        judged=verdicts[0].t - zero if verdicts else None,
        response_ms=sum(ended.ms for ended in ends) if ends else None,
        ended=max(ended.end for ended in ends) - zero if ends else None,
        crossed_fault=any(tried.fault for tried in tries),
        claim=claim if is_unchecked_claim(outcome, claim, trace.has_oracle) else None,
    )


_BY_NAME: Mapping[str, str] = {
    name: group
    for group, names in {
        "other_error": (
            "status quota auth_error forbidden not_found bad_gateway overloaded flap"
            " context_length tool_use_failed content_filter tool_error rpc_error unknown_session ws_error"
        ),
        "delayed": "delay slow_body slow_first_token slow_tokens late_response slow_progress ws_delay",
        "lost_or_cut": (
            "hang reset lose_request lose_reply truncate api_timeout stream_cut stream_hang early_end"
            " stream_error token_limit ended_stream server_death lost_notification ignored_cancel"
            " lost_interim_result ws_cut ws_drop"
        ),
        "wrong_in_form": (
            "malformed empty partial schema_drift corrupt_event duplicate_event malformed_tool_call"
            " swap_events mixed_calls"
            " duplicate_response wrong_id split_line garbage_line retried_original"
        ),
        "wrong_in_content": "stale changed_tools",
        "model_misled": "poisoned_description",
    }.items()
    for name in names.split()
}
_BY_FAMILY = {
    "meaning": "wrong_in_content",
    "model": "model_misled",
    "context": "context_changed",
    "http": "other_fault",
    "mcp": "other_fault",
    "websocket": "other_fault",
}
_WITH_OWN_COLOR = frozenset(kind for kind, _ in ERROR_KINDS)
_FAMILIES = {kind.name: kind.family for kind in FAULTS}


def group_of(kind: str) -> str:
    """Return the palette's name for a fault: the fault itself if it has a colour, else its group."""
    if kind in _WITH_OWN_COLOR:
        return kind
    return _BY_NAME.get(kind) or _BY_FAMILY.get(_FAMILIES.get(kind, ""), "other_fault")
