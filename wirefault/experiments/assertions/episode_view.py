"""What an assertion looks at: one episode, or a turn of it, as its history shows it. Pure.

What the history does not have is never taken for nothing: to ask for it raises ``NotRecorded``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from wirefault.dialects.base import ModelReply
from wirefault.dialects.http import split_events
from wirefault.dialects.json_values import as_text
from wirefault.dialects.mcp import read_message
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.history.events import AttemptEnded, EpisodeStarted, Exchange, ToolCalled, TurnBegun
from wirefault.history.logs import strip_control
from wirefault.judging.evidence.record import FaultRecord
from wirefault.judging.judge import EpisodeJudgement, RunJudgement
from wirefault.judging.requests import EpisodeTrace, Identified, Request

_LONGEST_SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class AssertionResult:
    """``passed`` is None where it cannot be told, and ``message`` says why then.

    ``applies`` is False where there was nothing to judge, such as the spacing of retries where nothing was
    sent again. ``measured`` and ``expected`` are in words; ``evidence`` has ids of events, as
    ``RUN/gateway-0:17``.
    """

    passed: bool | None
    name: str = ""
    measured: str = ""
    expected: str = ""
    message: str = ""
    evidence: tuple[str, ...] = ()
    applies: bool = True


class NotRecorded(Exception):
    """The history does not have what is asked of it; the message says what, and why where that is known."""


class NothingToJudge(Exception):
    """What the assertion speaks of did not come up in the episode; the message says what."""


def shown_text(text: str) -> str:
    """What a subject said, cut and fit for a terminal."""
    clean = strip_control(text)
    return clean if len(clean) <= _LONGEST_SHOWN else f"{clean[:_LONGEST_SHOWN]}..."


@dataclass(frozen=True)
class ToolUse:
    """One logical call of a tool. ``arguments``: None where they are not known."""

    tool: str
    arguments: Mapping[str, Any] | None
    start: float
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class ToolUses:
    """In the order in which they were made. ``gap``: why there may be others, empty if there are none.

    ``of_mcp``: the tools that servers of MCP offer, or were called for, to which that gap does not apply.
    ``unseen``: why there may be calls of any tool that nobody saw.
    """

    uses: Sequence[ToolUse]
    gap: str = ""
    of_mcp: frozenset[str] = frozenset()
    unseen: str = ""

    def gap_of(self, *tools: str) -> str:
        """Why there may be other calls of one of these."""
        return self.unseen or ("" if self.of_mcp.issuperset(tools) else self.gap)


def recorded_uses(calls: Sequence[Identified[ToolCalled]]) -> ToolUses:
    """Of a subject that records its calls."""
    return ToolUses([ToolUse(c.event.tool, c.event.arguments, c.event.t, (c.id,)) for c in calls])


def seen_uses(sent: Sequence[Request], *, has_model: bool) -> ToolUses:
    """Of any other: the calls of MCP that came to the gateway, and of other tools what the model asked for.

    What is neither called over MCP nor asked for by a model on a link of the wiring nobody has seen.
    """
    over_mcp = [use for request in sent for use in _over_mcp(request)]
    of_mcp = frozenset(use.tool for use in over_mcp).union(*map(_offered, sent))
    asked: list[ToolUse] = []
    gap = "" if has_model else "no link of the wiring leads to a model, which would ask for tools"
    for request in sent:
        if not request.of_model or not request.succeeded:
            continue
        reply = _reply_of(request.exchange) if request.exchange else None
        if reply is None:
            gap = "not every reply of the model is in the history (BODIES)"
            continue
        asked += [
            ToolUse(call.name, call.values(), request.end, request.ids)
            for call in reply.calls
            if call.name not in of_mcp
        ]
    return ToolUses(sorted([*over_mcp, *asked], key=lambda use: use.start), gap, of_mcp)


def _over_mcp(request: Request) -> Iterator[ToolUse]:
    """The call that the request is, unless it repeats one that failed on its way."""
    exchange = request.exchange
    if exchange is not None and exchange.tool and exchange.try_ == 1:
        body = None if exchange.request_cut else exchange.request_body
        message = read_message(body.encode()) if body else None
        arguments = message.arguments if message else None
        yield ToolUse(exchange.tool, arguments, request.start, request.ids)


def _offered(request: Request) -> Iterator[str]:
    """The tools that a server of MCP has named."""
    exchange = request.exchange
    if exchange is not None and exchange.message == "tools/list" and not exchange.reply_cut:
        message = read_message((exchange.reply_body or "").encode())
        yield from (as_text(tool.get("name")) for tool in (message.tools if message else ()))


def _reply_of(exchange: Exchange) -> ModelReply | None:
    """What the model replied, None where that is not in the history whole or cannot be read."""
    dialect = MODEL_DIALECTS.get(exchange.dialect)
    if exchange.reply_cut or not exchange.reply_body or dialect is None:
        return None
    try:
        if exchange.reply_body.lstrip().startswith("{"):
            body = json.loads(exchange.reply_body)
        else:
            body = dialect.collect(split_events(exchange.reply_body.encode()))
        return dialect.read_reply(body)
    except (ValueError, RecursionError):  # a body that is no reply of that API, or was changed into none
        return None


@dataclass(frozen=True)
class EpisodeView:
    """One episode of all its attempts, or its user turn of that number (from 1) if ``turn`` is set."""

    started: EpisodeStarted
    judgement: EpisodeJudgement
    trace: EpisodeTrace
    turn: int | None = None

    @property
    def episode(self) -> str:
        """Its key."""
        return self.started.episode

    @property
    def prompt(self) -> str:
        """What the user said, in the turn if it is of one."""
        turns = self.started.turns
        return turns[self.turn - 1] if self.turn and turns else self.started.prompt

    @property
    def turns(self) -> int:
        """How many there were to be."""
        return len(self.started.turns) or 1

    def of_turn(self, number: int) -> EpisodeView:
        """The same in that turn alone. Raises ``NothingToJudge`` where the prompt has no such turn."""
        if number > self.turns:
            raise NothingToJudge(f"the prompt has {self.turns} turn{'s' if self.turns > 1 else ''}")
        return replace(self, turn=number)

    @property
    def faults(self) -> Sequence[FaultRecord]:
        """What became of each fault of the whole episode."""
        return self.judgement.faults

    @property
    def last_end(self) -> Identified[AttemptEnded]:
        """How its last attempt ended."""
        if not self.trace.ends:
            raise NotRecorded("how it ended is not in the history")
        return self.trace.ends[-1]

    @property
    def answer(self) -> str | None:
        """What the user was told at last, or in the turn; None if the subject gave no answer.

        Raises ``NotRecorded`` where nobody asked the subject for its answer, or not turn by turn.
        """
        end = self.last_end.event
        if self.turn is not None and self.turns > 1:
            answers = self._turn_answers(end)
            return answers[self.turn - 1] if self.turn <= len(answers) else None
        if end.ended_by == "report" and end.report is not None:
            return end.response or end.report.answer
        if end.ended_by == "text" and not end.response:
            raise NotRecorded("the wiring does not say where the subject's answer is")
        return end.response if end.ended_by == "text" else None

    @property
    def seconds(self) -> float:
        """How long its attempts took, or the turn in the last one."""
        if self.turn is None or self.turns == 1:
            return sum(end.event.ms for end in self._ends) / 1000
        begin, end = self._turn_windows[-1]
        return end - begin

    @cached_property
    def sent(self) -> Sequence[Request]:
        """Its requests on all links, in the order in which they were sent."""
        return [sent for sent in self.trace.requests if self._is_in_turn(sent.start)]

    @property
    def trace_of_turn(self) -> EpisodeTrace:
        """The trace with the requests of the turn alone."""
        return self.trace.only(self.sent)

    @property
    def repeated(self) -> Sequence[Sequence[Request]]:
        """The requests that ask for the same within an attempt, those that were sent more than once."""
        return self.trace_of_turn.repeated

    @cached_property
    def model_requests(self) -> Sequence[Request]:
        """Those to models, tries that were sent again among them. Raises ``NotRecorded`` if none is seen."""
        requests = [sent for sent in self.sent if sent.of_model]
        if not requests and not self.trace.links.model_names and not self.started.recorded:
            raise NotRecorded("no link of the wiring leads to a model")
        return requests

    @property
    def recorded_calls(self) -> Sequence[Identified[ToolCalled]]:
        """The logical tool calls of a subject that records them."""
        return [call for call in self.trace.calls if self._is_in_turn(call.event.t)]

    @cached_property
    def tool_uses(self) -> ToolUses:
        """Its logical tool calls, as far as they are known."""
        if self.started.recorded:
            uses = recorded_uses(self.recorded_calls)
        else:
            uses = seen_uses(self.sent, has_model=bool(self.trace.links.model_names))
        return replace(uses, unseen=self.unseen())

    def unseen(self, links: Collection[str] = ()) -> str:
        """Why there may be requests on these links (all, if none is given) that nobody saw; else empty."""
        past = self.trace.past_lab
        if past:
            return f"connections went past the lab: {past[0].event.text}"
        hidden = self.trace.hidden_links & frozenset(links or self.trace.hidden_links)
        if hidden and not self.started.recorded:
            return f"a toxic on {', '.join(sorted(hidden))} may have kept requests from the gateway"
        return ""

    @property
    def _ends(self) -> Sequence[Identified[AttemptEnded]]:
        return self.trace.ends if self.last_end else ()

    def _is_in_turn(self, t: float) -> bool:
        if self.turn is None or self.turns == 1:
            return True
        return any(begin <= t < end for begin, end in self._turn_windows)

    @cached_property
    def _turn_windows(self) -> Sequence[tuple[float, float]]:
        """When the turn was under way, in each attempt that came to it; seconds since the epoch."""
        assert self.turn is not None
        windows = [self._windows_of(end.event) for end in self._ends]
        begun = [spans[self.turn - 1] for spans in windows if self.turn <= len(spans)]
        if not begun:
            raise NothingToJudge(f"turn {self.turn} was never begun")
        return begun

    def _windows_of(self, end: AttemptEnded) -> Sequence[tuple[float, float]]:
        """Of each turn that the attempt has begun."""
        if end.turn_ends is None:
            raise NotRecorded("when its turns ended is not in the history")
        ends = [*end.turn_ends, end.end][: self.turns]
        return list(zip([end.start, *end.turn_ends], ends, strict=False))

    def _turn_answers(self, end: AttemptEnded) -> Sequence[str]:
        if end.turn_ends is None and not end.answers:
            raise NotRecorded("the subject was told all turns at once")
        return end.answers


def episode_views(judgement: RunJudgement) -> list[EpisodeView]:
    """The views of a judged run's episodes."""
    views = []
    for judged in judgement.episodes:
        trace = judgement.traces[judged.episode]
        started = trace.last(EpisodeStarted)
        if started is not None and not trace.is_empty:
            views.append(EpisodeView(_with_made_turns(started, trace.all(TurnBegun)), judged, trace))
    return views


def _with_made_turns(started: EpisodeStarted, begun: Sequence[TurnBegun]) -> EpisodeStarted:
    """With the turns that a function made, each as the last attempt that came to it was told."""
    known = started.turns or [started.prompt]
    made = {turn.turn: turn.text for turn in begun if turn.turn > len(known)}
    return replace(started, turns=[*known, *(made[number] for number in sorted(made))]) if made else started
