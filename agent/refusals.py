"""Records the tool calls that the agent itself refuses, so that the history tells what became of them.

LangChain tells the model what is wrong with such a call; the agent sends no request for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, ToolMessage
from pydantic import ValidationError

from agent.calls import CURRENT_ATTEMPT
from agent.middleware import REPORT
from agent.tools import BY_NAME
from wirefault.history.events import RefusedBecause, ToolCallRefused

# in characters: a model may ask for anything
NAME_LIMIT, ARGUMENTS_LIMIT, DETAIL_LIMIT = 200, 2000, 500
_Refusal = tuple[int, str, str, RefusedBecause, str]


class Refusals(AgentMiddleware[Any, Any]):
    """Looks at the calls of each of the model's replies, in their order; changes nothing."""

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
            for index, broken in enumerate(reply.invalid_tool_calls, len(reply.tool_calls)):
                detail = str(broken.get("error") or "")
                yield index, str(broken["name"] or ""), str(broken["args"] or ""), "malformed", detail


def _why(call: dict[str, Any], response: ModelResponse[Any]) -> tuple[RefusedBecause, str] | None:
    """The reason and its detail; None for a call that the agent makes."""
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
    """LangChain's answer to a report that does not fit its schema."""
    answers = [message for message in response.result if isinstance(message, ToolMessage)]
    return next((str(answer.text) for answer in answers if answer.tool_call_id == call["id"]), "")
