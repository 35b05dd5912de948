"""Error rates of verdicts in simulated runs; `python -m bench.verdicts` does the same with more runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench.verdicts import measure_verdicts

RUNS = 1000


@pytest.fixture(scope="module")
def tables() -> dict[str, list[dict[str, Any]]]:
    return measure_verdicts(RUNS)


def at_most(bound: float, runs: int = RUNS) -> float:
    """The bound with three standard errors of the simulation."""
    return bound + 3 * math.sqrt(bound * (1 - bound) / runs)


@pytest.mark.parametrize("title", ["one claim, fixed n", "one claim until decided"])
def test_wrong_verdicts_of_one_claim_are_at_most_five_percent(
    tables: dict[str, list[dict[str, Any]]], title: str
) -> None:
    for row in tables[title]:
        assert row["held" if row["true rate"] < 0.9 else "deviated"] <= at_most(0.05), row


def test_intervals_of_rates_cover(tables: dict[str, list[dict[str, Any]]]) -> None:
    assert all(1 - row["covers"] <= at_most(0.1) for row in tables["interval of a rate"])
    repeated = [row for title, rows in tables.items() if ", 5 prompts" in title for row in rows]
    repeated += tables["interval of pass^3, other prompts"]
    assert len(repeated) == 9 and all(1 - row["covers"] <= at_most(0.1, 50) for row in repeated)


def test_unequal_prompts_and_several_claims_keep_the_bound(tables: dict[str, list[dict[str, Any]]]) -> None:
    [unequal], [several] = tables["unequal prompts until decided"], tables["six claims until decided"]
    assert max(unequal["held"], unequal["deviated"]) <= at_most(0.05)
    assert several["any deviated, shared error"] <= at_most(0.05, RUNS // 6)


def test_approximate_interval_of_recovery_stays_below_one_and_a_half_alpha(
    tables: dict[str, list[dict[str, Any]]],
) -> None:
    rows = tables["interval of the median time to recovery"]
    assert all(1 - row["covers"] <= at_most(0.15, 50) for row in rows if row["failures"] >= 60)
