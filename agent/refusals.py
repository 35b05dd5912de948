"""Records the tool calls that the agent refuses by itself, so that the history tells what became of them.

LangChain tells the model what is wrong with such a call; no request of it reaches a tool.
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
from windtunnel.history.events import RefusedBecause, ToolCallRefused

NAME_LIMIT, ARGUMENTS_LIMIT, DETAIL_LIMIT = 200, 2000, 500  # characters: a model may ask for anything
Found = tuple[int, str, str, RefusedBecause, str]


class Refusals(AgentMiddleware[Any, Any]):
    """Looks at each reply of the model, in the order in which it asked; changes nothing."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        response = handler(request)
        attempt = CURRENT_ATTEMPT.get()
        who = attempt.context.identity
        for index, tool, arguments, why, detail in _refused(response):
            attempt.context.record(
                ToolCallRefused(
                    t=time.time(),
                    episode=who.episode,
                    attempt=who.attempt,
                    reply=attempt.model_calls,
                    index=index,
                    tool=tool[:NAME_LIMIT],
                    arguments=arguments[:ARGUMENTS_LIMIT],
                    why=why,
                    detail=detail[:DETAIL_LIMIT],
                )
            )
        return response


def _refused(response: ModelResponse[Any]) -> Iterator[Found]:
    for reply in response.result:
        if isinstance(reply, AIMessage):
            for index, call in enumerate(reply.tool_calls):
                if (found := _why(dict(call), response)) is not None:
                    arguments = json.dumps(call["args"], ensure_ascii=False, default=str)
                    yield index, call["name"], arguments, *found
            for index, broken in enumerate(reply.invalid_tool_calls, len(reply.tool_calls)):
                detail = str(broken.get("error") or "")
                yield index, str(broken["name"] or ""), str(broken["args"] or ""), "malformed", detail


def _why(call: dict[str, Any], response: ModelResponse[Any]) -> tuple[RefusedBecause, str] | None:
    """None for a call that is made."""
    if call["name"] == REPORT:
        return None if response.structured_response else ("bad_arguments", _told(call, response))
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


def _told(call: dict[str, Any], response: ModelResponse[Any]) -> str:
    """What the model was told of a report that is none."""
    answers = [one for one in response.result if isinstance(one, ToolMessage)]
    return next((str(one.text) for one in answers if one.tool_call_id == call["id"]), "")
