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
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools.base import ArgsSchema
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field

from agent.calls import CURRENT_ATTEMPT, CURRENT_CALL, Ask, AttemptInProgress, try_call
from agent.middleware import CallIdentity, LimitReached, Limits, Refusals
from agent.recovery import recovering, recovery_middleware
from agent.tools import TOOLS, AgentTool
from wirefault.history import events
from wirefault.recovery.strategies import AS_SHIPPED, Recovery
from wirefault.subjects.results import AttemptOver, converse, crash_result
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult

Graph = CompiledStateGraph[Any, Any, Any, Any]
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


def _tool(tool: AgentTool, ask: Ask = try_call) -> BaseTool:
    def run(**_: Any) -> str:
        return ask(CURRENT_CALL.get())

    return _StrictTool.from_function(
        func=run, name=tool.name, description=tool.description, args_schema=tool.arguments
    )


def _serializer() -> JsonPlusSerializer:
    """Return a serializer that restores no types but messages and the report."""
    return JsonPlusSerializer(allowed_msgpack_modules=[Report, Value])


class Agent(Subject):
    """The subject that the runner calls, one prompt or conversation at a time.

    ``redact`` removes secrets from errors. ``run_key`` returns a run's key, which signs its requests.
    ``recovery``: the strategies against failures. ``fallback``: the model of the strategy ``fallback``.
    """

    keeps_record = True
    holds_conversations = True

    def __init__(
        self,
        model: BaseChatModel,
        name: str,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        redact: Callable[[str], str] = lambda text: text,
        run_key: Callable[[str], bytes] = lambda run_id: b"",
        recovery: Recovery = AS_SHIPPED,
        fallback: BaseChatModel | None = None,
    ) -> None:
        self.name = name
        self._run_key = run_key
        self._clock = clock
        self._sleep = sleep
        self._redact = redact
        self._recovery = recovery
        ask = recovering(recovery, sleep)
        self._graph = create_agent(
            model,
            [_tool(tool, ask) for tool in TOOLS],
            system_prompt=SYSTEM_PROMPT,
            middleware=[
                Refusals(),
                Limits(),
                CallIdentity(),
                *recovery_middleware(recovery, sleep, fallback),
            ],
            # explicit: LangChain would choose response_format, which Groq refuses together with tools
            response_format=ToolStrategy(Report),
        )

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        key = self._run_key(context.identity.run)
        attempt = AttemptInProgress(context, self._clock, self._sleep, key, recovery=self._recovery)
        token = CURRENT_ATTEMPT.set(attempt)
        try:
            if context.turns or context.make_turn:
                return self._converse(prompt, attempt)
            return self._answer(self._graph, prompt, attempt)
        finally:
            CURRENT_ATTEMPT.reset(token)
            attempt.to_close.close()

    def _converse(self, prompt: str, attempt: AttemptInProgress) -> SubjectResult:
        """Hold the conversation; a checkpointer of the attempt is its memory from turn to turn."""
        graph = self._graph.copy({"checkpointer": InMemorySaver(serde=_serializer())})

        def turn(text: str, _number: int, seconds: float) -> SubjectResult:
            attempt.deadline = attempt.clock() + seconds
            result = self._answer(graph, text, attempt)
            if result.ended_by in ("limit", "exception"):
                raise AttemptOver(result)
            return result

        return converse(prompt, attempt.context, turn, self._clock)

    def _answer(self, graph: Graph, prompt: str, attempt: AttemptInProgress) -> SubjectResult:
        """Return the agent's answer to one prompt or turn."""
        settings = attempt.context.settings
        # so high that the attempt's limits end it, not LangGraph's
        steps = 8 * (settings.model_calls + settings.tool_calls + 2)
        config: RunnableConfig = {"recursion_limit": steps, "configurable": {"thread_id": "attempt"}}
        try:
            return _result(graph.invoke({"messages": [{"role": "user", "content": prompt}]}, config))
        except LimitReached as limit:
            return SubjectResult("limit", error_type="LimitReached", error=str(limit))
        except Exception as error:  # noqa: BLE001 - any error of the agent is its result
            return replace(crash_result(error), error=self._redact(str(error))[:500])


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
