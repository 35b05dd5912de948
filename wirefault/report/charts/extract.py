"""Select runs and convert their events to chart data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from wirefault.experiments.evidence import evidence_of, owner_of
from wirefault.experiments.index import is_dry_run
from wirefault.experiments.recorded import control_of_run
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
from wirefault.history.reader import LIVE, HistoryError, moment_of, read_file, read_history
from wirefault.judging.evidence.gather import gather, unexplained
from wirefault.judging.evidence.toxics import ToxicTimes
from wirefault.judging.judge import ByControl
from wirefault.judging.rates import is_unchecked_claim
from wirefault.judging.requests import Request
from wirefault.judging.subject_name import subject_name
from wirefault.judging.trace import EpisodeTrace, traces
from wirefault.report.charts.data import REFUSED, ChartedPrompt, ChartedTry, FaultSpan, RunData, Selection
from wirefault.report.charts.style import group_of

_E = TypeVar("_E")


def run_data(events: Sequence[Event], control: Mapping[str, ByControl] | None = None) -> RunData:
    """Return the data of one run. Raises ``HistoryError`` if the history has no start.

    ``control``: what an experiment's control shows about the episodes.
    """
    begins = sorted(_all(events, RunStarted), key=lambda event: event.t)
    if not begins:
        raise HistoryError("no run_started in this history: is the agent's file missing?")
    begin, end = begins[0], max(moment_of(event) for event in events)
    episodes = {trace.episode: trace for trace in traces(events) if trace.all(EpisodeStarted)}
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
        settings=begin.settings,
        planned=begin.prompts,
        length=max(end - begin.t, 0.001),
        prompts=tuple(prompt for _, prompt in sorted(prompts, key=lambda pair: pair[0].t)),
        tries=tuple(sorted(every, key=lambda tried: (tried.start, tried.link))),
        spans=(*_toxic_spans(episodes.values(), begin.t, end), *_injected_spans(events, begin.t)),
        unfinished=_unfinished(events),
        links=begin.wired.names,
        models=begin.wired.model_names,
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
    if not trace.keeps_record:
        yield from (_charted(trace, each, zero) for each in trace.requests if each.exchange)
        return
    evidence = trace.last(EpisodeJudged) or gather(trace)
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


def _charted(trace: EpisodeTrace, request: Request, zero: float) -> ChartedTry:
    """Return the request by the gateway's record, and whether toxics let its reply through."""
    start, status = request.start - zero, request.status
    # show a delay only if no other fault acted
    kinds = [group_of(fault.kind) for fault in sorted(request.injected, key=lambda each: each.delay_ms > 0)]
    if request.replies_are_lost or request.never_arrived:
        armed = (armed for armed in trace.armed if armed.attempt == request.attempt)
        kinds += [toxic.kind for each in armed for toxic in each.toxics if toxic.link == request.link_name]
    fault = kinds[0] if kinds else None
    error = cause = None
    if request.failed and status is None:
        error, cause = "connection_closed", fault
    elif request.failed and request.succeeded:
        error, cause = "tool_error", fault or REFUSED
    elif request.failed:
        error, cause = f"http_{status}", fault or (REFUSED if (status or 0) < 500 else None)
    return ChartedTry(
        request.link_name, start, start + request.ms / 1000, request.ms, error, fault, cause, direct=False
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


MAX_NAMED = 5


class ChartsError(ValueError):
    """Nothing to chart; the message says what, where, and what to do."""


def select_runs(logs: Path, run: str, warn: Callable[[str], None]) -> Selection:
    """Return the runs that ``run`` selects: ``latest``, ``all``, an id or a unique prefix of one.

    ``warn`` gets a message for everything left out. Raises ``ChartsError``, or ``AlteredError`` if a file of
    a selected run was altered.
    """
    names = _folders(logs)
    if run not in ("latest", "all"):
        return Selection((_read(logs, _match(logs, names, run), warn),))
    dated = _by_start(logs, names, warn)
    if not dated:
        raise ChartsError(f"{logs / 'runs'}: no runs have started; start one with: make run")
    chosen = dated
    if run == "latest":
        newest = (name for name in reversed(dated) if not is_dry_run(logs, owner_of(logs, name)))
        chosen = list(islice(newest, 1))
        if not chosen:
            raise ChartsError(f"{logs}: there are only dry runs, which show nothing; name one of them")
    return Selection(tuple(_read(logs, name, warn) for name in chosen))


def _folders(logs: Path) -> list[str]:
    if not logs.is_dir():
        raise ChartsError(f"{logs}: no such folder; name the lab's logs with --logs DIR")
    runs = logs / "runs"
    folders = [path.name for path in runs.iterdir() if path.is_dir()] if runs.is_dir() else []
    # live traffic has no prompts to chart
    names = sorted(name for name in folders if not name.startswith(LIVE))
    if not names:
        raise ChartsError(f"{runs}: no runs; start one with: make run")
    return names


def _match(logs: Path, names: list[str], run: str) -> str:
    matches = [run] if run in names else [name for name in names if run and name.startswith(run)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ChartsError(f"--run {run} fits {len(matches)} runs: {_newest(logs, matches)}")
    raise ChartsError(f"{logs / 'runs'}: unknown run {run!r}; the newest are {_newest(logs, names)}")


def _newest(logs: Path, names: list[str]) -> str:
    """Return the newest few by modification time, for an error message, without reading histories."""
    by_time = sorted(names, key=lambda name: (logs / "runs" / name).stat().st_mtime, reverse=True)
    more = f" and {len(by_time) - MAX_NAMED} more" if len(by_time) > MAX_NAMED else ""
    return ", ".join(by_time[:MAX_NAMED]) + more


def _by_start(logs: Path, names: list[str], warn: Callable[[str], None]) -> list[str]:
    """Return the runs that have started, oldest first."""
    dated = []
    for name in names:
        start = _start(logs / "runs" / name)
        if start is None:
            warn(f"left out {logs / 'runs' / name}: no run_started in it")
        else:
            dated.append((start, name))
    return [name for _, name in sorted(dated)]


def _start(folder: Path) -> float | None:
    """Return the start of the run, in seconds since the epoch; reads no further than that line."""
    starts = []
    for path in sorted(folder.glob("agent-*.jsonl")):
        try:
            event = next((event for event in read_file(path) if isinstance(event, RunStarted)), None)
        except (HistoryError, OSError) as error:
            raise ChartsError(f"{error}; other runs can be charted with --run ID") from None
        if event:
            starts.append(event.t)
    return min(starts, default=None)


def _read(logs: Path, name: str, warn: Callable[[str], None]) -> RunData:
    try:
        evidence = evidence_of(logs, name)
        evidence.require_unaltered()
        history = read_history(logs, name)
        data = run_data(history.events(), control_of_run(logs, name, {**os.environ, "LOGS_DIR": str(logs)}))
    except HistoryError as error:
        place = logs / "runs" / name
        where = "" if str(error).startswith(str(place)) else f"{place}: "
        raise ChartsError(f"{where}{error}") from None
    except OSError as error:
        raise ChartsError(f"cannot read the run {name}: {error}") from None
    if history.torn:
        warn(
            f"run {name}: {history.torn} unfinished last line(s) not counted; its writer was killed or writes"
        )
    return replace(data, run_id=name, evidence=evidence.text)
