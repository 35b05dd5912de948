"""Accounts of used budgets: the decision about the next request, and where an account is kept.

``wirefault.settings.budgets`` describes limits, modes and refusals.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from wirefault.core.files import open_shared
from wirefault.settings.budgets import Budget, BudgetMode

Refusal = Literal["busy", "throttled", "unpaid", "spent"]
"""``busy``: too many requests at once or in a minute. ``throttled`` and then ``unpaid``: a budget that
degrades is used up. ``spent``: any other budget is used up."""

SLOWER_FROM = 0.5
MAX_DELAY_S = 1.0
# the first refusals of a budget that degrades are 429, later ones 402
THROTTLED = 3
_MINUTE_S = 60.0
_RETRY_S = 1.0


@dataclass
class Account:
    """Tokens, cost (USD) and calls used so far. Times are seconds since the epoch."""

    tokens: int = 0
    cost: float = 0.0
    calls: int = 0
    throttled: int = 0
    """Requests that a used-up budget that degrades has answered with 429."""
    began: float | None = None
    """When the first request was admitted."""
    recent: list[float] = field(default_factory=list)
    """When the last requests were admitted, as many as a rate allows in a minute."""
    open: dict[str, int] = field(default_factory=dict)
    """Requests in progress, by lane."""
    warned: list[str] = field(default_factory=list)
    """Budgets whose warning is in the history."""

    def begin(self, now: float) -> None:
        """A request is admitted."""
        self.began = now if self.began is None else self.began

    def take_call(self, lane: str, now: float, remembered: int = 0) -> None:
        """Count a call, and remember the times of that many last calls."""
        self.calls += 1
        self.recent = [*self.recent, now][-remembered:] if remembered else []
        self.open[lane] = self.open.get(lane, 0) + 1

    def last_minute(self, now: float) -> list[float]:
        """Return when requests were admitted, in order; times before the clock was set back are left out."""
        return [moment for moment in self.recent if 0 <= now - moment < _MINUTE_S]

    def end_call(self, lane: str) -> None:
        """A counted call has ended."""
        self.open[lane] = max(self.open.get(lane, 0) - 1, 0)


class Used(NamedTuple):
    """How much of one budget is used, in the budget's unit."""

    name: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit


class Overdrawn(NamedTuple):
    """A used-up budget. ``retry_after``: seconds to wait; None if waiting does not help."""

    by: Used
    how: Refusal
    retry_after: float | None = None


def used_up(budget: Budget, account: Account, now: float) -> Iterator[Used]:
    """Return the use of each budget that can be used up, which a rate cannot."""
    elapsed = 0.0 if account.began is None else now - account.began
    for name, used, limit in (
        ("tokens", account.tokens, budget.tokens),
        ("cost", account.cost, budget.cost),
        ("calls", account.calls, budget.calls),
        ("time", elapsed, budget.time),
    ):
        if limit is not None:
            yield Used(name, used, limit)


def refusal_of(budget: Budget, mode: BudgetMode, account: Account, now: float) -> Overdrawn | None:
    """Return why the next request is refused now; None if it is admitted.

    The request that reaches a limit is still admitted: as with a provider, the use of a reply is known only
    afterwards.
    """
    for used in used_up(budget, account, now):
        if used.used >= used.limit:
            return _overdrawn(used, mode, account)
    in_progress = sum(account.open.values())
    if budget.concurrent is not None and in_progress >= budget.concurrent:
        return Overdrawn(Used("concurrent", in_progress, budget.concurrent), "busy", _RETRY_S)
    limit = budget.requests_a_minute
    recent = account.last_minute(now)
    if limit is not None and len(recent) >= limit:
        free_in = _MINUTE_S - (now - recent[len(recent) - limit])
        return Overdrawn(Used("requests_a_minute", len(recent), limit), "busy", free_in)
    return None


def _overdrawn(used: Used, mode: BudgetMode, account: Account) -> Overdrawn:
    if mode != "degrading":
        return Overdrawn(used, "spent")
    if account.throttled < THROTTLED:
        return Overdrawn(used, "throttled", _RETRY_S)
    return Overdrawn(used, "unpaid")


def slowdown(used: Used) -> float:
    """Return the delay (s) by a budget that degrades: 0 at half of it, the maximum at its end."""
    return MAX_DELAY_S * min(max((used.share - SLOWER_FROM) / (1 - SLOWER_FROM), 0.0), 1.0)


_MAX_SIZE = 1024 * 1024


class Book(Protocol):
    """Gives one caller at a time access to its account."""

    def opened(self) -> AbstractContextManager[Account]: ...


class OwnBook:
    """An account in this process's memory."""

    def __init__(self) -> None:
        self._account = Account()

    @contextmanager
    def opened(self) -> Iterator[Account]:
        yield self._account


class SharedBook:
    """An account in a file below ``state`` that all runs of one ``pool`` share. Raises ``OSError``.

    Opening it ends the requests in progress of this ``lane``, left by a gateway that was killed.
    """

    def __init__(self, state: Path, pool: str, lane: str) -> None:
        self._state = state
        self._path = state / "budgets" / f"{pool}.json"
        with self.opened() as account:
            account.open.pop(lane, None)

    @contextmanager
    def opened(self) -> Iterator[Account]:
        file = open_shared(self._state, self._path, os.O_RDWR | os.O_CREAT)
        try:
            # held while a request is counted; the system releases it if this process dies
            fcntl.flock(file, fcntl.LOCK_EX)
            text = os.pread(file, _MAX_SIZE, 0)
            account = self._read(text)
            yield account
            # blanks overwrite the rest of a longer text, in one atomic write: a kill leaves a whole text
            os.pwrite(file, json.dumps(vars(account)).encode().ljust(len(text)), 0)
        finally:
            os.close(file)

    def _read(self, text: bytes) -> Account:
        try:
            return Account(**json.loads(text)) if text else Account()
        except (ValueError, TypeError):
            raise OSError(f"{self._path} is not a budget's account: move it away") from None
