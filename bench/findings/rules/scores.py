"""Count the hits and false positives of the rules over the cases, and read and write the scores file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.findings.rules.cases import HERE, Case
from wirefault.stats.rates import percent, wilson

SCORES = HERE / "scores.json"
Reported = Mapping[str, Sequence[str]]
"""The rules that reported each case, by its name."""


@dataclass(frozen=True)
class Score:
    """Counts of findings, compared with the labels."""

    expected: int
    """Expected findings."""
    hits: int
    """Expected findings that the rules made."""
    look_alikes: int
    false: int
    """Look-alikes that a rule reported."""
    too_many: int
    """Other clients that a rule reported by mistake."""

    @property
    def sentence(self) -> str:
        return (
            f"{self.hits} of {self.expected} expected findings"
            f" ({percent_interval(self.hits, self.expected)}),"
            f" {self.false} of {self.look_alikes} look-alikes reported by mistake"
            f" ({percent_interval(self.false, self.look_alikes)}),"
            f" {self.too_many} other programs with an extra finding"
        )


def percent_interval(count: int, total: int) -> str:
    """Return the 95 % Wilson interval of a share, in words."""
    bounds = wilson(count, total)
    return f"95 % interval {percent(bounds[0])} to {percent(bounds[1])}" if bounds else "no case"


def score_of(cases: Iterable[Case], reported: Reported) -> Score:
    """Score the cases that have results."""
    ran = [(case, frozenset(reported[case.name])) for case in cases if case.name in reported]
    similar = [(case, rules) for case, rules in ran if not case.fires]
    return Score(
        expected=sum(len(case.fires) for case, _ in ran),
        hits=sum(len(case.fires & rules) for case, rules in ran),
        look_alikes=len(similar),
        false=sum(bool(rules) for _, rules in similar),
        too_many=sum(bool(rules - case.fires) for case, rules in ran if case.fires),
    )


def read_scores() -> dict[str, Any]:
    """Return the scores of each batch's ``first`` run, and the ``reported`` findings by case."""
    if not SCORES.exists():
        return {"first": {}, "reported": {}}
    data: dict[str, Any] = json.loads(SCORES.read_text(encoding="utf-8"))
    return data


def write_scores(cases: Sequence[Case], reported: Reported) -> None:
    """Write the findings of this run. The scores of a batch's first run never change."""
    first = read_scores()["first"]
    for batch in sorted({str(case.batch) for case in cases} - first.keys()):
        first[batch] = asdict(score_of([case for case in cases if str(case.batch) == batch], reported))
    data = {"first": first, "reported": {case.name: sorted(reported[case.name]) for case in cases}}
    SCORES.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
