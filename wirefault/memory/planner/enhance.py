"""Improve an experiment by what memory knows. Pure: the caller's object is never changed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from statistics import median
from typing import Any

from wirefault.experiments.checks import KEYS
from wirefault.judging.findings.rules import RULES
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.memory.knowledge import Knowledge
from wirefault.memory.trials import Trial

Enhancement = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes a copy of the experiment, and returns the improved one."""
_RULES = frozenset(rule.name for rule in RULES)
_LIMITS = frozenset(("no_time_limit", "runaway"))
_MAX_PATTERNS = 12
_MIN_LIMIT_S = 5.0


CHECKS = ("checks",)
"""The place of an experiment's checks."""


@dataclass(frozen=True)
class Check:
    """A check that past failures call for: ``monitoring``, ``rollback``, ``timeout``, ``prevent_<pattern>``.

    ``value`` is added to the list ``key`` of the experiment, which executes it.
    """

    name: str
    key: tuple[str, ...]
    value: Any


@dataclass(frozen=True)
class Metric:
    """A quantity to watch. ``measure``: of the statements, which every run computes; empty: not measured."""

    name: str
    measure: str = ""


_METRICS = ("cpu_usage", "memory_usage", "error_rate", "latency")
_METRICS_OF: Mapping[str, tuple[str, ...]] = {
    "database": ("connection_count", "query_latency", "transaction_rate"),
    "cache": ("hit_rate", "eviction_rate", "memory_fragmentation"),
}
# the inside of an upstream is not visible on its link
_MEASURES: Mapping[str, str] = {"error_rate": "failures", "latency": "p95"}
_WORDS: Mapping[str, frozenset[str]] = {
    "database": frozenset(("database", "db", "sql", "postgres", "postgresql", "mysql", "sqlite", "mongo")),
    "cache": frozenset(("cache", "redis", "memcached", "valkey")),
}


def metrics_for(link: str) -> list[Metric]:
    """The metrics to watch while a link has a fault; more for a database and for a cache, by its name."""
    words = set(re.split(r"[^a-z]+", link.lower()))
    further = (name for kind, own in _WORDS.items() if own & words for name in _METRICS_OF[kind])
    return [Metric(name, _MEASURES.get(name, "")) for name in (*_METRICS, *further)]


def checks_for(failures: Collection[str], clean_seconds: float = 0.0) -> list[Check]:
    """The checks that these failures call for, by outcome or rule. ``clean_seconds`` of a clean episode."""
    if not failures:
        return []
    checks = [
        Check("monitoring", ("safety", "abort"), "error_rate > 90 %"),
        Check("rollback", ("steady_state",), "crash == 0"),
    ]
    if _LIMITS & set(failures):
        seconds = max(_MIN_LIMIT_S, 3 * clean_seconds)
        checks.append(Check("timeout", CHECKS, f"seconds <= {seconds:.3g}"))
    for name in list(failures)[:_MAX_PATTERNS]:
        if name in _RULES:
            checks.append(Check(f"prevent_{name}", CHECKS, {"no_finding": name}))
        elif name in OUTCOMES:
            checks.append(Check(f"prevent_{name}", CHECKS, f"no {name}"))
    return checks


def with_checks(experiment: Mapping[str, Any], checks: Iterable[Check]) -> dict[str, Any]:
    """A copy of the experiment with the checks that it does not have yet."""
    copy = deepcopy(dict(experiment))
    for check in checks:
        *path, last = check.key
        place = copy
        for name in path:
            place = place.setdefault(name, {})
        names = KEYS if check.key == CHECKS else (last,)
        if not any(check.value in (place.get(name) or ()) for name in names):
            place.setdefault(last, []).append(deepcopy(check.value))
    return copy


def within_safe_ranges(
    entries: Sequence[Mapping[str, Any]], known: Iterable[Knowledge], besides: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Copies of a fault set's entries, their numbers clamped to the doses that were survived.

    Numbers without such doses, and those named in ``besides``, stay.
    """
    copies = [deepcopy(dict(entry)) for entry in entries]
    safe = {(each.fault, each.component): each.ranges for each in known}
    for entry in copies:
        for link in entry.get("links") or ():
            for bounds in safe.get((str(entry.get("fault", "")), f"link {link}"), ()):
                values = entry.get("when" if bounds.name == "probability" else "with")
                if bounds.survived is None or bounds.name in besides or not isinstance(values, dict):
                    continue
                number = values.get(bounds.name)
                if isinstance(number, int | float) and not isinstance(number, bool):
                    values[bounds.name] = clamped(number, bounds.survived.low, bounds.survived.high)
    return copies


def clamped(number: float, low: float, high: float) -> float:
    """The number within the bounds; the lower bound for one that is not finite."""
    return min(max(number, low), high) if math.isfinite(number) else low


def shortened(seconds: float, similar: Iterable[Trial]) -> float:
    """The median duration of similar successes, if that is shorter; never longer."""
    durations = [
        each.duration
        for each in similar
        if each.outcome == "success" and math.isfinite(each.duration) and each.duration > 0
    ]
    return min(seconds, median(durations)) if durations else seconds


def failures_in(known: Iterable[Knowledge]) -> list[str]:
    """The rules that fired under faults more often than without, the most frequent first."""
    rules = {
        pattern.rule: pattern.with_fault.k
        for each in known
        for pattern in each.patterns
        if (pattern.with_fault.rate or 0.0) > (pattern.without.rate or 0.0)
    }
    return sorted(rules, key=lambda rule: (-rules[rule], rule))


def enhanced(
    experiment: Mapping[str, Any],
    known: Sequence[Knowledge],
    similar: Sequence[Trial] = (),
    custom: Mapping[str, Enhancement] = {},
    *,
    beyond_safe: bool = False,
) -> dict[str, Any]:
    """A copy of the experiment with safe parameters, the checks that past failures call for, and shorter.

    ``custom``: further enhancements by name, in their order. ``beyond_safe``: leave the parameters.
    """
    copy = deepcopy(dict(experiment))
    for arm in _arms(copy):
        faults = arm.get("faults")
        if not isinstance(faults, dict) or not isinstance(faults.get("faults"), list):
            continue
        if not beyond_safe:
            faults["faults"] = within_safe_ranges(faults["faults"], known)
        for entry in faults["faults"]:
            _shorten(entry.get("during"), "duration", similar)
    _shorten(copy.get("limits"), "time", similar)
    copy = with_checks(copy, checks_for(failures_in(known)))
    for enhance in custom.values():
        copy = dict(enhance(deepcopy(copy)))
    return copy


def _arms(experiment: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for arm in (experiment.get("method"), *(experiment.get("variants") or {}).values()):
        if isinstance(arm, dict):
            yield arm


def _shorten(place: Any, name: str, similar: Iterable[Trial]) -> None:
    if isinstance(place, dict) and isinstance(place.get(name), int | float):
        place[name] = shortened(float(place[name]), similar)
