"""What is wrapped around every model and tool call of the agent: limits, identity, fallback, retry.

LangChain's own retry middleware is not used because it does not know Retry-After and its default failure
text asks the model to try again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

from agent.calls import CURRENT_ATTEMPT, CURRENT_CALL, AttemptInProgress, Call, identify
from agent.client import try_call
from agent.errors import LimitReached, ToolFailure
from wirefault.history.events import ToolCalled

ToolResult = ToolMessage | Command[Any]
ToolHandler = Callable[[ToolCallRequest], ToolResult]
BACKOFF_S = 0.05
REPORT = "Report"  # the model ends by this tool, which calls no service


class Limits(AgentMiddleware[Any, Any]):
    """Ends the attempt when it has used up its model calls, its tool calls, its time or another budget."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        attempt = CURRENT_ATTEMPT.get()
        settings = attempt.context.settings
        _in_time()
        if attempt.model_calls >= settings.model_calls:
            raise LimitReached(f"{settings.model_calls} model calls made (MODEL_CALLS)")
        attempt.model_calls += 1
        attempt.model_tries = 0
        try:
            response = handler(request)
        except Exception:
            _in_time()  # a request that the attempt's time cut short failed by that limit
            raise
        self._count_tool_calls(attempt, response)
        return response

    @staticmethod
    def _count_tool_calls(attempt: AttemptInProgress, response: ModelResponse[Any]) -> None:
        """Counts when the reply comes: parallel calls start in any order, so chance would pick the last."""
        limit = attempt.context.settings.tool_calls
        replies = [message for message in response.result if isinstance(message, AIMessage)]
        attempt.tool_calls += sum(call["name"] != REPORT for reply in replies for call in reply.tool_calls)
        if attempt.tool_calls > limit:
            raise LimitReached(f"more than {limit} tool calls asked for (TOOL_CALLS)")

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        _in_time()
        return handler(request)


def _in_time() -> None:
    attempt = CURRENT_ATTEMPT.get()
    if attempt.seconds_left <= 0:
        raise LimitReached(f"{attempt.context.settings.attempt_time:g} s have passed (ATTEMPT_TIME)")
    if spent := attempt.context.budget_spent():
        raise LimitReached(spent)


class CallIdentity(AgentMiddleware[Any, Any]):
    """Numbers each tool call, so that all its tries and the fallback share one identity and key.

    Records the call. A failure becomes an error ToolMessage that says what happened and whether the
    side effect is unknown; it never kills the run.
    """

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        call = identify(CURRENT_ATTEMPT.get(), dict(request.tool_call), request.state["messages"])
        if call is None:
            return handler(request)  # LangChain tells the model which tool or argument is wrong
        token = CURRENT_CALL.set(call)
        try:
            message = handler(request)
            _record(call, None, "done" if call.write else "none", _text(message))
        except ToolFailure as failure:
            message = _error_message(request, call, failure)
        finally:
            CURRENT_CALL.reset(token)
        return message


def _error_message(request: ToolCallRequest, call: Call, failure: ToolFailure) -> ToolMessage:
    text = failure.for_model(call.side_effect)
    _record(call, failure.cause, call.side_effect, text)
    name = request.tool_call["name"]
    return ToolMessage(text, tool_call_id=request.tool_call["id"], name=name, status="error")


def _text(message: ToolResult) -> str:
    return str(message.content) if isinstance(message, ToolMessage) else ""


def _record(call: Call, error: str | None, side_effect: str, result: str) -> None:
    identity = call.identity()
    call.attempt.context.record(
        ToolCalled(
            t=time.time(),
            episode=identity.episode,
            attempt=identity.attempt,
            reply=call.reply,
            index=call.index,
            tool=call.tool.name,
            link=call.tool.link,
            arguments=call.arguments,
            fingerprint=call.fingerprint,
            call=call.ordinal,
            tries=call.tries,
            ok=error is None,
            error=error,
            side_effect=side_effect,
            result=result,
            fallback_used=call.fallback_used,
        )
    )


class DirectFallback(AgentMiddleware[Any, Any]):
    """``FALLBACK=direct``: an exhausted call gets one try at the tool's own port."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        call = CURRENT_CALL.get(None)
        try:
            return handler(request)
        except ToolFailure as failure:
            if call is None or not failure.retryable or call.attempt.context.settings.fallback != "direct":
                raise
            call.fallback_used = True
            content = try_call(call, "direct")
            return ToolMessage(content, tool_call_id=request.tool_call["id"], name=call.tool.name)


class Retry(AgentMiddleware[Any, Any]):
    """Up to ``TOOL_LIMIT`` tries of a call that may succeed later.

    Waits for as long as Retry-After says; a failure that asks for more than ``RETRY_AFTER_MAX`` is final.
    """

    def __init__(self, sleep: Callable[[float], None]) -> None:
        super().__init__()
        self._sleep = sleep

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        call = CURRENT_CALL.get(None)
        while True:
            try:
                return handler(request)
            except ToolFailure as failure:
                pause = failure.retry_after if failure.retry_after is not None else BACKOFF_S
                if call is None or not failure.retryable or not self._worthwhile(call, pause):
                    raise
                self._sleep(pause)

    @staticmethod
    def _worthwhile(call: Call, pause: float) -> bool:
        settings = call.attempt.context.settings
        honoured = pause <= max(BACKOFF_S, settings.retry_after_max)
        return call.tries < settings.tool_limit and honoured and pause < call.attempt.seconds_left
