"""From the events of a run to what the charts show. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from windtunnel.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EpisodeJudged,
    EpisodeStarted,
    Event,
    Exchange,
    ModelCall,
    RunFinished,
    RunStarted,
    ToolTry,
)
from windtunnel.history.reader import HistoryError
from windtunnel.judging.evidence import FaultRecord, TryEvidence, Unexplained, gather
from windtunnel.links.catalog import MODEL_LINK
from windtunnel.report.charts.data import REFUSED, FaultSpan, Prompt, RunData, Try
from windtunnel.report.charts.groups import group_of

E = TypeVar("E")


def run_data(events: Sequence[Event]) -> RunData:
    """The figures of one run. Raises ``HistoryError`` when the history has no start."""
    begins = sorted(_all(events, RunStarted), key=lambda event: event.t)
    if not begins:
        raise HistoryError("no run_started in this history: is the agent's file missing?")
    begin, end = begins[0], max(_moment(event) for event in events)
    tries = {name: list(_tries(group, begin.t)) for name, group in _episodes(events).items()}
    crossed = {name for name, group in tries.items() if any(one.fault for one in group)}
    every = [one for group in tries.values() for one in group]
    return RunData(
        run_id=begin.run_id,
        seed=begin.seed,
        subject=begin.subject_shown,
        settings=begin.settings,
        planned=begin.prompts,
        length=max(end - begin.t, 0.001),
        prompts=tuple(_prompts(events, begin.t, crossed)),
        tries=tuple(sorted(every, key=lambda one: (one.start, one.link))),
        spans=(*_toxic_spans(events, begin.t, end), *_injected_spans(events, begin.t)),
        unfinished=_unfinished(events),
    )


def _all(events: Iterable[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def _moment(event: Event) -> float:
    """When the event was over, in seconds since the epoch."""
    if isinstance(event, Exchange):
        return event.start + event.ms / 1000
    return event.end if isinstance(event, (ToolTry, AttemptEnded)) else event.t


def _unfinished(events: Sequence[Event]) -> str | None:
    ends = _all(events, RunFinished)
    if not ends:
        return "no end in its history"
    last = max(ends, key=lambda event: event.t)
    return None if last.completed else last.reason or "stopped early"


def _episodes(events: Sequence[Event]) -> dict[str, list[Event]]:
    groups: dict[str, list[Event]] = {event.episode: [] for event in _all(events, EpisodeStarted)}
    for event in events:
        group = groups.get(getattr(event, "episode", ""))
        if group is not None:
            group.append(event)
    return groups


def _tries(events: Sequence[Event], zero: float) -> Iterator[Try]:
    """The tries of one episode, held against the evidence of its faults."""
    evidence = gather(events)
    unexplained = list(evidence.unexplained)
    for one in events:
        if not isinstance(one, (ToolTry, ModelCall)):
            continue
        seen = _Seen.of(one)
        shown, crossed = seen.faults(evidence.faults)
        alone = seen.take_from(unexplained)
        start, end = (one.start, one.end) if isinstance(one, ToolTry) else (one.t - one.ms / 1000, one.t)
        yield Try(
            link=seen.link,
            start=start - zero,
            end=end - zero,
            ms=one.ms,
            error=one.error,
            fault=shown or crossed,
            cause=None if alone or one.error is None else shown or REFUSED,
            direct=seen.route == "direct",
        )


@dataclass(frozen=True)
class _Seen:
    """A try's identity inside its episode."""

    attempt: int
    link: str
    fingerprint: str
    call: int
    try_: int
    error: str | None
    route: str

    @classmethod
    def of(cls, one: ToolTry | ModelCall) -> _Seen:
        if isinstance(one, ToolTry):
            return cls(one.attempt, one.link, one.fingerprint, one.call, one.try_, one.error, one.route)
        return cls(one.attempt, MODEL_LINK.name, "", one.ordinal, one.try_, one.error, "proxy")

    def faults(self, records: Iterable[FaultRecord]) -> tuple[str | None, str | None]:
        """The kind of fault that explains the try's failure, and one that it crossed.

        What cuts or delays answers nothing: only another fault of the gateway explains an HTTP status.
        """
        if self.route == "direct":
            return None, None
        acted = (record for record in records if record.source == "toxic" or record.reached("injected"))
        mine = [record for record in acted if self._is_in(record)]
        refused = bool(self.error and self.error.startswith("http_"))
        possible = [record for record in mine if not refused or _may_answer(record)]
        showing = [record for record in possible if self._shows(record)]
        explains = next((_drawn_as(record) for record in reversed(showing or possible)), None)
        return explains if self.error else None, _drawn_as(mine[-1]) if mine else None

    def _is_in(self, record: FaultRecord) -> bool:
        here = (record.attempt, record.link) == (self.attempt, self.link)
        return here and any(self._is(one) for one in record.tries)

    def _shows(self, record: FaultRecord) -> bool:
        return any(one.shows and self._is(one) for one in record.tries)

    def _is(self, one: TryEvidence) -> bool:
        return (one.fingerprint, one.call, one.try_) == (self.fingerprint, self.call, self.try_)

    def take_from(self, unexplained: list[Unexplained]) -> bool:
        """Whether no fault explains this failure; each record of that serves one try."""
        for one in unexplained:
            same = one.attempt, one.link, one.call, one.try_, one.error, one.route
            if same == (self.attempt, self.link, self.call, self.try_, self.error, self.route):
                unexplained.remove(one)
                return True
        return False


