"""Faults of the model's answers, and the editing of their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from wirefault.dialects.base import ModelReply, ModelRequest, OfferedTool, ToolCall
from wirefault.dialects.json_values import as_list, as_object, as_objects, as_text, compact
from wirefault.faults.base import Try
from wirefault.faults.catalogue.model.content import ContentFault, choose_if_any, with_new_id

_ANSWER_TOOL = Field("Report", description="tool by which the agent gives its final answer, if any")


class _AnswerFault(ContentFault):
    """Changes an answer: a text, or the sentences in a call of the final-answer tool."""

    answer_tool: str = _ANSWER_TOOL

    def _final(self, reply: ModelReply) -> int | None:
        """The index of the call with the final answer; None without one."""
        return next((at for at, call in enumerate(reply.calls) if call.name == self.answer_tool), None)

    def _answering(self, text: str, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply:
        """The text as the final answer, in a call of the final-answer tool if the request offers it."""
        tool = request.tool(self.answer_tool)
        values = fitting(tool.schema, text) if tool else None
        if not isinstance(values, dict):
            return ModelReply(text)
        call = with_new_id(ToolCall(self.answer_tool, compact(values)), reply, request, tried)
        return ModelReply().with_calls(call)

    def _reworded(self, reply: ModelReply, edit: TextEdit) -> ModelReply | None:
        """Edit the sentences and figures of the answer; None if the reply has none."""
        at = self._final(reply)
        if at is None:
            return ModelReply(edit(reply.text), (), reply.finish) if reply.text and not reply.calls else None
        values = reply.calls[at].values()
        if values is None:
            return None
        arguments = compact(_with_edited_texts(values, edit))
        return reply.with_call(at, ToolCall(self.answer_tool, arguments, reply.calls[at].id))

    def _spoken(self, reply: ModelReply) -> str:
        """The answer's sentences; empty if the reply has no answer."""
        at = self._final(reply)
        if at is not None:
            return "\n".join(sentences(reply.calls[at].values()))
        return "" if reply.calls else reply.text


class EmptyAnswer(ContentFault):
    """Empty the model's reply: no text, no tool call, the usual finish reason.

    Agents tend to treat it as the end of the task and return an empty answer.
    """

    name = "empty_answer"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        return ModelReply() if reply.text or reply.calls else None


