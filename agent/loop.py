"""The lab's subject: a LangChain agent with the lab's tools and a structured final report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools.base import ArgsSchema
from pydantic import BaseModel, Field

from agent.calls import CURRENT_ATTEMPT, CURRENT_CALL, Ask, AttemptInProgress, try_call
from agent.checkpoints import Checkpoints, Graph, InProcessMemory, Memory
from agent.handoff import HandoffDesk
from agent.middleware import REPORT, CallIdentity, LimitReached, Limits, Refusals
from agent.recovery import recovering, recovery_middleware
from agent.tools import TOOLS, AgentTool
from wirefault.history import events
from wirefault.recovery.strategies import AS_SHIPPED, Recovery
from wirefault.subjects.results import AttemptOver, as_report, converse, crash_result
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


def _tool(tool: AgentTool, ask: Ask = try_call) -> BaseTool:
    def run(**_: Any) -> str:
        return ask(CURRENT_CALL.get())

    return _StrictTool.from_function(
        func=run, name=tool.name, description=tool.description, args_schema=tool.arguments
    )


# the types in a checkpoint besides messages
STORED_TYPES = (Report, Value)


class Agent(Subject):
    """The subject that the runner calls, one prompt or conversation at a time.

    ``redact`` removes secrets from errors. ``run_key`` returns a run's key, which signs its requests.
    ``recovery``: the strategies against failures. ``fallback``: the model of the strategy ``fallback``.
    ``memories``: where conversations are stored. ``desk``: where the strategy ``handoff`` asks.
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
        memories: Checkpoints | None = None,
        desk: HandoffDesk | None = None,
    ) -> None:
        self._memories = memories or InProcessMemory(STORED_TYPES)
        self.name = name
        self._run_key = run_key
        self._clock = clock
        self._sleep = sleep
        self._redact = redact
        self._recovery = recovery
        ask = recovering(recovery, sleep, desk)
        self._graph: Graph = create_agent(
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
            if context.turns or context.make_turn or isinstance(self._memories, Checkpoints):
                return self._with_memory(prompt, attempt)
            return self._answer(prompt, attempt, None)
        finally:
            CURRENT_ATTEMPT.reset(token)
            attempt.to_close.close()

    def _with_memory(self, prompt: str, attempt: AttemptInProgress) -> SubjectResult:
        """Make the attempt, from the last checkpoint if an earlier process or attempt left one."""
        memory, begun = self._memories.open(self._graph, attempt.context.identity), self._clock()
        attempt.began = memory.began
        preserved = memory.preserved
        if memory.began == attempt.context.identity.attempt:  # its calls continue to count
            attempt.model_calls = sum(isinstance(message, AIMessage) for message in memory.messages)
        result = self._converse(prompt, attempt, memory)
        ended = result.ended_by not in ("limit", "exception")
        if preserved:
            seconds = self._clock() - begun
            attempt.record_recovery("checkpoint", ended, seconds, preserved=preserved)
        if ended:
            self._memories.finished(memory)
        return result

    def _converse(self, prompt: str, attempt: AttemptInProgress, memory: Memory) -> SubjectResult:
        """Hold the conversation; answers that are stored are not asked for again."""
        answered = [_stored_result(turn) for turn in memory.turns]
        if memory.unfinished:
            answered.pop()
        first = len(answered) + 1

        def turn(text: str, number: int, seconds: float) -> SubjectResult:
            if number < first:
                return answered[number - 1]
            attempt.deadline = attempt.clock() + seconds
            result = self._answer(text, attempt, memory)
            if result.ended_by in ("limit", "exception"):
                raise AttemptOver(result)
            return result

        def begin_turn(number: int, text: str) -> None:
            if number >= first:
                attempt.context.begin_turn(number, text)

        return converse(prompt, replace(attempt.context, begin_turn=begin_turn), turn, self._clock)

    def _answer(self, prompt: str, attempt: AttemptInProgress, memory: Memory | None) -> SubjectResult:
        """Return the answer to one prompt or turn; with a memory, continue it where it was left."""
        settings = attempt.context.settings
        # so high that the attempt's limits end it, not LangGraph's
        steps = 8 * (settings.model_calls + settings.tool_calls + 2)
        message = {"messages": [{"role": "user", "content": prompt}]}
        try:
            if memory is None:
                return _result(self._graph.invoke(message, {"recursion_limit": steps}))
            config, unfinished = memory.config(steps), memory.unfinished
            memory.restored = None
            return _result(
                memory.graph.invoke(None if unfinished else message, config, durability=memory.durability)
            )
        except LimitReached as limit:
            return SubjectResult("limit", error_type="LimitReached", error=str(limit))
        except Exception as error:  # noqa: BLE001 - any error of the agent is its result
            crash = crash_result(error)
            return replace(crash, error=self._redact(crash.error or "")[:500])


def _stored_result(turn: Sequence[AnyMessage]) -> SubjectResult:
    """Return the result of a stored turn, from its last report or text."""
    replies = [message for message in turn if isinstance(message, AIMessage)]
    call = next((call for reply in replies[-1:] for call in reply.tool_calls if call["name"] == REPORT), None)
    report = as_report(call["args"]) if call else None
    if report:
        return SubjectResult("report", report, response=report.answer)
    return _result({"messages": replies[-1:] or list(turn)})


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
