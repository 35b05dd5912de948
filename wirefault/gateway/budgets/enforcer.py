"""Enforces the budgets of one run: admits, refuses or slows requests, and counts what they use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from wirefault.dialects.base import typed_error
from wirefault.dialects.registry import DIALECTS
from wirefault.dialects.token_usage import TokenUsage
from wirefault.faults.base import BUDGET_ID, Act, Fault, Miss, Try
from wirefault.faults.catalogue.errors import request_id
from wirefault.faults.catalogue.http.delivery import Delay
from wirefault.faults.catalogue.http.errors import Quota, RateLimit
from wirefault.faults.sets.fault_set import Entry
from wirefault.gateway.budgets.account import (
    Account,
    Book,
    Overdrawn,
    OwnBook,
    SharedBook,
    Used,
    refusal_of,
    slowdown,
    used_up,
)
from wirefault.history.events import BudgetSpent, BudgetUnknown, BudgetWarned, Event
from wirefault.settings.budgets import Budget, Budgets, BudgetScope, Price, load_budgets, load_prices
from wirefault.settings.settings import Settings

_PAYMENT_REQUIRED = 402


class _Unpaid(Quota):
    """The used-up quota as 402, as Anthropic and many compatible servers answer it."""

    def act(self, tried: Try) -> Act | Miss:
        dialect = DIALECTS[tried.dialect]
        form = dialect.errors["quota"]
        if form.status == _PAYMENT_REQUIRED:
            return super().act(tried)
        error = typed_error(
            dialect, _PAYMENT_REQUIRED, "payment_required", form.message, id=request_id(tried)
        )
        return self.answer_with(error, kind=self.name)


def refusing_fault(refused: Overdrawn) -> Fault:
    """Return the fault that answers instead of the provider."""
    if refused.how == "spent":
        return Quota()
    if refused.how == "unpaid":
        return _Unpaid()
    return RateLimit(retry_after=refused.retry_after)


def slowing_fault(seconds: float) -> Fault:
    """Return the fault that delays the request."""
    return Delay(ms=round(seconds * 1000, 3))


# the last requests of an episode may be settled while the next one runs
_KEPT_EPISODES = 8
_NOTHING = TokenUsage()

Record = Callable[[Event], None]


class Spender(NamedTuple):
    """The episode, attempt and link that a request is charged to."""

    episode: str
    attempt: int
    link: str
    of_model: bool


class _Scope(NamedTuple):
    """One budget of an episode or of the run that a request uses up, and its account."""

    name: BudgetScope
    budget: Budget
    account: Account


@dataclass
class _EpisodeAccount:
    """An episode's account, and the notes about it that the history has already."""

    book: Book = field(default_factory=OwnBook)
    recorded: set[tuple[str, ...]] = field(default_factory=set)

    def is_new(self, *note: str) -> bool:
        """Whether the history lacks that note; afterwards the note counts as recorded."""
        known = note in self.recorded
        self.recorded.add(note)
        return not known


@dataclass
class Charge:
    """A request that was admitted. ``usage`` follows from its reply."""

    enforcer: BudgetEnforcer
    spender: Spender
    usage: TokenUsage = field(default=_NOTHING)

    def settle(self, *, answered: bool, record: Record) -> None:
        """Settle the request. ``answered``: a model may have worked on it, even if its reply is not whole."""
        self.enforcer.settle(self.spender, self.usage if self.spender.of_model and answered else None, record)


