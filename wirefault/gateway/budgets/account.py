"""What has been used up, and what becomes of the next request for it. Pure.

Limits, modes and refusals are those of ``wirefault.settings.budgets``.
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
degrades is used up. ``spent``: any other is."""

SLOWER_FROM = 0.5
SLOWEST_S = 1.0
# so many refusals of a budget that degrades are 429, those after them 402
THROTTLED = 3
_MINUTE_S = 60.0
_RETRY_S = 1.0


@dataclass
class Account:
    """What was used up so far.

    ``throttled``: how many requests were refused for a while, since a budget that degrades is used up.
    ``recent``: when the last requests were let through, as many as a rate allows in a minute, in seconds
    since the epoch, by which one process knows what another has counted; ``began``: when the first was.
    ``open``: how many requests are in progress, by lane. ``warned``: of which budgets the history has a
    warning already.
    """

    tokens: int = 0
    cost: float = 0.0
    calls: int = 0
    throttled: int = 0
    began: float | None = None
    recent: list[float] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)

    def begin(self, now: float) -> None:
        """A request is let through."""
        self.began = now if self.began is None else self.began

    def take_call(self, lane: str, now: float, remembered: int = 0) -> None:
        """It is one of the calls that are counted; so many of the last ones are remembered by their time."""
        self.calls += 1
        self.recent = [*self.recent, now][-remembered:] if remembered else []
        self.open[lane] = self.open.get(lane, 0) + 1

    def last_minute(self, now: float) -> list[float]:
        """When its requests were let through, the earliest first; none of a clock that was set back since."""
        return [moment for moment in self.recent if 0 <= now - moment < _MINUTE_S]

    def end_call(self, lane: str) -> None:
        """It has come to its end."""
        self.open[lane] = max(self.open.get(lane, 0) - 1, 0)


class Used(NamedTuple):
    """How much of one budget is used up; both in the unit of the budget."""

    name: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        return self.used / self.limit


class Overdrawn(NamedTuple):
    """``retry_after``: seconds until it may be tried again; None where no waiting helps."""

    by: Used
    how: Refusal
    retry_after: float | None = None


def used_up(budget: Budget, account: Account, now: float) -> Iterator[Used]:
    """What is used of each budget that runs out; a rate does not."""
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
    """Why the next request is refused now; None if it is let through.

    A budget counts as used up once its limit is reached: the request that reaches it is let through, as
    with a provider, who knows what a reply took only afterwards.
    """
    for used in used_up(budget, account, now):
        if used.used >= used.limit:
            return _when_used_up(used, mode, account)
    in_progress = sum(account.open.values())
    if budget.concurrent is not None and in_progress >= budget.concurrent:
        return Overdrawn(Used("concurrent", in_progress, budget.concurrent), "busy", _RETRY_S)
    limit = budget.requests_a_minute
    recent = account.last_minute(now)
    if limit is not None and len(recent) >= limit:
        free_in = _MINUTE_S - (now - recent[len(recent) - limit])
        return Overdrawn(Used("requests_a_minute", len(recent), limit), "busy", free_in)
    return None


def _when_used_up(used: Used, mode: BudgetMode, account: Account) -> Overdrawn:
    if mode != "degrading":
        return Overdrawn(used, "spent")
    if account.throttled < THROTTLED:
        return Overdrawn(used, "throttled", _RETRY_S)
    return Overdrawn(used, "unpaid")


def slowdown(used: Used) -> float:
    """Seconds by which a budget that degrades delays a request: none at half of it, the most at its end."""
    return SLOWEST_S * min(max((used.share - SLOWER_FROM) / (1 - SLOWER_FROM), 0.0), 1.0)


_LARGEST = 1024 * 1024


class Book(Protocol):
    """Gives out its account to be read and changed, to one at a time."""

    def opened(self) -> AbstractContextManager[Account]: ...


class OwnBook:
    """An account of this process alone."""

    def __init__(self) -> None:
        self._account = Account()

    @contextmanager
    def opened(self) -> Iterator[Account]:
        yield self._account


class SharedBook:
    """An account in a file below the folder ``state``, for the runs of one ``pool``, also one after another.

    What a gateway of this ``lane`` that was killed had in progress is over. Raises ``OSError``.
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
            # held for as long as it takes to count a request, and let go by the system if this process dies
            fcntl.flock(file, fcntl.LOCK_EX)
            text = os.pread(file, _LARGEST, 0)
            account = self._read(text)
            yield account
            # blanks over the rest of a longer text: one write is whole or not at all, also after a kill
            os.pwrite(file, json.dumps(vars(account)).encode().ljust(len(text)), 0)
        finally:
            os.close(file)

    def _read(self, text: bytes) -> Account:
        try:
            return Account(**json.loads(text)) if text else Account()
        except (ValueError, TypeError):
            raise OSError(f"{self._path} holds no account of a budget: move it away") from None
