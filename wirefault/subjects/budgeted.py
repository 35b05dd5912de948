"""Ends a subject whose budget is used up: of time, of memory, or one of the gateway's that is to end it.

The attempt then has ended by a limit, and with it the episode: there is no further attempt.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from wirefault.core.identity import Identity
from wirefault.history.events import BudgetSpent, BudgetUnknown, BudgetWarned
from wirefault.history.reader import Tail
from wirefault.settings.budgets import Budgets
from wirefault.subjects.process import children, descendants, resident_bytes
from wirefault.subjects.subject import AttemptContext, LabFailed, Subject, SubjectResult, SubjectWrapper

BUDGET_SPENT = "BudgetSpent"
_LOOK_EVERY_S = 0.05
# of an attempt's time: what ended it by time has taken about all of it
_ABOUT = 0.95
_UNITS = {"time": (1, " s"), "memory": (1_000_000, " MB"), "cost": (1, " USD")}
_IN_PROCESSES = ("command", "service", "python")


def budgeted(subject: Subject, budgets: Budgets | None, gateway: Tail) -> Subject:
    """The subject, ended where its budgets say so. ``gateway``: what the gateway records of the run."""
    if budgets is None:
        return subject
    episode = budgets.episode
    ends = budgets.mode == "end" or episode.time is not None or episode.memory is not None
    return BudgetedSubject(subject, budgets, gateway) if ends else subject


class BudgetedSubject(SubjectWrapper):
    """``clock`` in seconds that never go back."""

    def __init__(
        self, subject: Subject, budgets: Budgets, gateway: Tail, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(subject)
        self._budgets = budgets
        self._gateway = gateway
        self._clock = clock
        self._episode, self._used_s = "", 0.0

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        identity, settings = context.identity, context.settings
        if self._episode != identity.episode:
            self._episode, self._used_s = identity.episode, 0.0
        limit = self._budgets.episode.time
        left = None if limit is None else max(limit - self._used_s, 0.0)
        if left is not None:
            settings = settings.model_copy(update={"attempt_time": min(left, settings.attempt_time)})
        watch = _Watch(self._budgets, identity, self._gateway, self.kind)
        began = self._clock()
        try:
            with watch.running():
                limited = replace(context, settings=settings, budget_spent=watch.reason)
                result = self._result(prompt, limited, watch)
        finally:
            took = self._clock() - began
            self._used_s += took
            watch.record(context)
        timed_out = left is not None and settings.attempt_time == left and took >= _ABOUT * left
        if timed_out and result.ended_by == "limit" and not watch.spent:
            watch.spent = self._time_spent(identity)
            context.record(watch.spent)
        if not watch.spent:
            return result
        # one that stays up has lost its processes, at the latest now: the next attempt starts it again
        self.stop()
        return replace(result, ended_by="limit", error_type=BUDGET_SPENT, error=watch.reason())

    def _result(self, prompt: str, context: AttemptContext, watch: _Watch) -> SubjectResult:
        try:
            return self.inner(prompt, context)
        except LabFailed:
            raise
        except Exception:  # a subject that is ended may raise anything
            if not watch.spent:
                raise
            return SubjectResult("limit")

    def _time_spent(self, identity: Identity) -> BudgetSpent:
        limit = self._budgets.episode.time or 0.0
        used = round(self._used_s, 3)
        return BudgetSpent(
            time.time(), identity.episode, identity.attempt, "episode.time", used, limit, ends=True
        )


@dataclass
class _Watch:
    """Looks at one attempt from time to time. ``spent``: what ended it, None while nothing has."""

    budgets: Budgets
    identity: Identity
    gateway: Tail
    kind: str
    spent: BudgetSpent | None = None
    warned: BudgetWarned | None = None
    failure: Exception | None = None
    _held: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def reason(self) -> str:
        """Which budget is used up, in words; empty if none is."""
        if self.spent is None:
            return ""
        per, unit = _UNITS.get(self.spent.budget.partition(".")[2], (1, ""))
        used, limit = self.spent.used / per, self.spent.limit / per
        return f"the budget {self.spent.budget} is used up: {used:.6g} of {limit:.6g}{unit}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Looks, in a thread, until the block ends, and then once more. Raises what kept it from looking."""
        if not self._watches_memory and self.budgets.mode != "end":
            yield
            return
        thread = threading.Thread(target=self._look_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self.failure is None and self.spent is None:
            self._look()
        if self.failure is not None:
            raise LabFailed(f"its budgets could not be watched: {self.failure}")

    def record(self, context: AttemptContext) -> None:
        """Records what was seen of the subject; what the gateway saw it has recorded itself."""
        episode, attempt = self.identity.episode, self.identity.attempt
        if self.budgets.episode.memory is not None and not self._watches_memory:
            context.record(BudgetUnknown(time.time(), episode, attempt, "episode.memory", "no_memory"))
        for event in (self.warned, self.spent):
            if event is not None and event.of_subject:
                context.record(event)

    @property
    def _watches_memory(self) -> bool:
        readable = sys.platform == "linux" and self.kind != "http"
        return self.budgets.episode.memory is not None and readable

    def _look_on(self) -> None:
        while self.failure is None and not self._over.wait(_LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        try:
            if self.budgets.mode == "end":
                self._read_gateway()
            if self._watches_memory:
                self._read_memory()
            if self.spent is not None:
                self._end_processes()
        except Exception as error:  # noqa: BLE001 - raised by the thread that runs the attempt, whatever it is
            self.failure = error

    def _read_gateway(self) -> None:
        for event in self.gateway.read():
            if not isinstance(event, BudgetSpent) or not event.ends:
                continue
            if (event.episode, event.attempt) == (self.identity.episode, self.identity.attempt):
                self.spent = self.spent or event

    def _read_memory(self) -> None:
        limit = self.budgets.episode.memory or 0
        # a program that starts another holds all its memory twice for a moment: two looks must show it
        before, self._held = self._held, resident_bytes(self._processes())
        used = min(before, self._held)
        now, place = time.time(), (self.identity.episode, self.identity.attempt, "episode.memory")
        if self.warned is None and used >= self.budgets.warn_at * limit:
            self.warned = BudgetWarned(now, *place, used, limit)
        if self.spent is None and used >= limit:
            self.spent = BudgetSpent(now, *place, used, limit, ends=True)

    def _processes(self) -> list[int]:
        """The subject's: below the reapers that this process has started, or this process itself."""
        if self.kind not in _IN_PROCESSES:
            return [os.getpid(), *descendants(os.getpid())]
        return [pid for reaper in list(children(os.getpid())) for pid in descendants(reaper)]

    def _end_processes(self) -> None:
        if self.kind in _IN_PROCESSES:
            for pid in self._processes():
                with suppress(OSError):  # it has ended by itself
                    os.kill(pid, signal.SIGKILL)
