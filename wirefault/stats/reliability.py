"""Recovery times and reliability of a user's own records. Pure; docs/verdicts.md has examples.

mttr = MTTRCalculator()
mttr.record_failure("checkout", "timeout")
mttr.record_recovery("checkout", "timeout", method="retry", retries=2)
mttr.get_recovery_stats()["mttr_seconds"]
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wirefault.stats.bootstrap import MIN_SEEN
from wirefault.stats.exact import (
    clopper_pearson,
    clustered_rate,
    episodes_to_rule_out,
    percentile_interval,
)
from wirefault.stats.rates import percentile
from wirefault.stats.survival import Duration, kaplan_meier, mean_time, time_interval, time_percentile

PERCENTILES = (50, 90, 95, 99)
CONFIDENCE = 0.9
_ERROR = (1 - CONFIDENCE) / 2
MAX_NINES = 9


@dataclass(frozen=True)
class Outage:
    """A failure of an operation, and how it ended."""

    operation: str
    fault: str
    began: float
    ended: float | None = None
    """When it recovered or was given up; None while it lasts."""
    recovered: bool = False
    method: str = ""
    retries: int = 0
    failures: int = 1
    """Failures recorded until it ended."""
    link: str = ""
    group: str = ""
    """The session or episode; outages of one group may be alike."""

    def duration(self, now: float) -> Duration:
        end = now if self.ended is None else self.ended
        return Duration(max(end - self.began, 0.0), self.recovered, self.group)


@dataclass
class MTTRCalculator:
    """Mean time to recovery, with failures that did not recover as censored times.

    ``clock`` gives the time of a record that has none.
    """

    clock: Callable[[], float] = time.monotonic
    _active: dict[tuple[str, str], Outage] = field(default_factory=dict)
    _ended: list[Outage] = field(default_factory=list)

    def record_failure(self, operation: str, fault: str = "", *, at: float | None = None) -> None:
        """Record a failure. Further ones of the same operation and fault belong to the same outage."""
        now = self.clock() if at is None else at
        known = self._active.get((operation, fault))
        first, failures = (known.began, known.failures + 1) if known else (now, 1)
        self._active[operation, fault] = Outage(operation, fault, first, failures=failures)

    def record_recovery(
        self,
        operation: str,
        fault: str = "",
        *,
        method: str = "",
        retries: int = 0,
        success: bool = True,
        at: float | None = None,
    ) -> None:
        """Record that the operation works again, or with ``success=False`` that it was given up.

        Raises ``ValueError`` without a failure before it, or if it is earlier than that.
        """
        now = self.clock() if at is None else at
        outage = self._active.get((operation, fault))
        if outage is None:
            raise ValueError(f"recovery of {operation!r} ({fault!r}) without a recorded failure")
        if now < outage.began:
            raise ValueError(
                f"recovery of {operation!r} at {now:g} is before its failure at {outage.began:g}"
            )
        if retries < 0:
            raise ValueError(f"retries must be at least 0, not {retries}")
        del self._active[operation, fault]
        self._ended.append(
            Outage(operation, fault, outage.began, now, success, method, retries, outage.failures)
        )

    def get_recovery_stats(self, *, now: float | None = None) -> dict[str, Any]:
        """Return all figures as JSON-like data; figures without data are None.

        ``mttr_seconds`` is the sum of the observed times by the number of outages (IEC 60050-192). An outage
        that did not recover lasted longer than it was observed, so the mean is then a lower bound, and
        ``mttr_is_lower_bound`` says so. A percentile that so few recoveries do not reach is None.
        """
        at = self.clock() if now is None else now
        outages = [*self._ended, *self._active.values()]
        recovered = [each for each in self._ended if each.recovered]
        return {
            **recovery_figures(outages, at),
            "active_failures": len(self._active),
            "retries": sum(each.retries for each in self._ended),
            "retries_per_recovery": (
                sum(each.retries for each in recovered) / len(recovered) if recovered else None
            ),
            "methods": dict(Counter(each.method for each in recovered if each.method)),
            "by_fault": grouped_figures(outages, at, lambda each: each.fault),
            "by_operation": grouped_figures(outages, at, lambda each: each.operation),
            "timeline": [_as_row(each) for each in sorted(outages, key=lambda each: each.began)],
        }


def recovery_figures(outages: Sequence[Outage], now: float) -> dict[str, Any]:
    """Return number, recovery rate with interval, mean and percentiles of outages."""
    durations = [each.duration(now) for each in outages]
    steps = kaplan_meier(durations)
    recovered = sum(each.recovered for each in outages)
    groups = _by_group((each.group, each.recovered) for each in outages)
    interval = clustered_rate(groups, _ERROR, min_mixed=MIN_SEEN) if groups else None
    return {
        "failures": len(outages),
        "recovered": recovered,
        "recovery_rate": recovered / len(outages) if outages else None,
        "recovery_rate_interval": list(interval) if interval else None,
        "mttr_seconds": mean_time(durations),
        "mttr_is_lower_bound": recovered < len(outages) if outages else None,
        **{f"p{each}_seconds": time_percentile(steps, each) for each in PERCENTILES},
        **{
            f"p{each}_interval": list(time_interval(steps, each, CONFIDENCE)) if steps else None
            for each in PERCENTILES
        },
    }


def _by_group(parts: Iterable[tuple[str, bool]]) -> list[tuple[int, int]]:
    """Return successes and size of each group; a part without a group is one of its own."""
    groups: dict[object, tuple[int, int]] = {}
    for place, (group, success) in enumerate(parts):
        successes, size = groups.get(group or place, (0, 0))
        groups[group or place] = successes + success, size + 1
    return list(groups.values())


def grouped_figures(outages: Iterable[Outage], now: float, key: Callable[[Outage], str]) -> dict[str, Any]:
    """Return the figures of the outages by key, in its order."""
    groups: dict[str, list[Outage]] = {}
    for outage in outages:
        groups.setdefault(key(outage), []).append(outage)
    return {name: recovery_figures(group, now) for name, group in sorted(groups.items())}


def _as_row(outage: Outage) -> dict[str, Any]:
    return {
        "operation": outage.operation,
        "fault": outage.fault,
        "failed_at": outage.began,
        "ended_at": outage.ended,
        "recovered": outage.recovered,
        "method": outage.method or None,
        "retries": outage.retries,
    }


@dataclass(frozen=True)
class Nines:
    """Availability, as far as the number of calls shows it."""

    share: float
    low: float
    high: float
    nines: int
    """Nines that the lower limit has: 1 from 90 %, 2 from 99 %."""
    needed: int
    """Calls without a failure that the next nine takes."""


def availability(successes: int, n: int, confidence: float = CONFIDENCE) -> Nines | None:
    """Return the availability with its exact interval and its nines; None without calls."""
    interval = clopper_pearson(successes, n, confidence)
    return None if interval is None else _nines(successes / n, *interval, (1 - confidence) / 2)


def _nines(share: float, low: float, high: float, error: float = _ERROR) -> Nines:
    nines = 0
    while nines < MAX_NINES and low >= 1 - 10.0 ** -(nines + 1):
        nines += 1
    return Nines(share, low, high, nines, episodes_to_rule_out(10.0 ** -(nines + 1), error))


@dataclass(frozen=True)
class ErrorBudget:
    """Failures that an objective allows, and those that occurred."""

    objective: float
    total: float
    consumed: int
    burn: tuple[float, float]
    """Interval of the failure rate as a multiple of the allowed one: above 1 the budget does not last."""

    @property
    def remaining(self) -> float:
        """Share of the budget that is left; negative once it is overspent."""
        return 1 - self.consumed / self.total

    @property
    def burn_rate(self) -> float:
        return self.consumed / self.total


def error_budget(
    failures: int, n: int, objective: float, confidence: float = CONFIDENCE
) -> ErrorBudget | None:
    """Return the error budget of ``n`` calls; None without calls.

    Raises ``ValueError`` unless 0 < objective < 1: an objective of 100 % allows no failure and has no budget.
    """
    if not 0 < objective < 1:
        raise ValueError(f"the objective must be between 0 and 1, not {objective:g}")
    interval = clopper_pearson(failures, n, confidence)
    if interval is None:
        return None
    allowed = 1 - objective
    return ErrorBudget(objective, allowed * n, failures, (interval[0] / allowed, interval[1] / allowed))


@dataclass(frozen=True)
class Objective:
    """A service level objective: a figure and the value that it must reach or not exceed."""

    figure: str
    """``availability``, ``error_rate``, ``p50``, ``p90``, ``p95`` or ``p99``."""
    value: float
    """A share, or seconds."""


@dataclass(frozen=True)
class ObjectiveResult:
    """Whether calls met an objective. ``is_met`` is None if their number does not show it."""

    objective: Objective
    value: float | None
    low: float
    high: float
    is_met: bool | None


@dataclass(frozen=True)
class _Call:
    ok: bool
    seconds: float
    group: str


@dataclass
class ReliabilityTable:
    """Availability, latency and objectives of operations, from a user's own records."""

    objectives: Sequence[Objective] = ()
    _calls: dict[str, list[_Call]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for objective in self.objectives:
            if objective.figure not in _FIGURES:
                raise ValueError(f"unknown figure {objective.figure!r}; valid: {', '.join(_FIGURES)}")

    def record(self, operation: str, ok: bool, seconds: float, *, group: str = "") -> None:
        """Record one call. Raises ``ValueError`` for a negative time.

        ``group``: calls of one session or episode, which may be alike; the intervals then count groups.
        """
        if not seconds >= 0:
            raise ValueError(f"seconds must be at least 0, not {seconds}")
        self._calls.setdefault(operation, []).append(_Call(ok, seconds, group))

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each operation and one for all of them, with n and intervals; no sum of parts."""
        every = [call for calls in self._calls.values() for call in calls]
        groups = {**dict(sorted(self._calls.items())), **({"all": every} if len(self._calls) > 1 else {})}
        return [_row(name, calls, self.objectives) for name, calls in groups.items()]


_FIGURES: Mapping[str, float | None] = {
    "availability": None,
    "error_rate": None,
    "p50": 50,
    "p90": 90,
    "p95": 95,
    "p99": 99,
}


def _row(name: str, calls: Sequence[_Call], objectives: Sequence[Objective]) -> dict[str, Any]:
    times = [call.seconds for call in calls]
    groups = _by_group((call.group, call.ok) for call in calls)
    successes = sum(call.ok for call in calls)
    nines = _nines(successes / len(calls), *clustered_rate(groups, _ERROR, min_mixed=MIN_SEEN))
    results = [_result(each, nines, times, float(len(groups))) for each in objectives]
    return {
        "operation": name,
        "n": len(calls),
        "availability": nines.share,
        "availability_interval": [nines.low, nines.high],
        "nines": nines.nines,
        "calls_for_next_nine": nines.needed,
        **{f"p{each}_seconds": percentile(times, each) for each in PERCENTILES},
        "objectives": [
            {
                "figure": each.objective.figure,
                "objective": each.objective.value,
                "value": each.value,
                "interval": [each.low, each.high],
                "met": each.is_met,
            }
            for each in results
        ],
    }


def _result(objective: Objective, nines: Nines, times: Sequence[float], groups: float) -> ObjectiveResult:
    percent = _FIGURES[objective.figure]
    value: float | None
    if percent is not None:
        low, high = percentile_interval(times, percent, _ERROR, groups)
        value = percentile(times, percent)
    elif objective.figure == "availability":
        value, low, high = nines.share, nines.low, nines.high
    else:
        value, low, high = 1 - nines.share, 1 - nines.high, 1 - nines.low
    if objective.figure == "availability":
        is_met = True if low >= objective.value else False if high < objective.value else None
    else:
        is_met = True if high <= objective.value else False if low > objective.value else None
    return ObjectiveResult(objective, value, low, high, is_met)