def _may_answer(record: FaultRecord) -> bool:
    return record.source != "toxic" and group_of(record.kind) != "delayed"


def _drawn_as(record: FaultRecord) -> str:
    return record.kind if record.source == "toxic" else group_of(record.kind)


def _toxic_spans(events: Sequence[Event], zero: float, end: float) -> list[FaultSpan]:
    """Armed to healed; a toxic that nobody healed lasts to the end of the history."""
    healed = {(event.episode, event.attempt): event.t for event in _all(events, AttemptHealed)}
    return [
        FaultSpan(
            link=toxic.link,
            kind=toxic.kind,
            start=armed.t - zero,
            end=healed.get((armed.episode, armed.attempt), end) - zero,
            toxic=True,
        )
        for armed in sorted(_all(events, AttemptArmed), key=lambda event: event.t)
        for toxic in armed.toxics
    ]


def _injected_spans(events: Sequence[Event], zero: float) -> list[FaultSpan]:
    """What the gateway did to single requests."""
    spans = []
    for one in sorted(_all(events, Exchange), key=lambda event: event.start):
        start = one.start - zero
        spans += [
            FaultSpan(one.link, group_of(met.kind), start, start + one.ms / 1000, toxic=False)
            for met in one.faults
            if met.injected
        ]
    return spans


def _prompts(events: Sequence[Event], zero: float, crossed: set[str]) -> Iterator[Prompt]:
    """In the order in which they began. A late side effect brings a second verdict: the last one holds."""
    verdicts: dict[str, list[EpisodeJudged]] = {}
    for verdict in sorted(_all(events, EpisodeJudged), key=lambda event: event.t):
        verdicts.setdefault(verdict.episode, []).append(verdict)
    worked: dict[str, float] = {}
    for ended in _all(events, AttemptEnded):
        worked[ended.episode] = worked.get(ended.episode, 0.0) + ended.ms
    for begun in sorted(_all(events, EpisodeStarted), key=lambda event: event.t):
        mine = verdicts.get(begun.episode)
        yield Prompt(
            episode=begun.episode,
            outcome=mine[-1].outcome if mine else None,
            judged=mine[0].t - zero if mine else None,
            response_ms=worked.get(begun.episode),
            crossed_fault=begun.episode in crossed,
        )