class BudgetEnforcer:
    """Enforces the budgets of a run.

    ``state`` is the folder that gateways share, ``clock`` returns seconds since the epoch. Raises ``OSError``
    if the account of a pool cannot be kept there.
    """

    def __init__(
        self,
        budgets: Budgets,
        prices: Mapping[str, Price],
        state: Path,
        lane: int,
        clock: Callable[[], float],
    ) -> None:
        self._budgets = budgets
        self._at_links = {of_model: budgets.at_gateway(of_model=of_model) for of_model in (True, False)}
        self._prices = prices
        self._lane = str(lane)
        self._clock = clock
        shared = budgets.pool and budgets.run != Budget()
        self._of_run: Book = SharedBook(state, budgets.pool, self._lane) if shared else OwnBook()
        self._episodes: dict[str, _EpisodeAccount] = {}

    def counts(self, *, of_model: bool) -> bool:
        """Whether requests on such a link use up a budget."""
        return bool(self._at_links[of_model])

    def admit(self, spender: Spender, record: Record) -> tuple[list[Entry], Charge | None]:
        """Admit a request, whose charge must then be settled, or refuse it: then it has no charge.

        The entries are the faults that it meets: a refusal or a delay.
        """
        with self._scopes(spender) as scopes:
            now = self._clock()
            for scope in scopes:
                refused = refusal_of(scope.budget, self._budgets.mode, scope.account, now)
                if refused is not None:
                    scope.account.throttled += refused.how == "throttled"
                    self._record_spent(scope, refused, spender, record)
                    return [_entry(scope, refused.by, refusing_fault(refused), spender)], None
            slowing = self._slowing(scopes, now, spender)
            for scope in scopes:
                scope.account.begin(now)
                if self._budgets.counts_calls_of(of_model=spender.of_model):
                    scope.account.take_call(self._lane, now, scope.budget.requests_a_minute or 0)
                self._warn(scope, spender, record)
        return slowing, Charge(self, spender)

    def settle(self, spender: Spender, usage: TokenUsage | None, record: Record) -> None:
        """Settle a request. ``usage`` is None if no model worked on it."""
        with self._scopes(spender) as scopes:
            for scope in scopes:
                if self._budgets.counts_calls_of(of_model=spender.of_model):
                    scope.account.end_call(self._lane)
                if usage is not None:
                    self._count(scope, usage, spender, record)
                    self._warn(scope, spender, record)

    def _episode(self, key: str) -> _EpisodeAccount:
        if key not in self._episodes and len(self._episodes) == _KEPT_EPISODES:
            del self._episodes[next(iter(self._episodes))]
        return self._episodes.setdefault(key, _EpisodeAccount())

    @contextmanager
    def _scopes(self, spender: Spender) -> Iterator[list[_Scope]]:
        books: dict[BudgetScope, Book] = {"episode": self._episode(spender.episode).book, "run": self._of_run}
        with ExitStack() as stack:
            yield [
                _Scope(name, budget, stack.enter_context(books[name].opened()))
                for name, budget in self._at_links[spender.of_model].items()
            ]

    def _slowing(self, scopes: Iterable[_Scope], now: float, spender: Spender) -> list[Entry]:
        """Return the delay by the budget that is used up furthest."""
        if self._budgets.mode != "degrading":
            return []
        used_by = [(used, scope) for scope in scopes for used in used_up(scope.budget, scope.account, now)]
        used_by.sort(key=lambda pair: pair[0].share)
        return [
            _entry(scope, used, slowing_fault(slowdown(used)), spender)
            for used, scope in used_by[-1:]
            if slowdown(used)
        ]

    def _count(self, scope: _Scope, usage: TokenUsage, spender: Spender, record: Record) -> None:
        """Count tokens and cost. Record usage that cannot be counted: the budget then admits too much."""
        price = self._prices.get(usage.model)
        scope.account.tokens += (usage.tokens_in or 0) + (usage.tokens_out or 0)
        if price is not None:
            scope.account.cost += price.usd(usage.tokens_in, usage.tokens_out)
        is_complete = usage.tokens_in is not None and usage.tokens_out is not None
        if scope.budget.tokens is not None and not is_complete:
            self._record_unknown(f"{scope.name}.tokens", "no_usage", usage, spender, record)
        if scope.budget.cost is not None and not is_complete:
            self._record_unknown(f"{scope.name}.cost", "no_usage", usage, spender, record)
        elif scope.budget.cost is not None and price is None:
            self._record_unknown(f"{scope.name}.cost", "no_price", usage, spender, record)

    def _record_unknown(
        self,
        budget: str,
        why: Literal["no_usage", "no_price"],
        usage: TokenUsage,
        spender: Spender,
        record: Record,
    ) -> None:
        if self._episode(spender.episode).is_new("unknown", budget, why, usage.model):
            record(BudgetUnknown(self._clock(), spender.episode, spender.attempt, budget, why, usage.model))

    def _warn(self, scope: _Scope, spender: Spender, record: Record) -> None:
        now, warned = self._clock(), scope.account.warned
        for used in used_up(scope.budget, scope.account, now):
            if used.share >= self._budgets.warn_at and used.name not in warned:
                warned.append(used.name)
                place = f"{scope.name}.{used.name}"
                record(BudgetWarned(now, spender.episode, spender.attempt, place, used.used, used.limit))

    def _record_spent(self, scope: _Scope, refused: Overdrawn, spender: Spender, record: Record) -> None:
        used, ends = refused.by, self._budgets.mode == "end" and refused.how == "spent"
        place = f"{scope.name}.{used.name}"
        if self._episode(spender.episode).is_new("spent", place):
            now = self._clock()
            record(BudgetSpent(now, spender.episode, spender.attempt, place, used.used, used.limit, ends))


def budget_enforcer(
    settings: Settings, state: Path, lane: int, clock: Callable[[], float]
) -> BudgetEnforcer | None:
    """Return the enforcer of a run's budgets; None if it has none for the gateway. Raises ``OSError``."""
    budgets = load_budgets(settings.budgets)
    if budgets is None or not any(budgets.at_gateway(of_model=of_model) for of_model in (True, False)):
        return None
    return BudgetEnforcer(budgets, load_prices(settings.prices), state, lane, clock)


def _entry(scope: _Scope, used: Used, fault: Fault, spender: Spender) -> Entry:
    return Entry(fault, (spender.link,), id=f"{BUDGET_ID}{scope.name}.{used.name}")
