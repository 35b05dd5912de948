"""Middleware around every model and tool call of the agent: limits, identity, fallback, retry, refusals.

LangChain's retry middleware ignores Retry-After, and its failure text asks the model to try again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command
from pydantic import ValidationError

from agent.calls import CURRENT_ATTEMPT, CURRENT_CALL, AttemptInProgress, Call, identify, try_call
from agent.exchange import ToolFailure
from agent.tools import BY_NAME
from wirefault.history.events import RefusalReason, ToolCalled, ToolCallRefused

ToolResult = ToolMessage | Command[Any]
ToolHandler = Callable[[ToolCallRequest], ToolResult]
BACKOFF_S = 0.05
REPORT = "Report"  # the tool that ends the task; it calls no service


class LimitReached(Exception):
    """A limit of the attempt (model calls, tool calls, time) ended it."""


class Limits(AgentMiddleware[Any, Any]):
    """End the attempt when its model calls, tool calls, time or another budget are used up."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        attempt = CURRENT_ATTEMPT.get()
        settings = attempt.context.settings
        check_time()
        if attempt.model_calls >= settings.model_calls:
            raise LimitReached(f"{settings.model_calls} model calls made (MODEL_CALLS)")
        attempt.model_calls += 1
        attempt.model_tries = 0
        try:
            response = handler(request)
        except Exception:
            check_time()  # raises if the attempt's time cut the request short
            raise
        self._count_tool_calls(attempt, response)
        return response

    @staticmethod
    def _count_tool_calls(attempt: AttemptInProgress, response: ModelResponse[Any]) -> None:
        """Count when the reply comes: parallel calls start in any order, so a later count would vary."""
        limit = attempt.context.settings.tool_calls
        replies = [message for message in response.result if isinstance(message, AIMessage)]
        attempt.tool_calls += sum(call["name"] != REPORT for reply in replies for call in reply.tool_calls)
        if attempt.tool_calls > limit:
            raise LimitReached(f"more than {limit} tool calls asked for (TOOL_CALLS)")

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        check_time()
        return handler(request)


def check_time() -> None:
    """Raise ``LimitReached`` if the attempt's time or a budget is used up."""
    attempt = CURRENT_ATTEMPT.get()
    if attempt.seconds_left <= 0:
        raise LimitReached(f"{attempt.context.settings.attempt_time:g} s have passed (ATTEMPT_TIME)")
    if spent := attempt.context.budget_spent():
        raise LimitReached(spent)


class CallIdentity(AgentMiddleware[Any, Any]):
    """Number and record each tool call, so that all its tries and the fallback share one identity and key.

    A failure becomes an error ToolMessage, which reports the cause and whether the side effect is unknown.
    """

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        call = identify(CURRENT_ATTEMPT.get(), dict(request.tool_call), request.state["messages"])
        if call is None:
            return handler(request)  # LangChain reports the wrong tool or argument to the model
        token = CURRENT_CALL.set(call)
        try:
            message = handler(request)
            _record_call(call, None, "done" if call.write else "none", _text(message))
        except ToolFailure as failure:
            message = _error_message(request, call, failure)
        finally:
            CURRENT_CALL.reset(token)
        return message


def _error_message(request: ToolCallRequest, call: Call, failure: ToolFailure) -> ToolMessage:
    text = failure.for_model(call.side_effect)
    _record_call(call, failure.cause, call.side_effect, text)
    name = request.tool_call["name"]
    return ToolMessage(text, tool_call_id=request.tool_call["id"], name=name, status="error")


def _text(message: ToolResult) -> str:
    return str(message.content) if isinstance(message, ToolMessage) else ""


def _record_call(call: Call, error: str | None, side_effect: str, result: str) -> None:
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
    """With ``FALLBACK=direct``, send a call once more to the tool's port after its last try."""

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
    """Retry a call that may succeed later, up to ``TOOL_LIMIT`` tries.

    Wait as long as Retry-After says. A failure with a wait above ``RETRY_AFTER_MAX`` is final.
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


# in characters: a model may send texts of any length
NAME_LIMIT, ARGUMENTS_LIMIT, DETAIL_LIMIT = 200, 2000, 500
_Refusal = tuple[int, str, str, RefusalReason, str]


class Refusals(AgentMiddleware[Any, Any]):
    """Record the calls in each model reply that the agent refuses, without changing the reply.

    LangChain reports the problem to the model. The agent sends no request for such a call.
    """

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        response = handler(request)
        attempt = CURRENT_ATTEMPT.get()
        identity = attempt.context.identity
        for index, tool, arguments, why, detail in _refused(response):
            attempt.context.record(
                ToolCallRefused(
                    t=time.time(),
                    episode=identity.episode,
                    attempt=identity.attempt,
                    reply=attempt.model_calls,
                    index=index,
                    tool=tool[:NAME_LIMIT],
                    arguments=arguments[:ARGUMENTS_LIMIT],
                    why=why,
                    detail=detail[:DETAIL_LIMIT],
                )
            )
        return response


def _refused(response: ModelResponse[Any]) -> Iterator[_Refusal]:
    for reply in response.result:
        if isinstance(reply, AIMessage):
            for index, call in enumerate(reply.tool_calls):
                if (refusal := _why(dict(call), response)) is not None:
                    arguments = json.dumps(call["args"], ensure_ascii=False, default=str)
                    yield index, call["name"], arguments, *refusal
            for index, malformed in enumerate(reply.invalid_tool_calls, len(reply.tool_calls)):
                detail = str(malformed.get("error") or "")
                yield index, str(malformed["name"] or ""), str(malformed["args"] or ""), "malformed", detail


def _why(call: dict[str, Any], response: ModelResponse[Any]) -> tuple[RefusalReason, str] | None:
    """Return the reason and its detail; None for a call that the agent accepts."""
    if call["name"] == REPORT:
        return None if response.structured_response else ("bad_arguments", _report_error(call, response))
    tool = BY_NAME.get(call["name"])
    if tool is None:
        return "unknown_tool", ""
    try:
        tool.request_for(call["args"])
    except ValidationError as error:
        problems = error.errors(include_url=False)
        return "bad_arguments", "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in problems)
    except TypeError as error:
        return "bad_arguments", str(error)
    return None


def _report_error(call: dict[str, Any], response: ModelResponse[Any]) -> str:
    """Return LangChain's answer to a report that violates its schema."""
    answers = [message for message in response.result if isinstance(message, ToolMessage)]
    return next((str(answer.text) for answer in answers if answer.tool_call_id == call["id"]), "")
