"""The lab's subject: a LangChain agent with the lab's tools and a structured final report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools.base import ArgsSchema
from pydantic import BaseModel, Field

from agent.calls import CURRENT_ATTEMPT, CURRENT_CALL, AttemptInProgress, try_call
from agent.middleware import CallIdentity, LimitReached, Limits, Refusals
from agent.recovery import recovery_middleware
from agent.tools import TOOLS, AgentTool
from wirefault.history import events
from wirefault.recovery.strategies import AS_SHIPPED, Recovery
from wirefault.subjects.results import crash_result
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult

TODAY = "2026-03-02"
SYSTEM_PROMPT = f"""You are a personal assistant. Today is Monday, 2 March 2026 ({TODAY}).
Use the tools for every fact and every action; take figures from their results, never from memory.
A tool may fail. Its error says what happened and whether a side effect is unknown.
Never repeat an action whose side effect is unknown, unless the user asked for it.
Finish with Report. Its status is done only if everything that was asked is done, failed if something
was not done, unsure if you cannot tell."""


class Value(BaseModel):
    """One value that the user asked for."""

    value: int | float | str = Field(description="the number, or the text")
    unit: str | None = Field(None, description="unit of a number, such as celsius; null without one")


class Report(BaseModel):
    """Report to the user; ends the task."""

    status: Literal["done", "failed", "unsure"] = Field(description="whether what was asked is done")
    answer: str = Field(description="one sentence to the user")
    values: list[Value] = Field(
        default_factory=list,
        description="the values the user asked for, in the order asked, nothing else; empty for an action",
    )


class _StrictTool(StructuredTool):
    """A tool with its whole schema: LangChain's copy loses ``additionalProperties: false``."""

    @property
    def tool_call_schema(self) -> ArgsSchema:
        return self.args_schema or super().tool_call_schema


def _tool(tool: AgentTool) -> BaseTool:
    def run(**_: Any) -> str:
        return try_call(CURRENT_CALL.get())

    return _StrictTool.from_function(
        func=run, name=tool.name, description=tool.description, args_schema=tool.arguments
    )


class Agent(Subject):
    """The subject that the runner calls, one prompt at a time.

    ``redact`` removes secrets from errors. ``run_key`` returns a run's key, which signs its requests.
    ``recovery``: the strategies against failures.
    """

    keeps_record = True

    def __init__(
        self,
        model: BaseChatModel,
        name: str,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        redact: Callable[[str], str] = lambda text: text,
        run_key: Callable[[str], bytes] = lambda run_id: b"",
        recovery: Recovery = AS_SHIPPED,
    ) -> None:
        self.name = name
        self._run_key = run_key
        self._clock = clock
        self._sleep = sleep
        self._redact = redact
        self._recovery = recovery
        self._graph = create_agent(
            model,
            [_tool(tool) for tool in TOOLS],
            system_prompt=SYSTEM_PROMPT,
            middleware=[Refusals(), Limits(), CallIdentity(), *recovery_middleware(recovery, sleep)],
            # explicit: LangChain would choose response_format, which Groq refuses together with tools
            response_format=ToolStrategy(Report),
        )

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        settings = context.settings
        key = self._run_key(context.identity.run)
        attempt = AttemptInProgress(context, self._clock, self._sleep, key, recovery=self._recovery)
        token = CURRENT_ATTEMPT.set(attempt)
        # so high that the attempt's limits end it, not LangGraph's
        steps = 8 * (settings.model_calls + settings.tool_calls + 2)
        try:
            state = self._graph.invoke(
                {"messages": [{"role": "user", "content": prompt}]}, {"recursion_limit": steps}
            )
        except LimitReached as limit:
            return SubjectResult("limit", error_type="LimitReached", error=str(limit))
        except Exception as error:  # noqa: BLE001 - any error of the agent is its result
            return replace(crash_result(error), error=self._redact(str(error))[:500])
        finally:
            CURRENT_ATTEMPT.reset(token)
            attempt.to_close.close()
        return _result(state)


def _result(state: dict[str, Any]) -> SubjectResult:
    report = state.get("structured_response")
    if isinstance(report, Report):
        values = [value.model_dump() for value in report.values]
        return SubjectResult(
            "report", events.Report(report.status, report.answer, values), response=report.answer
        )
    last = state["messages"][-1]
    text = str(last.text).strip() if isinstance(last, AIMessage) else ""
    return SubjectResult("text", response=text) if text else SubjectResult("empty")
