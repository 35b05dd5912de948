"""Faults of the model's answers: what it says, or says instead of a step."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.dialects.json_values import compact
from windtunnel.dialects.model_messages import ModelReply, ModelRequest, ToolCall
from windtunnel.faults.base import Try
from windtunnel.faults.catalogue.model import wording
from windtunnel.faults.catalogue.model.content import ContentFault, pick, twin

_ANSWER_TOOL = Field("Report", description="the tool with which the agent gives its final answer, if any")


class _AnswerFault(ContentFault):
    """Of the answer: the text, and the sentences in a call of the tool for the final answer."""

    answer_tool: str = _ANSWER_TOOL

    def _final(self, said: ModelReply) -> int | None:
        """Which call is the final answer; None without one."""
        found = (at for at, call in enumerate(said.calls) if call.name == self.answer_tool)
        return next(found, None)

    def _answering(self, text: str, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply:
        """That text as the final answer: a call of the tool for it where it is offered."""
        tool = talk.tool(self.answer_tool)
        values = wording.fitting(tool.schema, text) if tool else None
        if not isinstance(values, dict):
            return ModelReply(text)
        call = twin(ToolCall(self.answer_tool, compact(values)), said, talk, this)
        return ModelReply().with_calls(call)

    def _reworded(self, said: ModelReply, edit: wording.Edit) -> ModelReply | None:
        """With the answer's sentences and figures edited; None if there is no answer in the reply."""
        at = self._final(said)
        if at is None:
            return ModelReply(edit(said.text), (), said.finish) if said.text and not said.calls else None
        values = said.calls[at].values()
        if values is None:
            return None
        arguments = compact(wording.edited(values, edit))
        return said.with_call(at, ToolCall(self.answer_tool, arguments, said.calls[at].id))

    def _spoken(self, said: ModelReply) -> str:
        """The answer's sentences; empty if the reply is no answer."""
        at = self._final(said)
        if at is not None:
            return "\n".join(wording.sentences(said.calls[at].values()))
        return "" if said.calls else said.text


class EmptyAnswer(ContentFault):
    """The model says nothing: no text, no tool call, and the usual reason for the end.

    Agents tend to take it for the end of the task and end with an empty answer.
    """

    name = "empty_answer"

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        return ModelReply() if said.text or said.calls else None


class Hallucination(_AnswerFault):
    """The model states what no tool has told it.

    A figure of its answer becomes another one, everywhere in it; in an answer without figures it claims
    that a tool which it did not ask has confirmed it. Where it asks for tools, it claims instead that all
    of it is done: the tools are never called. Nothing on the wire shows it.
    """

    name = "hallucination"

    kind: Literal["any", "figure", "confirmed", "done"] = Field(
        "any", description="what is made up: a figure, a confirmation, or that the calls are done"
    )

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        spoken = self._spoken(said)
        if not spoken:
            calls = said.calls if self.kind in ("any", "done") else ()
            return self._answering(wording.done(calls), said, talk, this) if calls else None
        figure = pick(wording.figures(spoken), this.chance("figure"))
        if figure is not None and self.kind in ("any", "figure"):
            return self._reworded(said, wording.replacing(figure, wording.other_figure(figure, this)))
        return self._confirmed(said, talk, this) if self.kind in ("any", "confirmed") else None

    def _confirmed(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        used = {call.name for call in (*talk.calls, *said.calls)} | {self.answer_tool}
        tool = pick([tool.name for tool in talk.tools if tool.name not in used], this.chance("tool"))
        claim = "I have checked this twice." if tool is None else f"I have checked this with {tool}."
        return self._reworded(said, wording.appending(claim, self._spoken(said)))


class IncorrectReasoning(_AnswerFault):
    """The answer draws the wrong conclusion from what the model was told.

    One statement of it is turned round (more and less, before and after, is and is not, ...); in an answer
    without such a word two of its figures change places. Replies that are no answer are left alone.
    """

    name = "incorrect_reasoning"

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        spoken = self._spoken(said)
        turned = pick(wording.statements(spoken), this.chance("statement"))
        if turned is not None:
            return self._reworded(said, wording.turning(spoken, turned))
        figures = wording.figures(spoken)
        return self._reworded(said, wording.swapping(*figures[:2])) if len(figures) > 1 else None


class OffTopic(_AnswerFault):
    """The model answers something that was not asked.

    Its answer is about a tool that the task has not used, in the words of the request's own tool list; a
    request without tools gets a line about the weather. Tool calls of the reply are dropped.
    """

    name = "off_topic"

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        used = {call.name for call in (*talk.calls, *said.calls)} | {self.answer_tool}
        tool = pick([one for one in talk.tools if one.name not in used], this.chance("topic"))
        about = wording.about(tool) if tool else "It has been unusually mild for the season, has it not?"
        return self._answering(about, said, talk, this)


class StuckPattern(ContentFault):
    """The model thinks about the next step and does not take it.

    Its tool calls become text that considers them; an answer becomes text that considers the question.
    With a trigger that goes on, it never gets further.
    """

    name = "stuck_pattern"

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        return ModelReply(wording.considering(said.calls, talk.user))


class RefusingProgress(ContentFault):
    """The model stops before the next step: it asks for leave, or says that it cannot go on.

    Its tool calls are dropped; the text names them, or quotes what the user asked.
    """

    name = "refusing_progress"

    kind: Literal["asks", "refuses"] = Field("asks", description="asks for leave, or says that it cannot")

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        return ModelReply(wording.refusing(said.calls, talk.user, asks=self.kind == "asks"))
