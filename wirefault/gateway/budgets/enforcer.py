"""Keeps the budgets of one run: lets requests through, refuses or slows them, and counts what they took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from wirefault.dialects.base import typed_error
from wirefault.dialects.registry import DIALECTS
from wirefault.dialects.token_usage import TokenUsage
from wirefault.faults.base import BUDGET_ID, Act, Fault, Try
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
from wirefault.settings.budgets import Budget, Budgets, BudgetScope, load_budgets
from wirefault.settings.prices import Price, load_prices
from wirefault.settings.settings import Settings

_PAYMENT_REQUIRED = 402


class _Unpaid(Quota):
    """The used-up quota as 402: so Anthropic's API says it, and many a server that speaks other APIs."""

    def act(self, tried: Try) -> Act:
        dialect = DIALECTS[tried.dialect]
        form = dialect.errors["quota"]
        if form.status == _PAYMENT_REQUIRED:
            return super().act(tried)
        error = typed_error(
            dialect, _PAYMENT_REQUIRED, "payment_required", form.message, id=request_id(tried)
        )
        return self.answer_with(error, kind=self.name)


def refusing_fault(refused: Overdrawn) -> Fault:
    """Answers in the provider's place."""
    if refused.how == "spent":
        return Quota()
    if refused.how == "unpaid":
        return _Unpaid()
    return RateLimit(retry_after=refused.retry_after)


def slowing_fault(seconds: float) -> Fault:
    """Lets the request go on later."""
    return Delay(ms=round(seconds * 1000, 3))


_MILLION = 1_000_000
# an attempt may still get a reply to a request of the one before it
_KEPT_EPISODES = 8
_NOTHING = TokenUsage()

Tell = Callable[[Event], None]


class Spender(NamedTuple):
    """Who asks: the episode and attempt of the request, on a link to a model or to a tool."""

    episode: str
    attempt: int
    link: str
    of_model: bool


class _Scope(NamedTuple):
    """The budget of an episode or of the run, as far as a request uses it up, and what was used of it."""

    name: BudgetScope
    budget: Budget
    account: Account


@dataclass
class _Episode:
    """``told``: what the history has of it already, which is to say it once."""

    book: Book = field(default_factory=OwnBook)
    told: set[tuple[str, ...]] = field(default_factory=set)

    def tells(self, *what: str) -> bool:
        """Whether that is now told for the first time."""
        told_before = what in self.told
        self.told.add(what)
        return not told_before


@dataclass
class Charge:
    """A request that was let through. ``usage``: what its reply says it took, once that is known."""

    keeper: BudgetKeeper
    spender: Spender
    usage: TokenUsage = field(default=_NOTHING)

    def settle(self, *, answered: bool, tell: Tell) -> None:
        """It is over. ``answered``: a model may have worked on it, whether or not its reply came whole."""
        self.keeper.settle(self.spender, self.usage if self.spender.of_model and answered else None, tell)


