"""The strategies of ``RECOVERY`` as middleware around tool calls; each attempt to recover is an event.

Empty RECOVERY: the retry and fallback that the agent ships with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential, wait_fixed
from tenacity.wait import wait_base, wait_random_exponential

from agent.calls import CURRENT_CALL, AttemptInProgress, Call
from agent.exchange import ToolFailure
from agent.middleware import DirectFallback, Retry, ToolHandler, ToolResult
from wirefault.history.events import RecoveryTried
from wirefault.recovery.strategies import Recovery
from wirefault.recovery.strategies import Retry as RetryStrategy


def recovery_middleware(
    recovery: Recovery, sleep: Callable[[float], None]
) -> Iterator[AgentMiddleware[Any, Any]]:
    """Yield the middleware of the strategies in force, the outermost first."""
    if recovery.as_shipped:
        yield DirectFallback()
        yield Retry(sleep)
    if recovery.retry:
        yield BackedOffRetry(recovery.retry, sleep)


def record_recovery(
    attempt: AttemptInProgress,
    strategy: str,
    number: int,
    success: bool,
    seconds: float,
    preserved: str = "",
    call: Call | None = None,
    detail: str = "",
) -> None:
    """Record one attempt to recover."""
    identity, where = attempt.context.identity, (call.tool.link, call.ordinal) if call else ("", 0)
    attempt.context.record(
        RecoveryTried(
            *(time.time(), identity.episode, identity.attempt, strategy, number, success),
            *(round(seconds, 3), preserved, *where, detail),
        )
    )


class BackedOffRetry(AgentMiddleware[Any, Any]):
    """Retry a tool request that may succeed later, with the waits of ``tenacity``.

    A wait above ``RETRY_AFTER_MAX`` that the service demands, or above the attempt's time, makes the failure
    final, as does a spent budget of retries.
    """

    def __init__(self, strategy: RetryStrategy, sleep: Callable[[float], None]) -> None:
        super().__init__()
        self._strategy = strategy
        self._sleep = sleep
        waits: dict[str, wait_base] = {
            "constant": wait_fixed(strategy.base),
            "exponential": wait_exponential(multiplier=strategy.base, max=strategy.longest),
            "jitter": wait_random_exponential(multiplier=strategy.base, max=strategy.longest),
        }
        self._backoff = waits[strategy.backoff]

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        call = CURRENT_CALL.get(None)
        if call is None:
            return handler(request)
        tries = Tries(call, "idempotency key" if call.idempotency_key else "")
        retrying = Retrying(
            wait=self._wait,
            stop=lambda state: not self._worthwhile(call, state),
            retry=retry_if_exception(lambda error: isinstance(error, ToolFailure) and error.retryable),
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(tries.run, handler, request)

    def _wait(self, state: RetryCallState) -> float:
        demanded = failure.retry_after if (failure := _failure(state)) and self._obeys else None
        return self._backoff(state) if demanded is None else demanded

    @property
    def _obeys(self) -> bool:
        return self._strategy.retry_after == "on"

    def _worthwhile(self, call: Call, state: RetryCallState) -> bool:
        """Whether to retry. Called once after each failure, so that it also counts the retry."""
        strategy, attempt, failure = self._strategy, call.attempt, _failure(state)
        pause = state.upcoming_sleep
        demanded = failure is not None and failure.retry_after is not None and self._obeys
        too_long = demanded and pause > attempt.context.settings.retry_after_max
        spent = strategy.budget and attempt.retries >= strategy.budget
        if state.attempt_number >= strategy.tries or too_long or spent or pause >= attempt.seconds_left:
            return False
        attempt.retries += 1
        return True


class Tries:
    """Runs the tries of a call, and records each but the first as an attempt to recover."""

    def __init__(self, call: Call, preserved: str) -> None:
        self._call = call
        self._preserved = preserved
        self._retries = -1
        self._failed_at = 0.0

    def run(self, handler: ToolHandler, request: ToolCallRequest) -> ToolResult:
        self._retries += 1
        success = False
        try:
            result = handler(request)
            success = True
            return result
        finally:
            clock = self._call.attempt.clock
            if self._retries:
                seconds = clock() - self._failed_at
                attempt = self._call.attempt
                record_recovery(
                    attempt, "retry", self._retries, success, seconds, self._preserved, self._call
                )
            self._failed_at = clock()


def _failure(state: RetryCallState) -> ToolFailure | None:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, ToolFailure) else None
