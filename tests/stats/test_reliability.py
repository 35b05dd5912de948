"""Recovery times and reliability of a user's own records."""

from __future__ import annotations

import pytest

from wirefault.stats.reliability import (
    MTTRCalculator,
    Objective,
    ReliabilityTable,
    availability,
    error_budget,
)


def test_recovery_stats_of_recorded_failures() -> None:
    mttr = MTTRCalculator()
    for number, took in enumerate((1.0, 3.0, 2.0)):
        mttr.record_failure("pay", "timeout", at=10.0 * number)
        mttr.record_failure("pay", "timeout", at=10.0 * number + 0.5)  # the same outage
        mttr.record_recovery("pay", "timeout", method="retry", retries=2, at=10.0 * number + took)
    stats = mttr.get_recovery_stats(now=100.0)
    assert (stats["mttr_seconds"], stats["mttr_is_lower_bound"], stats["p50_seconds"]) == (2.0, False, 2.0)
    assert (stats["recovery_rate"], stats["retries"], stats["retries_per_recovery"]) == (1.0, 6, 2.0)
    assert stats["methods"] == {"retry": 3} and stats["by_fault"]["timeout"]["failures"] == 3
    assert stats["recovery_rate_interval"][0] == pytest.approx(0.05 ** (1 / 3))
    assert [row["failed_at"] for row in stats["timeline"]] == [0.0, 10.0, 20.0]


def test_unrecovered_failures_are_censored_not_left_out() -> None:
    mttr = MTTRCalculator()
    mttr.record_failure("pay", "reset", at=0.0)
    mttr.record_recovery("pay", "reset", at=1.0)
    mttr.record_failure("pay", "reset", at=10.0)
    mttr.record_recovery("pay", "reset", success=False, at=60.0)
    mttr.record_failure("search", "reset", at=70.0)
    stats = mttr.get_recovery_stats(now=100.0)
    assert stats["mttr_is_lower_bound"] and stats["mttr_seconds"] > 20
    assert (stats["recovered"], stats["failures"], stats["active_failures"]) == (1, 3, 1)
    assert stats["p99_seconds"] is None
    assert stats["by_operation"]["search"]["mttr_is_lower_bound"]


def test_mean_of_outages_given_up_early_is_a_lower_bound() -> None:
    mttr = MTTRCalculator()
    for place in range(4):
        mttr.record_failure("pay", "reset", at=100.0 * place)
        mttr.record_recovery("pay", "reset", success=False, at=100.0 * place + 0.1)
    mttr.record_failure("pay", "reset", at=500.0)
    mttr.record_recovery("pay", "reset", at=510.0)
    stats = mttr.get_recovery_stats()
    assert stats["mttr_seconds"] == pytest.approx((4 * 0.1 + 10) / 5) and stats["mttr_is_lower_bound"]


def test_without_failures_there_is_no_data() -> None:
    stats = MTTRCalculator().get_recovery_stats()
    assert (stats["mttr_seconds"], stats["recovery_rate"], stats["p50_seconds"]) == (None, None, None)


def test_recovery_without_failure_is_refused() -> None:
    mttr = MTTRCalculator(clock=lambda: 5.0)
    with pytest.raises(ValueError, match="without a recorded failure"):
        mttr.record_recovery("pay")
    mttr.record_failure("pay")
    with pytest.raises(ValueError, match="before its failure"):
        mttr.record_recovery("pay", at=1.0)


def test_nines_are_those_that_n_shows() -> None:
    few, many = availability(50, 50), availability(299, 299)
    assert few is not None and (few.nines, few.needed) == (1, 299)
    assert many is not None and (many.nines, many.needed) == (2, 2995)
    assert availability(0, 0) is None


def test_error_budget_has_interval_of_its_burn() -> None:
    budget = error_budget(3, 100, 0.99)
    assert (
        budget is not None and budget.burn_rate == pytest.approx(3) and budget.remaining == pytest.approx(-2)
    )
    assert budget.burn[0] < 1 < budget.burn[1]  # 3 of 100 do not show that the objective is missed
    with pytest.raises(ValueError, match="between 0 and 1"):
        error_budget(0, 10, 1.0)


def test_table_says_whether_objectives_are_met_or_unknown() -> None:
    table = ReliabilityTable([Objective("availability", 0.9), Objective("p50", 0.2), Objective("p99", 2.0)])
    for number in range(100):
        table.record("search", ok=number % 50 != 0, seconds=0.1)
    table.record("pay", ok=True, seconds=0.5)
    pay, search, every = sorted(table.rows(), key=lambda row: (row["operation"] == "all", row["operation"]))
    assert [each["met"] for each in search["objectives"]] == [True, True, None]
    assert [each["met"] for each in pay["objectives"]] == [None, None, None] and every["n"] == 101
    assert (search["n"], search["nines"]) == (100, 1)


def test_mistakes_in_records_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown figure 'p42'"):
        ReliabilityTable([Objective("p42", 1.0)])
    with pytest.raises(ValueError, match="at least 0"):
        ReliabilityTable().record("pay", ok=True, seconds=-1.0)


def test_calls_of_one_session_count_as_one() -> None:
    table, grouped = ReliabilityTable(), ReliabilityTable()
    for number in range(100):
        table.record("search", ok=True, seconds=0.1)
        grouped.record("search", ok=True, seconds=0.1, group=f"session {number % 10}")
    [alone], [together] = table.rows(), grouped.rows()
    assert alone["availability_interval"][0] == pytest.approx(0.05 ** (1 / 100)) and alone["nines"] == 1
    assert together["availability_interval"][0] == pytest.approx(0.05 ** (1 / 10)) and together["nines"] == 0
