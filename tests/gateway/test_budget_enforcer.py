"""Several budgets at once, with a fake clock."""

from __future__ import annotations

from pathlib import Path

from wirefault.gateway.budgets.enforcer import BudgetEnforcer, Spender
from wirefault.history.events import BudgetUnknown, Event
from wirefault.settings.budgets import Budget, Budgets, EpisodeBudget


class Enforced:
    """An enforcer, and its answers to requests to a model in one episode."""

    def __init__(self, folder: Path, budgets: Budgets) -> None:
        self.now = 1_000_000.0
        self.events: list[Event] = []
        self._enforcer = BudgetEnforcer(budgets, {}, folder, 0, lambda: self.now)

    def ask(self, episode: str = "e", *, answered: bool = False) -> str:
        """The fault that a request meets, empty if none; admitted requests are settled at once."""
        entries, charge = self._enforcer.admit(Spender(episode, 1, "model", True), self.events.append)
        if charge is not None:
            charge.settle(answered=answered, record=self.events.append)
        return f"{entries[0].id} {entries[0].fault.name}" if entries else ""


def test_rate_refusals_do_not_count_towards_402(tmp_path):
    episode = EpisodeBudget(requests_a_minute=1, calls=2)
    account = Enforced(tmp_path, Budgets(episode=episode, mode="degrading"))
    assert account.ask() == ""
    assert [account.ask() for _ in range(9)] == ["budget:episode.requests_a_minute rate_limit"] * 9
    account.now += 60
    assert account.ask() == ""
    account.now += 60
    refused = [account.ask() for _ in range(4)]
    assert refused == ["budget:episode.calls rate_limit"] * 3 + ["budget:episode.calls quota"]


def test_fullest_budget_sets_delay(tmp_path):
    episode, run = EpisodeBudget(calls=100), Budget(calls=4)
    account = Enforced(tmp_path, Budgets(episode=episode, run=run, mode="degrading"))
    assert [account.ask(f"e{number}") for number in range(4)] == [
        "",
        "",
        "",
        "budget:run.calls delay",
    ]


def test_unknown_usage_is_recorded_once_per_episode(tmp_path):
    account = Enforced(tmp_path, Budgets(run=Budget(tokens=9)))
    for episode in ("a", "a", "b"):
        account.ask(episode, answered=True)
    assert [(e.episode, e.why) for e in account.events if isinstance(e, BudgetUnknown)] == [
        ("a", "no_usage"),
        ("b", "no_usage"),
    ]
