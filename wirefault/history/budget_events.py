"""What is recorded of budgets: by the gateway, for requests, and by the runner, for the subject itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wirefault.settings.budgets import OF_SUBJECT


@dataclass(frozen=True)
class BudgetWarned:
    """So much of a budget is used up that a warning was asked for (``warn_at``), once for each account.

    ``budget``: its place, as ``episode.tokens``; ``used`` and ``limit`` in its own unit. The account of a
    ``run`` budget is one for all its episodes; then ``episode`` is the one in which that was seen.
    """

    t: float
    episode: str
    attempt: int
    budget: str
    used: float
    limit: float
    event: Literal["budget_warned"] = "budget_warned"

    @property
    def of_subject(self) -> bool:
        """Whether the runner recorded it."""
        return self.budget in OF_SUBJECT


@dataclass(frozen=True)
class BudgetSpent:
    """A budget is used up and was asked for more, told once in an episode: what it has refused is in the
    exchanges. ``ends``: the episode is to end by it, as ``runaway``. Fields as of ``BudgetWarned``."""

    t: float
    episode: str
    attempt: int
    budget: str
    used: float
    limit: float
    ends: bool = False
    event: Literal["budget_spent"] = "budget_spent"

    @property
    def of_subject(self) -> bool:
        """Whether the runner recorded it."""
        return self.budget in OF_SUBJECT


@dataclass(frozen=True)
class BudgetUnknown:
    """How much of a budget is used up cannot be known from now on, so that more may be than was counted.

    ``why``: a reply did not tell its tokens, its model has no price, or the memory cannot be read; told once
    in an episode for each. ``model``: whose reply it was.
    """

    t: float
    episode: str
    attempt: int
    budget: str
    why: Literal["no_usage", "no_price", "no_memory"]
    model: str = ""
    event: Literal["budget_unknown"] = "budget_unknown"

    @property
    def of_subject(self) -> bool:
        """Whether the runner recorded it."""
        return self.budget in OF_SUBJECT
