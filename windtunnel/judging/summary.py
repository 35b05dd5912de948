"""The summary of a run: counts, rates with their intervals, and what a reader must know beside them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from windtunnel.history.events import AttemptArmed, Event, ModelCall, Note, ToolCallRefused, ToolTry
from windtunnel.judging.evidence import FaultRecord
from windtunnel.judging.judge import EpisodeJudgement, judge_run
from windtunnel.judging.ledger import EntryLedger, account
from windtunnel.judging.oracle import OUTCOMES, Outcome
from windtunnel.judging.remarks import remarks
from windtunnel.judging.reproducible import obstacles
from windtunnel.links.catalog import LINKS, MODEL_LINK
from windtunnel.stats.intervals import percentile, wilson

SELF_TEST = "self-test subject: scripted model"
_LEFT_OUT = re.compile(r"entry \d+ is left out")


@dataclass(frozen=True)
class Rate:
    """A success rate over the ``n`` judged of ``planned`` episodes.

    ``low`` and ``high``: its Wilson 95 % interval. ``worst`` and ``best``: the share of the planned
    episodes if all that are invalid, unjudged or were not run had failed, and if all had succeeded.
    """

    k: int
    n: int
    planned: int
    rate: float | None
    low: float | None
    high: float | None
    worst: float | None
    best: float | None
    population: str


@dataclass(frozen=True)
class FaultCount:
    """How many faults of a kind came how far; ``source`` is that of their records."""

    kind: str
    source: str
    drawn: int
    met: int
    injected: int
    delivered: int


@dataclass(frozen=True)
class Latency:
    """Milliseconds, as the caller saw them, of the ``n`` proxied tries that got a valid reply.

    The ``failed`` ones (an error status too) are not in it: their time is the client's timeout or the
    fault's, not the network's.
    """

    p50: float | None
    p95: float | None
    p99: float | None
    n: int
    failed: int


@dataclass(frozen=True)
class Summary:
    """What a run has shown. ``remarks`` are for people: all that is not as it should be, in words.

    ``invalid_because``: where the lab did not inject what it had to; a run with any of it shows nothing.
    ``refused_calls``: how many tool calls the subject itself refused, by why; those that it does record.
    ``entries``: what became of each fault of the fault sets in force.
    """

    run_id: str
    lab_id: str
    seed: int
    settings: Mapping[str, Any]
    subject: str
    completed: bool
    episodes: list[EpisodeJudgement]
    outcomes: dict[Outcome, int]
    success: Rate
    first_attempt: Rate
    faults: list[FaultCount]
    entries: list[EntryLedger]
    invalid_because: list[str]
    unexplained: int
    refused_calls: dict[str, int]
    latency_ms: dict[str, Latency]
    arming_ms: dict[str, float | int | None]
    duration_s: float | None
    toxics_left: int | None
    not_reproducible_because: list[str]
    remarks: list[str]

    @property
    def reproducible(self) -> bool:
        return not self.not_reproducible_because

    def as_json(self) -> dict[str, Any]:
        """One JSON object; no data is null."""
        whole = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return whole | {
            "settings": dict(self.settings),
            "episodes": [_episode(one) for one in self.episodes],
            "success": asdict(self.success),
            "first_attempt": asdict(self.first_attempt),
            "faults": [asdict(one) for one in self.faults],
            "entries": [asdict(one) for one in self.entries],
            "latency_ms": {link: asdict(one) for link, one in self.latency_ms.items()},
            "reproducible": self.reproducible,
        }


def summarise(events: Iterable[Event], *, torn: int = 0, skipped_prompts: int | None = None) -> Summary:
    """Judges the run that the events tell of and sums it up; its episodes carry the verdicts.

    ``torn``: how many cut-off last lines the reader of the history met. ``skipped_prompts``: how many
    entries of the prompts file were bad; by default counted from the run's notes. Raises ``ValueError`` if
    the run's beginning is not among the events.
    """
    events = list(events)
    judgement = judge_run(events)
    started, finished = judgement.started, judgement.finished
    if skipped_prompts is None:
        skipped_prompts = sum(isinstance(e, Note) and bool(_LEFT_OUT.search(e.message)) for e in events)
    outcomes = [episode.outcome for episode in judgement.episodes]
    first = [episode.first_attempt_outcome for episode in judgement.episodes]
    counts = Counter(outcomes)
    ledger = account(started, events)
    refused = dict(Counter[str](event.why for event in events if isinstance(event, ToolCallRefused)))
    return Summary(
        run_id=started.run_id,
        lab_id=started.lab_id,
        seed=started.seed,
        settings=started.settings,
        subject=_subject(started.subject, started.settings),
        completed=finished is not None and finished.completed,
        episodes=judgement.episodes,
        outcomes={name: counts[name] for name in OUTCOMES if counts[name]},
        success=rate(outcomes, started.prompts),
        first_attempt=rate(first, started.prompts),
        faults=_faults(judgement.episodes),
        entries=ledger.entries,
        invalid_because=ledger.invalid_because,
        unexplained=sum(len(episode.unexplained) for episode in judgement.episodes),
        refused_calls=refused,
        latency_ms=_latencies(events),
        arming_ms=_arming([event.arming_ms for event in events if isinstance(event, AttemptArmed)]),
        duration_s=finished.t - started.t if finished else None,
        toxics_left=finished.toxics_left if finished else None,
        not_reproducible_because=obstacles(judgement, events),
        remarks=[*remarks(judgement, torn, skipped_prompts, refused), *ledger.remarks()],
    )


def rate(outcomes: Sequence[Outcome], planned: int) -> Rate:
    """The success rate of these outcomes; see ``Rate``."""
    planned = max(planned, len(outcomes))
    k = outcomes.count("success")
    n = sum(outcome not in ("invalid", "unjudged") for outcome in outcomes)
    low, high = wilson(k, n) or (None, None)
    return Rate(
        k=k,
        n=n,
        planned=planned,
        rate=k / n if n else None,
        low=low,
        high=high,
        worst=k / planned if planned else None,
        best=(k + planned - n) / planned if planned else None,
        population=f"prompts like these {planned}, each run once, under these settings and this subject",
    )


def _subject(name: str, settings: Mapping[str, Any]) -> str:
    """The subject's name, which says so if the scripted model plays its model."""
    if settings.get("model", "scripted") != "scripted" or SELF_TEST in name:
        return name
    return f"{name}, {SELF_TEST}"


