"""Faults of the model's answers: what it says, or says instead of a step."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wirefault.dialects.base import ModelReply, ModelRequest, ToolCall
from wirefault.dialects.json_values import compact
from wirefault.faults.base import Try
from wirefault.faults.catalogue.model import wording
from wirefault.faults.catalogue.model.content import ContentFault, choose_if_any, with_new_id

_ANSWER_TOOL = Field("Report", description="the tool with which the agent gives its final answer, if any")


class _AnswerFault(ContentFault):
    """Changes an answer: a text, or the sentences in a call of the tool for the final answer."""

    answer_tool: str = _ANSWER_TOOL

    def _final(self, reply: ModelReply) -> int | None:
        """Which call is the final answer; None without one."""
        return next((at for at, call in enumerate(reply.calls) if call.name == self.answer_tool), None)

    def _answering(self, text: str, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply:
        """That text as the final answer, in a call of the tool for it if the request offers the tool."""
        tool = request.tool(self.answer_tool)
        values = wording.fitting(tool.schema, text) if tool else None
        if not isinstance(values, dict):
            return ModelReply(text)
        call = with_new_id(ToolCall(self.answer_tool, compact(values)), reply, request, tried)
        return ModelReply().with_calls(call)

    def _reworded(self, reply: ModelReply, edit: wording.TextEdit) -> ModelReply | None:
        """The reply with its answer's sentences and figures edited; None if it holds no answer."""
        at = self._final(reply)
        if at is None:
            return ModelReply(edit(reply.text), (), reply.finish) if reply.text and not reply.calls else None
        values = reply.calls[at].values()
        if values is None:
            return None
        arguments = compact(wording.with_edited_texts(values, edit))
        return reply.with_call(at, ToolCall(self.answer_tool, arguments, reply.calls[at].id))

    def _spoken(self, reply: ModelReply) -> str:
        """The answer's sentences; empty if the reply is no answer."""
        at = self._final(reply)
        if at is not None:
            return "\n".join(wording.sentences(reply.calls[at].values()))
        return "" if reply.calls else reply.text


class EmptyAnswer(ContentFault):
    """The model says nothing: no text, no tool call, and the usual reason for the end.

    Agents tend to take it for the end of the task and end with an empty answer.
    """

    name = "empty_answer"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        return ModelReply() if reply.text or reply.calls else None


class Hallucination(_AnswerFault):
    """The model states what no tool has told it.

    A figure of its answer becomes another one, wherever the answer has it. An answer without figures claims
    that a tool which the model did not call has confirmed it. Instead of calling tools the model claims that
    all of it is done: the tools are never called. Nothing on the wire shows it.
    """

    name = "hallucination"

    kind: Literal["any", "figure", "confirmed", "done"] = Field(
        "any", description="what is made up: a figure, a confirmation, or that the calls are done"
    )

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        spoken = self._spoken(reply)
        if not spoken:
            calls = reply.calls if self.kind in ("any", "done") else ()
            return self._answering(wording.done(calls), reply, request, tried) if calls else None
        figure = choose_if_any(wording.figures_in(spoken), tried.chance("figure"))
        if figure is not None and self.kind in ("any", "figure"):
            return self._reworded(reply, wording.replacing(figure, wording.other_figure(figure, tried)))
        return self._confirmed(reply, request, tried) if self.kind in ("any", "confirmed") else None

    def _confirmed(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        used = {call.name for call in (*request.calls, *reply.calls)} | {self.answer_tool}
        unused = [tool.name for tool in request.tools if tool.name not in used]
        tool = choose_if_any(unused, tried.chance("tool"))
        claim = "I have checked this twice." if tool is None else f"I have checked this with {tool}."
        return self._reworded(reply, wording.appending(claim, self._spoken(reply)))


class IncorrectReasoning(_AnswerFault):
    """The answer draws the wrong conclusion from what the model was told.

    One of its statements is turned round (more and less, before and after, is and is not, ...); in an
    answer without such a word two figures change places. Replies that are no answer stay as they are.
    """

    name = "incorrect_reasoning"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        spoken = self._spoken(reply)
        turned = choose_if_any(wording.statements(spoken), tried.chance("statement"))
        if turned is not None:
            return self._reworded(reply, wording.turning(spoken, turned))
        figures = wording.figures_in(spoken)
        return self._reworded(reply, wording.swapping(*figures[:2])) if len(figures) > 1 else None


class OffTopic(_AnswerFault):
    """The model answers something that was not asked.

    Its answer is about a tool that the task has not used, in the words of the request's own tool list; a
    request without tools gets a line about the weather. Tool calls of the reply are dropped.
    """

    name = "off_topic"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        used = {call.name for call in (*request.calls, *reply.calls)} | {self.answer_tool}
        unused = [tool for tool in request.tools if tool.name not in used]
        tool = choose_if_any(unused, tried.chance("topic"))
        about = wording.about(tool) if tool else "It has been unusually mild for the season, has it not?"
        return self._answering(about, reply, request, tried)


class StuckPattern(ContentFault):
    """The model thinks about the next step and does not take it.

    Its tool calls become text that considers them; an answer becomes text that considers the question.
    With a trigger that goes on, it never gets further.
    """

    name = "stuck_pattern"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        return ModelReply(wording.considering(reply.calls, request.user))


class RefusingProgress(ContentFault):
    """The model stops before the next step: it asks for permission, or says that it cannot go on.

    Its tool calls are dropped; the text names them, or quotes what the user asked.
    """

    name = "refusing_progress"

    kind: Literal["asks", "refuses"] = Field("asks", description="asks for permission, or refuses")

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        return ModelReply(wording.refusing(reply.calls, request.user, asks=self.kind == "asks"))
