"""The strategies of ``RECOVERY`` around tool and model calls; each attempt to recover is recorded.

A strategy around tool calls makes one ``Ask`` from another. From the inside out: hedge, checks, breaker,
verify, retry, fallback, handoff, loop breaker. Keys and deadlines are part of each request (``agent.calls``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

import groq
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRequest,
    ModelResponse,
    ModelRetryMiddleware,
)
from langchain_core.language_models import BaseChatModel
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential, wait_fixed
from tenacity.wait import wait_base, wait_random_exponential

from agent.answers import form_problem, implausible
from agent.calls import CURRENT_ATTEMPT, Ask, Call, try_call
from agent.exchange import Cancellation, CheckFailed, LoopRefused, ToolFailure
from agent.handoff import HandoffDesk, handed_over
from agent.middleware import DirectFallback, Retry
from agent.substitutes import Fallback, verified
from wirefault.recovery import strategies
from wirefault.recovery.recipes import LoopDetected
from wirefault.recovery.strategies import Recovery

Sleep = Callable[[float], None]


def recovering(recovery: Recovery, sleep: Sleep, desk: HandoffDesk | None = None) -> Ask:
    """Return how to make a tool call under these strategies. Its breakers and last answers serve one run.

    ``desk``: where the strategy ``handoff`` asks.
    """
    ask: Ask = try_call
    if recovery.hedge:
        ask = _hedged(recovery.hedge, ask)
    if recovery.checks:
        ask = _checked(recovery.checks, ask)
    if recovery.breaker:
        from agent.breakers import Breakers  # only here: few runs need pybreaker

        ask = Breakers(recovery.breaker, ask)
    if recovery.verify:
        ask = verified(recovery.verify, ask, sleep)
    if recovery.retry:
        ask = _Retried(recovery.retry, ask, sleep)
    if recovery.fallback:
        ask = Fallback(recovery.fallback, ask)
    if recovery.handoff and desk is not None:
        ask = handed_over(recovery.handoff, ask, desk, sleep)
    if recovery.loop_breaker:
        ask = _loop_broken(ask)
    return ask


def recovery_middleware(
    recovery: Recovery, sleep: Sleep, fallback: BaseChatModel | None = None
) -> Iterator[AgentMiddleware[Any, Any]]:
    """Yield the middleware of the agent as it ships, or of the strategies around model calls.

    The outermost comes first. ``fallback``: the model to ask after the first one failed.
    """
    if recovery.as_shipped:
        yield DirectFallback()
        yield Retry(sleep)
    if fallback is not None:
        yield ModelFallbackMiddleware(fallback)
    retries = recovery.retry.model if recovery.retry else 0
    if recovery.retry and retries:
        constant = recovery.retry.backoff == "constant"
        yield ModelRetryMiddleware(
            max_retries=retries,
            retry_on=_is_passing,
            on_failure="error",
            backoff_factor=0.0 if constant else 2.0,
            initial_delay=recovery.retry.base,
            max_delay=recovery.retry.longest,
            jitter=recovery.retry.backoff == "jitter",
        )
    if fallback is not None or retries:
        yield _ModelRecoveries(fallback)


def _is_passing(error: Exception) -> bool:
    """Return whether the model may answer later."""
    return isinstance(error, groq.APIConnectionError | groq.RateLimitError | groq.InternalServerError)


class _ModelRecoveries(AgentMiddleware[Any, Any]):
    """Record each further request of a model call, by retry or at the other model."""

    def __init__(self, fallback: BaseChatModel | None) -> None:
        super().__init__()
        self._fallback = fallback

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        attempt = CURRENT_ATTEMPT.get()
        is_other = self._fallback is not None and request.model is self._fallback
        if not attempt.model_tries:
            return handler(request)
        start = attempt.clock()
        success = False
        try:
            response = handler(request)
            success = True
            return response
        finally:
            strategy = "fallback" if is_other else "retry"
            detail = "another model" if is_other else "model"
            attempt.record_recovery(
                strategy, success, attempt.clock() - start, preserved="the conversation", detail=detail
            )


class _Retried:
    """Retry a tool request that may succeed later, with the waits of ``tenacity``.

    A wait above ``RETRY_AFTER_MAX`` that the service demands, or above the time that is left, makes the
    failure final, as does a spent budget of retries.
    """

    def __init__(self, strategy: strategies.Retry, ask: Ask, sleep: Sleep) -> None:
        self._strategy = strategy
        self._ask = ask
        self._sleep = sleep
        waits: dict[str, wait_base] = {
            "constant": wait_fixed(strategy.base),
            "exponential": wait_exponential(multiplier=strategy.base, max=strategy.longest),
            "jitter": wait_random_exponential(multiplier=strategy.base, max=strategy.longest),
        }
        self._backoff = waits[strategy.backoff]

    def __call__(self, call: Call) -> str:
        retrying = Retrying(
            wait=self._wait,
            stop=lambda state: not self._worthwhile(call, state),
            retry=retry_if_exception(lambda error: isinstance(error, ToolFailure) and error.retryable),
            sleep=self._sleep,
            reraise=True,
        )
        clock, failed_at = call.attempt.clock, 0.0
        preserved = "idempotency key" if call.idempotency_key else ""
        for tried in retrying:
            success = False
            with tried:
                try:
                    answer = self._ask(call)
                    success = True
                finally:
                    if tried.retry_state.attempt_number > 1:
                        seconds = clock() - failed_at
                        call.attempt.record_recovery(
                            "retry", success, seconds, call=call, preserved=preserved
                        )
                    failed_at = clock()
        return answer

    def _wait(self, state: RetryCallState) -> float:
        demanded = self._demanded(state)
        return self._backoff(state) if demanded is None else demanded

    def _demanded(self, state: RetryCallState) -> float | None:
        """Return the seconds of Retry-After, if they count."""
        error = state.outcome.exception() if state.outcome else None
        obeys = self._strategy.retry_after == "on"
        return error.retry_after if obeys and isinstance(error, ToolFailure) else None

    def _worthwhile(self, call: Call, state: RetryCallState) -> bool:
        """Return whether to retry. Called once after each failure, so that it also counts the retry."""
        strategy, attempt, pause = self._strategy, call.attempt, state.upcoming_sleep
        too_long = (
            self._demanded(state) is not None and pause > attempt.context.settings.retry_after_max
        ) or pause >= call.seconds_left
        is_spent = strategy.budget and attempt.retries >= strategy.budget
        if state.attempt_number >= strategy.tries or too_long or is_spent:
            return False
        attempt.retries += 1
        return True


def _hedged(strategy: strategies.Hedge, ask: Ask) -> Ask:
    """Send a read again if its reply is slow; the first answer counts, and the other request is cancelled."""

    def make(call: Call) -> str:
        if call.write:
            return ask(call)
        start = call.attempt.clock()
        cancellations = Cancellation(), Cancellation()

        def run(cancellation: Cancellation) -> str:
            with cancellation.observed():
                return ask(call)

        with ThreadPoolExecutor(2) as pool:  # its end waits for the cancelled request, so that it is recorded
            first = pool.submit(copy_context().run, run, cancellations[0])
            if wait([first], strategy.after).done:
                return first.result()
            second = pool.submit(copy_context().run, run, cancellations[1])
            winner = _first_answer(first, second)
            for each, cancellation in zip((first, second), cancellations, strict=True):
                if each is not winner:
                    cancellation.cancel()
        helped = winner is second and winner.exception() is None
        call.attempt.record_recovery(
            "hedge", helped, call.attempt.clock() - start, call=call, detail="" if helped else "first one won"
        )
        return winner.result()

    return make


def _first_answer(first: Future[str], second: Future[str]) -> Future[str]:
    """Return the first of both with an answer; if both fail, the first request."""
    finished = wait([first, second], return_when=FIRST_COMPLETED).done
    winner = first if first in finished else second
    if winner.exception() is None:
        return winner
    other = second if winner is first else first
    return other if other.exception() is None else first


def _checked(strategy: strategies.Checks, ask: Ask) -> Ask:
    """Check answers to reads; one that fails a check is a failed request, which a retry may repeat."""

    def make(call: Call) -> str:
        answer = ask(call)
        if call.write:
            return answer
        start = call.attempt.clock()
        if problem := _problem(call, answer):
            call.attempt.record_recovery("checks", False, 0.0, call=call, detail=f"rejected: {problem}")
            raise CheckFailed("check_failed", problem)
        return answer if strategy.second == "off" else second_opinion(call, answer, start)

    def _problem(call: Call, answer: str) -> str:
        content = json.loads(answer)
        form = form_problem(call.tool.name, content) if strategy.schema_ == "on" else ""
        if form or strategy.plausibility == "off":
            return form
        return implausible(call.tool.name, call.arguments, content)

    def second_opinion(call: Call, answer: str, start: float) -> str:
        """Return the answer that two reads agree on; a third one decides. Raises ``CheckFailed``."""
        again = ask(call)
        if again == answer:
            return answer
        third = ask(call)
        agreed = next((each for each in (answer, again) if each == third), None)
        seconds = call.attempt.clock() - start
        detail = "the third read decided" if agreed else "no two reads agree"
        call.attempt.record_recovery("checks", agreed is not None, seconds, call=call, detail=detail)
        if agreed is None:
            raise CheckFailed("check_failed", detail)
        return agreed

    return make


def _loop_broken(ask: Ask) -> Ask:
    """Refuse calls that repeat earlier ones with equal results, without a request."""

    def make(call: Call) -> str:
        attempt, breaker, tool = call.attempt, call.attempt.loops, call.tool.name
        if breaker is None:
            return ask(call)
        try:
            breaker.check(tool, call.arguments)
        except LoopDetected as loop:
            attempt.record_recovery("loop_breaker", True, 0.0, call=call, detail=str(loop))
            raise LoopRefused("loop") from None
        try:
            answer = ask(call)
        except ToolFailure as failure:
            breaker.record(tool, call.arguments, failure.code)
            raise
        breaker.record(tool, call.arguments, answer)
        return answer

    return make
