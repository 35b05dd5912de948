"""Ends a subject whose budget is spent: of time, of memory, or one that the gateway counts.

A limit ends such an attempt and its episode: no further attempts follow.
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
_POLL_S = 0.05
# share of its time that an attempt has used if time ended it
_NEARLY_ALL = 0.95
_UNITS = {"time": (1, " s"), "memory": (1_000_000, " MB"), "cost": (1, " USD")}
_IN_PROCESSES = ("command", "service", "python")


def budgeted(subject: Subject, budgets: Budgets | None, gateway: Tail) -> Subject:
    """Return the subject with its budgets enforced; ``gateway`` reads the gateway's history of the run."""
    if budgets is None:
        return subject
    episode = budgets.episode
    ends = budgets.mode == "end" or episode.time is not None or episode.memory is not None
    return BudgetedSubject(subject, budgets, gateway) if ends else subject


class BudgetedSubject(SubjectWrapper):
    """A subject that ends when a budget is spent; ``clock`` is monotonic, in seconds."""

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
        timed_out = left is not None and settings.attempt_time == left and took >= _NEARLY_ALL * left
        if timed_out and result.ended_by == "limit" and not watch.spent:
            watch.spent = self._time_spent(identity)
            context.record(watch.spent)
        if not watch.spent:
            return result
        # its processes are killed by now; the next attempt starts them again
        self.stop()
        return replace(result, ended_by="limit", error_type=BUDGET_SPENT, error=watch.reason())

    def _result(self, prompt: str, context: AttemptContext, watch: _Watch) -> SubjectResult:
        try:
            return self.inner(prompt, context)
        except LabFailed:
            raise
        except Exception:  # an ended subject may raise anything
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
    """Watches one attempt. ``spent`` is the budget that ended it, None until then."""

    budgets: Budgets
    identity: Identity
    gateway: Tail
    kind: str
    spent: BudgetSpent | None = None
    warned: BudgetWarned | None = None
    failure: Exception | None = None
    _last_bytes: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def reason(self) -> str:
        """Return the spent budget; empty if none is."""
        if self.spent is None:
            return ""
        per, unit = _UNITS.get(self.spent.budget.partition(".")[2], (1, ""))
        used, limit = self.spent.used / per, self.spent.limit / per
        return f"the budget {self.spent.budget} is used up: {used:.6g} of {limit:.6g}{unit}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Check in a thread until the block ends, and once more. Raises ``LabFailed`` if a check failed."""
        if not self._watches_memory and self.budgets.mode != "end":
            yield
            return
        thread = threading.Thread(target=self._poll, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self.failure is None and self.spent is None:
            self._check()
        if self.failure is not None:
            raise LabFailed(f"its budgets could not be watched: {self.failure}")

    def record(self, context: AttemptContext) -> None:
        """Record events about the subject; the gateway records its own."""
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

    def _poll(self) -> None:
        while self.failure is None and not self._over.wait(_POLL_S):
            self._check()

    def _check(self) -> None:
        try:
            if self.budgets.mode == "end":
                self._read_gateway()
            if self._watches_memory:
                self._read_memory()
            if self.spent is not None:
                self._end_processes()
        except Exception as error:  # noqa: BLE001 - raised again in the attempt's thread
            self.failure = error

    def _read_gateway(self) -> None:
        for event in self.gateway.read():
            if not isinstance(event, BudgetSpent) or not event.ends:
                continue
            if (event.episode, event.attempt) == (self.identity.episode, self.identity.attempt):
                self.spent = self.spent or event

    def _read_memory(self) -> None:
        limit = self.budgets.episode.memory or 0
        # a program that forks holds its memory twice for a moment, so two checks must agree
        before, self._last_bytes = self._last_bytes, resident_bytes(self._processes())
        used = min(before, self._last_bytes)
        now, place = time.time(), (self.identity.episode, self.identity.attempt, "episode.memory")
        if self.warned is None and used >= self.budgets.warn_at * limit:
            self.warned = BudgetWarned(now, *place, used, limit)
        if self.spent is None and used >= limit:
            self.spent = BudgetSpent(now, *place, used, limit, ends=True)

    def _processes(self) -> list[int]:
        """Return the subject's processes, below the reapers that this process started, or this process
        itself.
        """
        if self.kind not in _IN_PROCESSES:
            return [os.getpid(), *descendants(os.getpid())]
        return [pid for reaper in list(children(os.getpid())) for pid in descendants(reaper)]

    def _end_processes(self) -> None:
        if self.kind in _IN_PROCESSES:
            for pid in self._processes():
                with suppress(OSError):  # it has already ended
                    os.kill(pid, signal.SIGKILL)