def _episode(one: EpisodeJudgement) -> dict[str, Any]:
    # not asdict alone: a fault's dict has its stage too
    return asdict(one) | {"faults": [fault.as_dict() for fault in one.faults]}


def _faults(episodes: Iterable[EpisodeJudgement]) -> list[FaultCount]:
    """By source and kind, the toxics first, each in the order of its name."""
    by_kind: dict[tuple[bool, str, str], list[FaultRecord]] = {}
    for fault in (fault for episode in episodes for fault in episode.faults):
        by_kind.setdefault((fault.source != "toxic", fault.kind, fault.source), []).append(fault)
    return [_count(kind, source, by_kind[key]) for key in sorted(by_kind) for _, kind, source in [key]]


def _count(kind: str, source: str, faults: Sequence[FaultRecord]) -> FaultCount:
    return FaultCount(
        kind=kind,
        source=source,
        drawn=sum(fault.drawn for fault in faults),
        met=sum(fault.met for fault in faults),
        injected=sum(fault.injected for fault in faults),
        delivered=sum(fault.delivered for fault in faults),
    )


def _latencies(events: Iterable[Event]) -> dict[str, Latency]:
    """By link, in the catalog's order; only links that were called."""
    tries: dict[str, list[ToolTry | ModelCall]] = {}
    for event in events:
        if isinstance(event, ModelCall):
            tries.setdefault(MODEL_LINK.name, []).append(event)
        elif isinstance(event, ToolTry) and event.route == "proxy":
            tries.setdefault(event.link, []).append(event)
    return {link.name: _latency(tries[link.name]) for link in LINKS if link.name in tries}


def _latency(tries: Sequence[ToolTry | ModelCall]) -> Latency:
    times = [one.ms for one in tries if one.error is None]
    return Latency(
        p50=percentile(times, 50),
        p95=percentile(times, 95),
        p99=percentile(times, 99),
        n=len(times),
        failed=len(tries) - len(times),
    )


def _arming(times: Sequence[float]) -> dict[str, float | int | None]:
    return {"p50": percentile(times, 50), "p99": percentile(times, 99), "n": len(times)}
