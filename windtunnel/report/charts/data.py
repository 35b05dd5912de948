"""What the charts show, taken from a run's history. Pure.

All times are seconds since the run's start, all durations milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from windtunnel.catalog import MODEL_LINK, TOOL_LINKS
from windtunnel.history import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    EpisodeJudged,
    EpisodeStarted,
    Event,
    Exchange,
    HistoryError,
    ModelCall,
    RunFinished,
    RunStarted,
    ToolTry,
)
from windtunnel.report.charts.text import toxic_label

LINK_NAMES: tuple[str, ...] = (*(link.name for link in TOOL_LINKS), MODEL_LINK.name)
# What never counts for or against the agent: the lab failed, or nothing says what would be right.
UNCOUNTED = ("invalid", "unjudged")

E = TypeVar("E")
AttemptLink = tuple[str, int, str]


@dataclass(frozen=True)
class Try:
    """One HTTP try as the caller saw it. ``fault``: the kind that was armed in its way, if any."""

    link: str
    start: float
    end: float
    ms: float
    error: str | None
    fault: str | None
    direct: bool


@dataclass(frozen=True)
class FaultSpan:
    """A fault on a link while it could act: a toxic from armed to healed, an HTTP error while it was given."""

    link: str
    kind: str
    label: str
    start: float
    end: float
    toxic: bool


@dataclass(frozen=True)
class Prompt:
    """One episode. ``outcome`` and ``judged`` are None while nobody has judged it.

    ``response_ms`` is the time that the agent worked on it, all attempts together, without arming and
    healing. ``crossed_fault``: at least one try went through an armed fault.
    """

    episode: str
    outcome: str | None
    judged: float | None
    response_ms: float | None
    crossed_fault: bool

    @property
    def counts(self) -> bool:
        return self.outcome is not None and self.outcome not in UNCOUNTED


@dataclass(frozen=True)
class RunData:
    """One run. ``unfinished`` says why it has no regular end, None if it has."""

    run_id: str
    seed: int
    subject: str
    settings: dict[str, Any]
    started: float
    length: float
    prompts: tuple[Prompt, ...]
    tries: tuple[Try, ...]
    spans: tuple[FaultSpan, ...]
    unfinished: str | None


@dataclass(frozen=True)
class Selection:
    """The runs that a set of charts is about, oldest first, on one axis of seconds since each start."""

    runs: tuple[RunData, ...]

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for run in self.runs for prompt in run.prompts]

    @property
    def tries(self) -> list[Try]:
        return [one for run in self.runs for one in run.tries]

    @property
    def spans(self) -> list[FaultSpan]:
        return [span for run in self.runs for span in run.spans]

    @property
    def length(self) -> float:
        return max(run.length for run in self.runs)

    @property
    def several(self) -> bool:
        return len(self.runs) > 1


def run_data(events: Sequence[Event]) -> RunData:
    """The figures of one run. Raises ``HistoryError`` when the history has no start."""
    begins = sorted(_all(events, RunStarted), key=lambda event: event.t)
    if not begins:
        raise HistoryError("no run_started in this history: is the agent's file missing?")
    begin = begins[0]
    end = max(_moment(event) for event in events)
    tries = _tries(events, begin.t)
    return RunData(
        run_id=begin.run_id,
        seed=begin.seed,
        subject=_subject(begin),
        settings=dict(begin.settings),
        started=begin.t,
        length=max(end - begin.t, 0.001),
        prompts=_prompts(events, begin.t, {key for key, one in tries if one.fault}),
        tries=tuple(one for _, one in tries),
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


def _subject(begin: RunStarted) -> str:
    label = "self-test subject: scripted model"
    scripted = begin.settings.get("model") == "scripted" and label not in begin.subject
    return f"{begin.subject}, {label}" if scripted else begin.subject


def _unfinished(events: Sequence[Event]) -> str | None:
    ends = _all(events, RunFinished)
    if not ends:
        return "the run has no end in its history"
    last = max(ends, key=lambda event: event.t)
    return None if last.completed else last.reason or "the run stopped early"


def _tries(events: Sequence[Event], zero: float) -> list[tuple[str, Try]]:
    """Each try with its episode, in order of time."""
    fault_of = _fault_finder(events)
    tools = [
        (
            event.episode,
            Try(
                link=event.link,
                start=event.start - zero,
                end=event.end - zero,
                ms=event.ms,
                error=event.error,
                fault=fault_of(event),
                direct=event.route == "direct",
            ),
        )
        for event in _all(events, ToolTry)
    ]
    toxics = _toxic_kinds(events)
    models = [
        (
            event.episode,
            Try(
                link=MODEL_LINK.name,
                start=event.t - event.ms / 1000 - zero,
                end=event.t - zero,
                ms=event.ms,
                error=event.error,
                fault=toxics.get((event.episode, event.attempt, MODEL_LINK.name)),
                direct=False,
            ),
        )
        for event in _all(events, ModelCall)
    ]
    return sorted(tools + models, key=lambda pair: (pair[1].start, pair[1].link))


def _toxic_kinds(events: Sequence[Event]) -> dict[AttemptLink, str]:
    return {
        (event.episode, event.attempt, toxic.link): toxic.kind
        for event in _all(events, AttemptArmed)
        for toxic in event.toxics
    }


def _fault_finder(events: Sequence[Event]) -> Callable[[ToolTry], str | None]:
    """Tells which fault stood in a try's way: the one injected into it, else the link's toxic.

    A toxic cuts or delays, it answers nothing: an HTTP error without an injected one has no fault.
    """
    toxics = _toxic_kinds(events)
    injected = {
        (one.episode, one.attempt, one.link, one.fingerprint, one.call, one.try_): str(one.fault.get("kind"))
        for one in _all(events, Exchange)
        if one.fault
    }

    def find(one: ToolTry) -> str | None:
        if one.route == "direct":
            return None
        key = (one.episode, one.attempt, one.link, one.fingerprint, one.call, one.try_)
        refused = bool(one.error and one.error.startswith("http_"))
        toxic = None if refused else toxics.get((one.episode, one.attempt, one.link))
        return injected.get(key) or toxic

    return find


def _toxic_spans(events: Sequence[Event], zero: float, end: float) -> list[FaultSpan]:
    """Armed to healed; a toxic that nobody healed lasts to the end of the history."""
    healed = {(event.episode, event.attempt): event.t for event in _all(events, AttemptHealed)}
    return [
        FaultSpan(
            link=toxic.link,
            kind=toxic.kind,
            label=toxic_label(toxic.kind, toxic.stream, toxic.attributes),
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
        if one.fault:
            kind, start = str(one.fault.get("kind")), one.start - zero
            spans.append(FaultSpan(one.link, kind, kind, start, start + one.ms / 1000, toxic=False))
    return spans


def _prompts(events: Sequence[Event], zero: float, crossed: set[str]) -> tuple[Prompt, ...]:
    """In the order in which they began. Of several verdicts on an episode the last one holds."""
    verdicts = {event.episode: event for event in sorted(_all(events, EpisodeJudged), key=lambda e: e.t)}
    worked: dict[str, float] = {}
    for ended in _all(events, AttemptEnded):
        worked[ended.episode] = worked.get(ended.episode, 0.0) + ended.ms
    prompts = []
    for begun in sorted(_all(events, EpisodeStarted), key=lambda event: event.t):
        verdict = verdicts.get(begun.episode)
        prompts.append(
            Prompt(
                episode=begun.episode,
                outcome=verdict.outcome if verdict else None,
                judged=verdict.t - zero if verdict else None,
                response_ms=worked.get(begun.episode),
                crossed_fault=begun.episode in crossed,
            )
        )
    return tuple(prompts)
