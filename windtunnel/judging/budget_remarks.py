"""What a summary says of budgets that could not be kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from windtunnel.history.events import BudgetUnknown, Event

_WORDS: Mapping[str, str] = {
    "no_usage": "replies did not tell their tokens",
    "no_price": "a model has no price",
    "no_memory": "the subject's memory cannot be read here",
}


def budget_remarks(events: Iterable[Event]) -> Iterator[str]:
    """Which budgets could not be counted in how many episodes, and why, a sentence each."""
    episodes: dict[tuple[str, str], set[str]] = {}
    for event in events:
        if isinstance(event, BudgetUnknown):
            model = f" ({event.model})" if event.why == "no_price" and event.model else ""
            episodes.setdefault((event.budget, _WORDS[event.why] + model), set()).add(event.episode)
    for (budget, why), unknown_in in sorted(episodes.items()):
        count = f"{len(unknown_in)} episode" + ("s" if len(unknown_in) > 1 else "")
        yield f"the budget {budget} could not be counted in {count}: {why}; it may have allowed too much"