class Hallucination(_AnswerFault):
    """Make the model state something without a source.

    ``figure``: a figure of the answer is changed wherever it occurs. ``confirmed``: the answer claims
    confirmation by a tool that was not called. ``done``: instead of calling tools, the model claims that
    everything is done. Nothing on the wire reveals it.
    """

    name = "hallucination"

    kind: Literal["any", "figure", "confirmed", "done"] = Field(
        "any", description="what is invented: a figure, a confirmation, or the completion of the calls"
    )

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        spoken = self._spoken(reply)
        if not spoken:
            calls = reply.calls if self.kind in ("any", "done") else ()
            return self._answering(done_text(calls), reply, request, tried) if calls else None
        figure = choose_if_any(figures_in(spoken), tried.chance("figure"))
        if figure is not None and self.kind in ("any", "figure"):
            return self._reworded(reply, replacing(figure, other_figure(figure, tried)))
        return self._confirmed(reply, request, tried) if self.kind in ("any", "confirmed") else None

    def _confirmed(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        used = {call.name for call in (*request.calls, *reply.calls)} | {self.answer_tool}
        unused = [tool.name for tool in request.tools if tool.name not in used]
        tool = choose_if_any(unused, tried.chance("tool"))
        claim = "I have checked this twice." if tool is None else f"I have checked this with {tool}."
        return self._reworded(reply, appending(claim, self._spoken(reply)))


class IncorrectReasoning(_AnswerFault):
    """Invert a conclusion of the model's answer.

    One statement is inverted (more/less, before/after, is/is not, ...); without such a word two figures are
    swapped. Replies without an answer pass.
    """

    name = "incorrect_reasoning"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        spoken = self._spoken(reply)
        turned = choose_if_any(statements(spoken), tried.chance("statement"))
        if turned is not None:
            return self._reworded(reply, turning(spoken, turned))
        figures = figures_in(spoken)
        return self._reworded(reply, swapping(*figures[:2])) if len(figures) > 1 else None


class OffTopic(_AnswerFault):
    """Replace the model's answer by one about something else.

    It describes a tool that the task has not used, in the words of the request's tool list; without tools it
    is a line about the weather. Tool calls of the reply are dropped.
    """

    name = "off_topic"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        used = {call.name for call in (*request.calls, *reply.calls)} | {self.answer_tool}
        unused = [tool for tool in request.tools if tool.name not in used]
        tool = choose_if_any(unused, tried.chance("topic"))
        words = about_text(tool) if tool else "It has been unusually mild for the season, has it not?"
        return self._answering(words, reply, request, tried)


class StuckPattern(ContentFault):
    """Make the model think about the next step without taking it.

    Tool calls become text that considers them; an answer becomes text that considers the question. With a
    persistent trigger the model never makes progress.
    """

    name = "stuck_pattern"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        return ModelReply(considering_text(reply.calls, request.user))


class RefusingProgress(ContentFault):
    """Make the model stop before the next step: it asks for permission or refuses.

    Tool calls are dropped; the text names them, or quotes the user's question.
    """

    name = "refusing_progress"

    kind: Literal["asks", "refuses"] = Field("asks", description="ask for permission, or refuse")

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        return ModelReply(refusing_text(reply.calls, request.user, asks=self.kind == "asks"))


TextEdit = Callable[[str], str]
_QUOTED = 200
_FIGURE = re.compile(r"(?<![\w.,:/-])-?\d{1,12}(?:\.\d{1,6})?(?![\w:/-]|[.,]\d)")
_PAIRS = """
more/less higher/lower warmer/colder above/below before/after earlier/later larger/smaller longer/shorter
first/last always/never yes/no is/is_not are/are_not was/was_not were/were_not has_been/has_not_been
have_been/have_not_been can/cannot will/will_not
"""
_WORD_PAIRS = [pair.replace("_", " ").split("/") for pair in _PAIRS.split()]
_TURNED = {word: opposite for pair in _WORD_PAIRS for word, opposite in (pair, pair[::-1])}
_WORDS = "|".join(sorted(_TURNED.keys() - {"yes", "no"}, key=len, reverse=True))  # "is not" before "is"
_STATEMENT = re.compile(rf"\b(?:{_WORDS})\b|\b(?:yes|no)(?=[,.;!])", re.IGNORECASE)


def figures_in(words: str) -> list[str]:
    """The figures in a text, without repeats; dates and times are not figures."""
    return list(dict.fromkeys(_FIGURE.findall(words)))


def other_figure(figure: str, tried: Try) -> str:
    """Another figure of the same precision, off by 5 to 50 percent and by at least 1 in its last digit."""
    decimals = len(figure.partition(".")[2])
    value, drawn = float(figure), tried.chance("figure-value")
    share = 0.05 + 0.45 * drawn
    step = max(abs(value) * share, 10.0**-decimals)
    return f"{value + step if tried.chance('figure-sign') < 0.5 else value - step:.{decimals}f}"


def replacing(figure: str, other: str) -> TextEdit:
    """Replace the figure wherever a text has it."""
    return lambda words: _FIGURE.sub(lambda match: other if match[0] == figure else match[0], words)


def swapping(first: str, second: str) -> TextEdit:
    """Put each of two figures where a text has the other."""
    swapped = {first: second, second: first}
    return lambda words: _FIGURE.sub(lambda match: swapped.get(match[0], match[0]), words)


def statements(words: str) -> list[int]:
    """The offsets of the words that can be inverted."""
    return [match.start() for match in _STATEMENT.finditer(words)]


def turning(spoken: str, at: int) -> TextEdit:
    """Invert the word at that offset of the answer ``spoken``, in its line."""
    start = spoken.rfind("\n", 0, at) + 1
    line = spoken[start:].partition("\n")[0]
    turned = line[: at - start] + _STATEMENT.sub(_opposite, line[at - start :], count=1)
    return lambda words: "\n".join(turned if own == line else own for own in words.split("\n"))


def appending(claim: str, spoken: str) -> TextEdit:
    """Add a sentence to the last of the answer's."""
    last = spoken.split("\n")[-1]
    return lambda words: f"{words} {claim}" if words.split("\n")[-1] == last else words


def _with_edited_texts(value: Any, edit: TextEdit) -> Any:
    """Edit the sentences in the value, and its numbers as if they were texts."""
    if isinstance(value, dict):
        return {key: _with_edited_texts(inner, edit) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_edited_texts(inner, edit) for inner in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number(edit(_plain(value)), value)
    return edit(value) if isinstance(value, str) and _is_sentence(value) else value


def sentences(value: Any) -> Iterator[str]:
    """The texts with more than one word in the JSON value."""
    if isinstance(value, str) and _is_sentence(value):
        yield value
    children = value.values() if isinstance(value, dict) else as_list(value)
    for child in children:
        yield from sentences(child)


def fitting(schema: Mapping[str, Any], words: str) -> Any:
    """A value for the JSON schema, with those words as its texts."""
    return _fitting(schema, words, as_object(schema.get("$defs")), 0)


def done_text(calls: Sequence[ToolCall]) -> str:
    return f"All of it is done: {_named(calls)}."


def about_text(tool: OfferedTool) -> str:
    return f"Let me tell you about {tool.name}. {tool.description[:_QUOTED]}".strip()


def considering_text(calls: Sequence[ToolCall], user: str) -> str:
    if calls:
        return (
            f"The next step could be {_named(calls)}. Before that, let me think about whether it is right. "
            "There are several ways to look at this, and each has its merits."
        )
    return f"{_quoted(user)}Let me think about what is really asked here before I say anything."


def refusing_text(calls: Sequence[ToolCall], user: str, asks: bool) -> str:
    step = f"The next step would be {_named(calls)}. " if calls else _quoted(user)
    return step + ("Shall I go on?" if asks else "I am not able to go on with this.")


def _opposite(match: re.Match[str]) -> str:
    opposite = _TURNED[match[0].lower()]
    return opposite.capitalize() if match[0][0].isupper() else opposite


def _named(calls: Sequence[ToolCall]) -> str:
    return ", ".join(f"{call.name} {call.arguments[:_QUOTED]}" for call in calls)


def _quoted(user: str) -> str:
    return f"You asked: “{user[:_QUOTED]}”. " if user.strip() else ""


def _is_sentence(value: str) -> bool:
    return " " in value.strip()


def _plain(value: int | float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else str(value)


def _number(written: str, old: int | float) -> int | float:
    if written == _plain(old):
        return old
    try:
        return int(written) if isinstance(old, int) else float(written)
    except ValueError:  # the edit is for sentences only
        return old


def _fitting(schema: Mapping[str, Any], words: str, known: Mapping[str, Any], depth: int) -> Any:
    if depth > 8:  # a recursive schema
        return None
    if "$ref" in schema:
        name = as_text(schema["$ref"]).rpartition("/")[2]
        return _fitting(as_object(known.get(name)), words, known, depth + 1)
    if "const" in schema or "default" in schema or as_list(schema.get("enum")):
        return schema.get("const", schema.get("default", (as_list(schema.get("enum")) or [None])[0]))
    choices = as_objects(schema.get("anyOf")) + as_objects(schema.get("oneOf"))
    if choices:
        return _fitting(choices[0], words, known, depth + 1)
    return _of_type(schema, words, known, depth)


def _of_type(schema: Mapping[str, Any], words: str, known: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        properties = as_object(schema.get("properties"))
        required = [name for name in as_list(schema.get("required")) if isinstance(name, str)]
        return {name: _fitting(as_object(properties.get(name)), words, known, depth + 1) for name in required}
    plain: dict[Any, Any] = {"array": [], "integer": 0, "number": 0, "boolean": True, "null": None}
    return plain.get(kind, words) if isinstance(kind, str) else words