class BudgetKeeper:
    """``state``: the folder of what gateways share. ``clock`` in seconds since the epoch.

    Raises ``OSError`` if the account of a pool cannot be kept there.
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
        self._episodes: dict[str, _Episode] = {}

    def counts(self, *, of_model: bool) -> bool:
        """Whether requests on such a link use up anything."""
        return bool(self._at_links[of_model])

    def admit(self, spender: Spender, tell: Tell) -> tuple[list[Entry], Charge | None]:
        """Lets a request through, which is then to be settled; or refuses it: there is no charge then.

        The entries are what it meets: a refusal, or what slows it down.
        """
        with self._scopes(spender) as scopes:
            now = self._clock()
            for scope in scopes:
                refused = refusal_of(scope.budget, self._budgets.mode, scope.account, now)
                if refused is not None:
                    scope.account.throttled += refused.how == "throttled"
                    self._tell_spent(scope, refused, spender, tell)
                    return [_entry(scope, refused.by, refusing_fault(refused), spender)], None
            slowing = self._slowing(scopes, now, spender)
            for scope in scopes:
                scope.account.begin(now)
                if self._budgets.counts_calls_of(of_model=spender.of_model):
                    scope.account.take_call(self._lane, now, scope.budget.requests_a_minute or 0)
                self._warn(scope, spender, tell)
        return slowing, Charge(self, spender)

    def settle(self, spender: Spender, usage: TokenUsage | None, tell: Tell) -> None:
        """A request is over. ``usage`` is None where no model had any work with it."""
        with self._scopes(spender) as scopes:
            for scope in scopes:
                if self._budgets.counts_calls_of(of_model=spender.of_model):
                    scope.account.end_call(self._lane)
                if usage is not None:
                    self._count(scope, usage, spender, tell)
                    self._warn(scope, spender, tell)

    def _episode(self, key: str) -> _Episode:
        if key not in self._episodes and len(self._episodes) == _KEPT_EPISODES:
            del self._episodes[next(iter(self._episodes))]
        return self._episodes.setdefault(key, _Episode())

    @contextmanager
    def _scopes(self, spender: Spender) -> Iterator[list[_Scope]]:
        books: dict[BudgetScope, Book] = {"episode": self._episode(spender.episode).book, "run": self._of_run}
        with ExitStack() as stack:
            yield [
                _Scope(name, budget, stack.enter_context(books[name].opened()))
                for name, budget in self._at_links[spender.of_model].items()
            ]

    def _slowing(self, scopes: Iterable[_Scope], now: float, spender: Spender) -> list[Entry]:
        """The delay by the budget of which the most is used up."""
        if self._budgets.mode != "degrading":
            return []
        used_by = [(used, scope) for scope in scopes for used in used_up(scope.budget, scope.account, now)]
        used_by.sort(key=lambda pair: pair[0].share)
        return [
            _entry(scope, used, slowing_fault(slowdown(used)), spender)
            for used, scope in used_by[-1:]
            if slowdown(used)
        ]

    def _count(self, scope: _Scope, usage: TokenUsage, spender: Spender, tell: Tell) -> None:
        """What cannot be counted is told: the budget then lets through more than it should."""
        price = self._prices.get(usage.model)
        tokens_in, tokens_out = usage.tokens_in or 0, usage.tokens_out or 0
        scope.account.tokens += tokens_in + tokens_out
        if price is not None:
            scope.account.cost += (tokens_in * price.input + tokens_out * price.output) / _MILLION
        told_all = usage.tokens_in is not None and usage.tokens_out is not None
        if scope.budget.tokens is not None and not told_all:
            self._tell_unknown(f"{scope.name}.tokens", "no_usage", usage, spender, tell)
        if scope.budget.cost is not None and not told_all:
            self._tell_unknown(f"{scope.name}.cost", "no_usage", usage, spender, tell)
        elif scope.budget.cost is not None and price is None:
            self._tell_unknown(f"{scope.name}.cost", "no_price", usage, spender, tell)

    def _tell_unknown(
        self,
        budget: str,
        why: Literal["no_usage", "no_price"],
        usage: TokenUsage,
        spender: Spender,
        tell: Tell,
    ) -> None:
        if self._episode(spender.episode).tells("unknown", budget, why, usage.model):
            tell(BudgetUnknown(self._clock(), spender.episode, spender.attempt, budget, why, usage.model))

    def _warn(self, scope: _Scope, spender: Spender, tell: Tell) -> None:
        now, warned = self._clock(), scope.account.warned
        for used in used_up(scope.budget, scope.account, now):
            if used.share >= self._budgets.warn_at and used.name not in warned:
                warned.append(used.name)
                place = f"{scope.name}.{used.name}"
                tell(BudgetWarned(now, spender.episode, spender.attempt, place, used.used, used.limit))

    def _tell_spent(self, scope: _Scope, refused: Overdrawn, spender: Spender, tell: Tell) -> None:
        used, ends = refused.by, self._budgets.mode == "end" and refused.how == "spent"
        place = f"{scope.name}.{used.name}"
        if self._episode(spender.episode).tells("spent", place):
            now = self._clock()
            tell(BudgetSpent(now, spender.episode, spender.attempt, place, used.used, used.limit, ends))


def keeper_of(settings: Settings, state: Path, lane: int, clock: Callable[[], float]) -> BudgetKeeper | None:
    """The keeper of a run's budgets; None if it has none that are kept here. Raises ``OSError``."""
    budgets = load_budgets(settings.budgets)
    if budgets is None or not any(budgets.at_gateway(of_model=of_model) for of_model in (True, False)):
        return None
    return BudgetKeeper(budgets, load_prices(settings.prices), state, lane, clock)


def _entry(scope: _Scope, used: Used, fault: Fault, spender: Spender) -> Entry:
    return Entry(fault, (spender.link,), id=f"{BUDGET_ID}{scope.name}.{used.name}")
