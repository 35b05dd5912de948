"""An arm's failures for its report: costs, recovery, reliability, error budgets, recovery quality. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.estimates import Terms, prompt_of
from wirefault.experiments.figures import ADDED, PER_EPISODE, SLOWDOWN
from wirefault.experiments.hypothesis import parse_statements
from wirefault.experiments.measure import Measure
from wirefault.stats.reliability import ErrorBudget, Outage, ReliabilityTable, grouped_figures

_WITHOUT_FAULT = "none known"
_OF_OBJECTIVES = ("availability", "success_rate")


@dataclass(frozen=True)
class Cost:
    """A cost per episode, and its paired rise against the control."""

    name: str
    figure: Measure
    added: Measure | None
    """None without a control."""


@dataclass(frozen=True)
class Recovery:
    """The recovery of some failures; ``by`` is ``all``, ``link``, ``fault`` or ``operation``."""

    by: str
    name: str
    figures: Mapping[str, Any]
    """As ``MTTRCalculator`` has them."""
    unknown: int
    """Failures that may have recovered or not: they widen the interval of the rate, and their times
    are censored."""


@dataclass(frozen=True)
class Budget:
    """The error budget that a statement of the hypothesis allows."""

    statement: str
    n: int
    budget: ErrorBudget


_RECOVERY_QUALITY: Mapping[str, str] = {
    "correctness": "recovery_correctness",
    "completeness": "recovery_completeness",
    "timeliness": SLOWDOWN,
    "resource efficiency": "recovery_efficiency",
    "state consistency": "recovery_consistency",
}


@dataclass(frozen=True)
class Resilience:
    """What failures cost an arm, and how it got over them."""

    arm: ArmFacts
    measures: Mapping[str, Measure]
    """With those against the control, where there is one."""
    terms: Terms
    hypothesis: Sequence[str] = ()

    @cached_property
    def costs(self) -> list[Cost]:
        """The costs of failed tries, and the figures that only their rise against the control shows."""
        names = sorted(PER_EPISODE, key=lambda name: not PER_EPISODE[name].rare)
        costs = [Cost(name, self._figure(name), self._added(name)) for name in names]
        return [cost for cost in costs if PER_EPISODE[cost.name].rare or cost.added is not None]

    @cached_property
    def amplification(self) -> Measure:
        """Requests for each logical call whose first request failed."""
        return self._figure("amplification")

    @cached_property
    def recovery(self) -> list[Recovery]:
        """All failures, then by link, fault and operation; empty without any."""
        outages = [
            Outage(
                f"{each.link}: {each.operation}",
                each.fault or _WITHOUT_FAULT,
                0.0,
                each.seconds,
                each.end == "recovered",
                link=each.link,
                group=self._group(key),
            )
            for key, of_episode in self.arm.outages.items()
            for each in of_episode.outages
        ]
        ends = [each.end for of_episode in self.arm.outages.values() for each in of_episode.outages]
        keys: Mapping[str, Callable[[Outage], str]] = {
            "all": lambda _: "all",
            "link": lambda outage: outage.link,
            "fault": lambda outage: outage.fault,
            "operation": lambda outage: outage.operation,
        }
        rows = []
        at_best = [
            replace(each, recovered=end != "not_recovered") for each, end in zip(outages, ends, strict=True)
        ]
        for by, key in keys.items():
            names = [key(outage) for outage in outages]
            best = grouped_figures(at_best, 0.0, key)
            for name, figures in grouped_figures(outages, 0.0, key).items():
                unknown = sum(pair == (name, "unknown") for pair in zip(names, ends, strict=True))
                if unknown:
                    low, high = (each["recovery_rate_interval"] for each in (figures, best[name]))
                    figures |= {"recovery_rate": None, "recovery_rate_interval": [low[0], high[1]]}
                rows.append(Recovery(by, name, figures, unknown))
        return rows

    @cached_property
    def reliability(self) -> list[dict[str, Any]]:
        """Availability and times of the logical calls by operation, without those whose end is unknown."""
        table = ReliabilityTable()
        for episode in self.arm.valid.episodes:
            for call in episode.calls:
                if call.ok is not None:
                    operation = f"{call.link}: {call.operation}"
                    table.record(operation, call.ok, call.seconds, group=self._group(episode.episode))
        return table.rows()

    @cached_property
    def error_budgets(self) -> list[Budget]:
        """Of the statements that set an objective for the availability or the success rate."""
        statements = (each for text in self.hypothesis for each in parse_statements(text))
        return [budget for each in statements if (budget := self._budget(each.text)) is not None]

    @cached_property
    def quality(self) -> list[tuple[str, Measure]]:
        """The parts of recovery quality, in the episodes that a fault reached; they have no sum."""
        return [(part, self._figure(name)) for part, name in _RECOVERY_QUALITY.items()]

    def as_json(self) -> dict[str, Any]:
        """One JSON object; figures that are not known are null."""
        return {
            "cost_of_faults": [
                {"name": each.name, **each.figure.as_json(), "added": each.added and each.added.as_json()}
                for each in self.costs
            ],
            "amplification": self.amplification.as_json(),
            "recovery": {
                "whole": self.arm.shows_all_outages,
                "rows": [
                    {"by": row.by, "name": row.name, **row.figures, "unknown": row.unknown}
                    for row in self.recovery
                ],
            },
            "reliability": [_without_infinity(row) for row in self.reliability],
            "error_budgets": [
                {
                    "statement": each.statement,
                    "objective": each.budget.objective,
                    "n": each.n,
                    "total": each.budget.total,
                    "consumed": each.budget.consumed,
                    "remaining": each.budget.remaining,
                    "burn_rate": each.budget.burn_rate,
                    "burn_rate_interval": list(each.budget.burn),
                }
                for each in self.error_budgets
            ],
            "recovery_quality": [{"part": part, **figure.as_json()} for part, figure in self.quality],
        }

    def _group(self, episode: str) -> str:
        return episode if self.terms.population == "these" else prompt_of(episode)

    def _added(self, name: str) -> Measure | None:
        return self._figure(f"{ADDED}{name}") if f"{ADDED}{name}" in self.measures else None

    def _figure(self, name: str) -> Measure:
        return self.measures.get(name, Measure(None, reason="no data: no control to compare with"))

    def _budget(self, text: str) -> Budget | None:
        [statement] = parse_statements(text)
        comparison = statement.expression.comparison
        if comparison is None or statement.faulted or comparison.sign not in (">=", ">"):
            return None
        measure = self.measures.get(comparison.measure)
        objective = float(comparison.threshold)
        if comparison.measure not in _OF_OBJECTIVES or measure is None or not 0 < objective < 1:
            return None
        estimate = measure.estimate
        if estimate is None or estimate.value is None:
            return None
        interval, allowed = estimate.interval(self.terms.error), 1 - objective
        burn = (1 - float(interval.high)) / allowed, (1 - float(interval.low)) / allowed
        failed = round((1 - estimate.value) * estimate.n)
        return Budget(text, estimate.n, ErrorBudget(objective, allowed * estimate.n, failed, burn))


def _without_infinity(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinity(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_infinity(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
