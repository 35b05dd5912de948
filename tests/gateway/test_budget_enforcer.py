"""What the keeper makes of several budgets at once, by a clock that stands where the test puts it."""

from __future__ import annotations

from pathlib import Path

from wirefault.gateway.budgets.enforcer import BudgetEnforcer, Spender
from wirefault.history.events import BudgetUnknown, Event
from wirefault.settings.budgets import Budget, Budgets, EpisodeBudget


class Kept:
    """A keeper, and how it answers requests to a model in one episode."""

    def __init__(self, folder: Path, budgets: Budgets) -> None:
        self.now = 1_000_000.0
        self.told: list[Event] = []
        self._keeper = BudgetEnforcer(budgets, {}, folder, 0, lambda: self.now)

    def ask(self, episode: str = "e", *, answered: bool = False) -> str:
        """The fault that the request meets, empty if none; what is let through is over at once."""
        entries, charge = self._keeper.admit(Spender(episode, 1, "model", True), self.told.append)
        if charge is not None:
            charge.settle(answered=answered, record=self.told.append)
        return f"{entries[0].id} {entries[0].fault.name}" if entries else ""


def test_what_a_rate_refuses_does_not_bring_402_nearer(tmp_path):
    episode = EpisodeBudget(requests_a_minute=1, calls=2)
    kept = Kept(tmp_path, Budgets(episode=episode, mode="degrading"))
    assert kept.ask() == ""
    assert [kept.ask() for _ in range(9)] == ["budget:episode.requests_a_minute rate_limit"] * 9
    kept.now += 60
    assert kept.ask() == ""
    kept.now += 60
    refused = [kept.ask() for _ in range(4)]
    assert refused == ["budget:episode.calls rate_limit"] * 3 + ["budget:episode.calls quota"]


def test_the_budget_of_which_most_is_used_slows_it_down(tmp_path):
    episode, run = EpisodeBudget(calls=100), Budget(calls=4)
    kept = Kept(tmp_path, Budgets(episode=episode, run=run, mode="degrading"))
    assert [kept.ask(f"e{number}") for number in range(4)] == ["", "", "", "budget:run.calls delay"]


def test_what_is_unknown_is_told_once_in_each_episode(tmp_path):
    kept = Kept(tmp_path, Budgets(run=Budget(tokens=9)))
    for episode in ("a", "a", "b"):
        kept.ask(episode, answered=True)
    assert [(e.episode, e.why) for e in kept.told if isinstance(e, BudgetUnknown)] == [
        ("a", "no_usage"),
        ("b", "no_usage"),
    ]
