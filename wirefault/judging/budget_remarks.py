"""What a summary says of budgets that could not be kept, or had nothing to count. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from wirefault.history.events import BudgetUnknown, Event, Exchange
from wirefault.settings.budgets import Budgets

_WORDS: Mapping[str, str] = {
    "no_usage": "replies did not tell their tokens",
    "no_price": "a model has no price",
    "no_memory": "the subject's memory cannot be read here",
}


def budget_remarks(events: Iterable[Event], budgets: Budgets | None) -> Iterator[str]:
    """Which ``budgets`` of the run could not be counted in how many episodes, and why, a sentence each.

    Such as count at links of one kind alone are named too where no request went to one.
    """
    met = set()
    episodes: dict[tuple[str, str], set[str]] = {}
    for event in events:
        if isinstance(event, BudgetUnknown):
            model = f" ({event.model})" if event.why == "no_price" and event.model else ""
            episodes.setdefault((event.budget, _WORDS[event.why] + model), set()).add(event.episode)
        elif isinstance(event, Exchange):
            met.add(event.of_model)
    for (budget, why), unknown_in in sorted(episodes.items()):
        count = f"{len(unknown_in)} episode" + ("s" if len(unknown_in) > 1 else "")
        yield f"the budget {budget} could not be counted in {count}: {why}; it may have allowed too much"
    for of_model, kind in ((True, "model"), (False, "tool")):
        counted = _counted_there_alone(budgets, of_model=of_model) if budgets else []
        if counted and of_model not in met:
            yield f"no request went to a {kind}, so that nothing was counted for {', '.join(counted)}"


def _counted_there_alone(budgets: Budgets, *, of_model: bool) -> list[str]:
    """The budgets that links to models count, or links to tools, and the others do not."""
    there, elsewhere = (
        {
            f"{scope}.{name}"
            for scope, budget in budgets.at_gateway(of_model=place).items()
            for name in budget.model_dump(exclude_none=True)
        }
        for place in (of_model, not of_model)
    )
    return sorted(there - elsewhere)
