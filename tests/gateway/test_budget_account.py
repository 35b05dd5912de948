"""Admission of the next request by usage, limits and mode."""

from __future__ import annotations

import pytest

from wirefault.gateway.budgets.account import Account, Used, refusal_of, slowdown
from wirefault.settings.budgets import Budget

NOW = 1_000_000.0


def account(calls: int = 0, **fields: object) -> Account:
    taken = Account(**fields)
    for number in range(calls):
        taken.begin(NOW - 59 + number)
        taken.take_call("0", NOW - 59 + number, remembered=2)
    return taken


def test_run_time_is_bounded_by_budget():
    assert refusal_of(Budget(time=60), "hard", account(1), NOW) is None
    assert refusal_of(Budget(time=59), "hard", account(1), NOW).by == Used("time", 59, 59)
    assert refusal_of(Budget(time=59), "hard", Account(), NOW) is None


def test_rate_frees_up_after_minute():
    refused = refusal_of(Budget(requests_a_minute=2), "hard", account(3), NOW)
    assert (refused.how, refused.retry_after) == ("busy", 2)  # the second of three was 58 s ago
    assert refusal_of(Budget(requests_a_minute=2), "hard", account(3), NOW + 2) is None


def test_ended_call_is_not_in_progress():
    open_ = account(2)
    assert refusal_of(Budget(concurrent=2), "hard", open_, NOW).how == "busy"
    open_.end_call("0")
    assert refusal_of(Budget(concurrent=2), "hard", open_, NOW) is None


@pytest.mark.parametrize(
    ("mode", "throttled", "how"),
    [("hard", 9, "spent"), ("end", 0, "spent"), ("degrading", 2, "throttled"), ("degrading", 3, "unpaid")],
)
def test_budget_mode_selects_refusal(mode, throttled, how):
    assert refusal_of(Budget(tokens=5), mode, account(tokens=5, throttled=throttled), NOW).how == how


@pytest.mark.parametrize(("used", "seconds"), [(0, 0), (50, 0), (75, 0.5), (100, 1), (300, 1)])
def test_degrading_budget_slows_from_half(used, seconds):
    assert slowdown(Used("tokens", used, 100)) == seconds
