"""The strategy ``breaker``: circuit breakers around the tools' links."""

from __future__ import annotations

from threading import Lock

import pybreaker

from agent.calls import CURRENT_CALL, Ask, Call
from agent.exchange import BreakerOpen, DeadlinePassed, ServiceRefused
from wirefault.recovery.strategies import Breaker


class Breakers:
    """One circuit breaker of ``pybreaker`` for each link, or one for all, for as long as the run lasts.

    Failures that count: no reply, not reached, 5xx and 429. An answer that refuses the request does not.
    """

    def __init__(self, strategy: Breaker, ask: Ask) -> None:
        self._strategy = strategy
        self._ask = ask
        self._breakers: dict[str, pybreaker.CircuitBreaker] = {}
        self._lock = Lock()

    def __call__(self, call: Call) -> str:
        breaker = self._breaker(call.tool.link)
        try:
            # a block, since the method ``call`` of pybreaker lets only one thread at a time through
            with breaker.calling():
                return self._ask(call)
        except pybreaker.CircuitBreakerError:
            call.attempt.record_recovery(
                "breaker", False, 0.0, call=call, preserved="no request was sent", detail="open: refused"
            )
            raise BreakerOpen("breaker_open") from None

    def _breaker(self, link: str) -> pybreaker.CircuitBreaker:
        name = link if self._strategy.shared == "link" else "run"
        with self._lock:
            if name not in self._breakers:
                self._breakers[name] = pybreaker.CircuitBreaker(
                    fail_max=self._strategy.failures,
                    reset_timeout=self._strategy.seconds,
                    exclude=[ServiceRefused, DeadlinePassed],
                    listeners=[_RecordedChanges()],
                    name=name,
                    throw_new_error_on_trip=False,
                )
            return self._breakers[name]


class _RecordedChanges(pybreaker.CircuitBreakerListener):
    """Records each change of a breaker's state, in the call that made it. It succeeds if it closed."""

    def state_change(
        self,
        _: pybreaker.CircuitBreaker,
        old_state: pybreaker.CircuitBreakerState | None,
        new_state: pybreaker.CircuitBreakerState,
    ) -> None:
        old = old_state.name if old_state else "none"
        closed = new_state.name == pybreaker.STATE_CLOSED
        call = CURRENT_CALL.get()
        call.attempt.record_recovery("breaker", closed, 0.0, call=call, detail=f"{old} to {new_state.name}")
