"""Prometheus metrics of a lab that stays up, at ``/metrics`` of the manager.

Counters come from the histories of the lab's runs since the manager started, so that they agree with the
runs' pages; a restarted manager counts anew. The format is by prometheus-client (``wirefault[prometheus]``).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from proxy_manager import log
from proxy_manager.loop import Loop
from wirefault.history.events import EpisodeJudged, Event, Exchange, RunFinished
from wirefault.history.judged_events import FaultStage
from wirefault.history.reader import HistoryError, Tail
from wirefault.history.writer import history_file
from wirefault.state.state import RunRow, RunStatus, State

STAGES: tuple[FaultStage, ...] = ("drawn", "armed", "met", "injected", "observed")
NOT_INSTALLED = "metrics need the package prometheus-client: pip install 'wirefault[prometheus]'"
_OPEN: frozenset[RunStatus] = frozenset({"waiting", "leased", "live"})
_WRITERS = ("agent", "gateway")
_NO_REPLY = "none"


@dataclass
class Counts:
    """Totals over runs."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)  # link, status
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)  # kind, stage
    episodes: Counter[str] = field(default_factory=Counter)  # outcome
    runs: Counter[str] = field(default_factory=Counter)  # how it ended

    def add(self, event: Event, *, live: bool) -> None:
        """Count an event. Faults are counted when an episode is judged, and of live traffic at once."""
        match event:
            case Exchange():
                self.requests[event.link, str(event.status or _NO_REPLY)] += 1
                for fault in event.faults if live else ():
                    stages = ("met", "injected") if fault.injected else ("met",)
                    self.faults.update((fault.kind, stage) for stage in stages)
            case EpisodeJudged():
                self.episodes[event.outcome] += 1
                for row in event.faults:
                    self.faults.update((row.kind, stage) for stage in STAGES if row.reached(stage))
            case RunFinished():
                self.runs["completed" if event.completed else "ended_early"] += 1


@dataclass
class _Reading:
    """The files of one run, read to the present."""

    tails: list[Tail]
    live: bool
    judged: set[str] = field(default_factory=set)


class LabMetrics:
    """Reads the lab's histories for each scrape. ``since``: seconds since the epoch."""

    def __init__(
        self, loop: Loop, open_state: Callable[[], State], logs: Path, lab: tuple[str, int], since: float
    ) -> None:
        self._loop = loop
        self._open_state = open_state
        self._logs = logs
        self._lab = lab
        self._since = since
        self._lock = threading.Lock()  # scrapes run in threads
        self._readings: dict[str, _Reading] = {}
        self._unreadable: set[str] = set()
        self.counts = Counts()

    def refresh(self) -> None:
        """Count what was written since the last call. Raises ``sqlite3.Error``, ``OSError``."""
        with self._open_state() as state:
            rows = [row for status in get_args(RunStatus) for row in state.runs(*self._lab, status)]
        for row in rows:
            if row.status in _OPEN or row.created >= self._since or row.run_id in self._readings:
                self._read(row)

    def _read(self, row: RunRow) -> None:
        if row.run_id in self._unreadable:
            return
        if row.run_id not in self._readings:
            tails = [Tail(history_file(self._logs, row.run_id, name, self._lab[1])) for name in _WRITERS]
            self._readings[row.run_id] = _Reading(tails, row.status == "live")
        reading = self._readings[row.run_id]
        try:
            events = [event for tail in reading.tails for event in tail.read()]
        except (HistoryError, OSError) as error:
            log.warning("no metrics of run %s: %s", row.run_id, error)
            self._unreadable.add(row.run_id)
            return
        for event in events:
            if isinstance(event, EpisodeJudged):
                if event.episode in reading.judged:  # judged again, after a late side effect
                    continue
                reading.judged.add(event.episode)
            self.counts.add(event, live=reading.live)

    def exposition(self) -> tuple[bytes, str]:
        """Return the metrics in Prometheus's text format, and its content type.

        Raises ``ImportError`` without prometheus-client, ``sqlite3.Error``, ``OSError``.
        """
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        with self._lock:
            self.refresh()
            return generate_latest(registry), CONTENT_TYPE_LATEST

    def describe(self) -> list[Any]:
        """Return nothing: the registry needs no names before the first scrape."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metric families, for prometheus-client's registry."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        status = self._loop.reconciler.status if self._loop.reconciler else None
        counts = self.counts
        ready = GaugeMetricFamily("wirefault_ready", "Whether the manager can arm an attempt.")
        ready.add_metric([], float(self._loop.error is None))
        yield ready
        running = GaugeMetricFamily("wirefault_run_in_progress", "Whether a run has the lane.")
        running.add_metric([], float(status is not None and status.run is not None))
        yield running
        toxics = GaugeMetricFamily(
            "wirefault_toxics_in_force", "Toxics in Toxiproxy, read back.", labels=["link", "kind"]
        )
        observed = (status.observed if status else None) or []
        for (link, kind), number in sorted(Counter((row["link"], row["kind"]) for row in observed).items()):
            toxics.add_metric([link, kind], number)
        yield toxics
        families = [
            ("requests", "Requests that the gateway recorded, by the status sent.", ["link", "status"]),
            ("faults", "Faults and toxics that reached each stage.", ["kind", "stage"]),
        ]
        for (name, text, labels), counter in zip(families, (counts.requests, counts.faults), strict=True):
            family = CounterMetricFamily(f"wirefault_{name}", text, labels=labels)
            for values, number in sorted(counter.items()):
                family.add_metric(list(values), number)
            yield family
        for name, text, label, by_name in (
            ("episodes", "Episodes by the outcome as first judged.", "outcome", counts.episodes),
            ("runs", "Runs that ended.", "end", counts.runs),
        ):
            family = CounterMetricFamily(f"wirefault_{name}", text, labels=[label])
            for value, number in sorted(by_name.items()):
                family.add_metric([value], number)
            yield family
