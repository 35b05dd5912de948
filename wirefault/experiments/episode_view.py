"""An episode, or one of its turns, as its history shows it: the input of assertions. Pure.

Missing data never counts as zero: access to it raises ``NotRecorded``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msgspec import structs

from wirefault.dialects.base import ModelReply
from wirefault.dialects.json_values import as_object, as_text, parsed
from wirefault.dialects.mcp import read_message
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.dialects.stream_forms import recorded_events
from wirefault.history.events import (
    AttemptEnded,
    EpisodeJudged,
    EpisodeStarted,
    Event,
    Exchange,
    ToolCalled,
    TurnStarted,
)
from wirefault.history.judged_events import FaultRecord, Outcome
from wirefault.history.logs import strip_control
from wirefault.judging.judge import RunJudgement
from wirefault.judging.metrics import Metrics
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace, Identified

_MAX_DISPLAY = 200


class NotRecorded(Exception):
    """The history lacks the data; the message says which and why."""


class NothingToJudge(Exception):
    """The episode has nothing that the assertion is about; the message says what is missing."""


def display_text(text: str) -> str:
    """Text from the subject, shortened and safe for a terminal."""
    clean = strip_control(text)
    return clean if len(clean) <= _MAX_DISPLAY else f"{clean[:_MAX_DISPLAY]}..."


@dataclass(frozen=True)
class ToolUse:
    """One logical tool call. ``arguments`` is None if unknown."""

    tool: str
    arguments: Mapping[str, Any] | None
    start: float
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class ToolUses:
    """Tool calls in their order. ``gap`` says why there may be others; empty if there are none.

    ``complete`` are the tools whose calls all crossed the lab, which that gap does not affect. ``unseen``
    says why calls of any tool may be missing.
    """

    uses: Sequence[ToolUse]
    gap: str = ""
    complete: frozenset[str] = frozenset()
    unseen: str = ""

    def gap_of(self, *tools: str) -> str:
        """Why there may be other calls of one of these tools."""
        return self.unseen or ("" if self.complete.issuperset(tools) else self.gap)


def recorded_uses(calls: Sequence[Identified[ToolCalled]]) -> ToolUses:
    """The calls that the subject recorded."""
    return ToolUses([ToolUse(c.event.tool, c.event.arguments, c.event.t, (c.id,)) for c in calls])


def seen_uses(requests: Sequence[Request], *, has_model: bool) -> ToolUses:
    """The calls of a subject without records: MCP calls at the gateway, other calls that the model requested,
    and calls of functions that it did not request.

    Other calls are not seen.
    """
    over_mcp = [use for request in requests for use in _over_mcp(request)]
    of_mcp = frozenset(use.tool for use in over_mcp).union(*map(_offered, requests))
    uses: list[ToolUse] = []
    gap = "" if has_model else "no link of the wiring leads to a model, which would ask for tools"
    for request in requests:
        if not request.of_model or not request.succeeded:
            continue
        reply = _reply_of(request.exchange) if request.exchange else None
        if reply is None:
            gap = "not every reply of the model is in the history (BODIES)"
            continue
        uses += [
            ToolUse(call.name, call.values(), request.end, request.ids)
            for call in reply.calls
            if call.name not in of_mcp
        ]
    requested = of_mcp.union(use.tool for use in uses)
    functions = [use for use in map(_of_function, requests) if use is not None and use.tool not in requested]
    names = frozenset(use.tool for use in functions)
    if partly := names & {call.name for call in requests if call.within}:
        gap = (
            gap or f"after a first call only the requests that {', '.join(sorted(partly))} sends are recorded"
        )
    complete = of_mcp | (names - partly)
    return ToolUses(sorted([*over_mcp, *uses, *functions], key=lambda use: use.start), gap, complete)


def _over_mcp(request: Request) -> Iterator[ToolUse]:
    """The request as a tool call, unless it repeats one that failed on its way."""
    exchange = request.exchange
    if exchange is not None and exchange.tool and exchange.try_ == 1:
        body = None if exchange.request_cut else exchange.request_body
        message = read_message(body.encode()) if body else None
        arguments = message.arguments if message else None
        yield ToolUse(exchange.tool, arguments, request.start, request.ids)


def _of_function(request: Request) -> ToolUse | None:
    """The request as a call of a function; None for any other, and for one that repeats a failed one."""
    exchange = request.exchange
    if exchange is None or not request.is_of_function or exchange.try_ > 1:
        return None
    body = None if exchange.request_cut else exchange.request_body
    try:
        arguments = as_object(parsed(body)) if body else None
    except ValueError:
        arguments = None
    return ToolUse(request.name, arguments, request.start, request.ids)


def _offered(request: Request) -> Iterator[str]:
    """The tools that an MCP server lists."""
    exchange = request.exchange
    if exchange is not None and exchange.message == "tools/list" and not exchange.reply_cut:
        message = read_message((exchange.reply_body or "").encode())
        yield from (as_text(tool.get("name")) for tool in (message.tools if message else ()))


def _reply_of(exchange: Exchange) -> ModelReply | None:
    """The model's reply; None if it is incomplete in the history or invalid."""
    dialect = MODEL_DIALECTS.get(exchange.dialect)
    if exchange.reply_cut or not exchange.reply_body or dialect is None:
        return None
    try:
        events = recorded_events(exchange.reply_body)
        body = dialect.collect(events) if events else parsed(exchange.reply_body)
        return dialect.read_reply(as_object(body))
    except ValueError:  # not a reply of that API, or one that a fault broke
        return None


NO_ANSWER = "the wiring does not say where the subject's answer is"


@dataclass(frozen=True)
class EpisodeView:
    """One episode with all its attempts, or one of its user turns (from 1) if ``turn`` is set."""

    started: EpisodeStarted
    judgement: EpisodeJudged
    trace: EpisodeTrace
    turn: int | None = None
    arm: str = ""
    """Its arm, in a report."""
    probed: Sequence[object] = ()
    """In a report: the results of ``after_attempt``, one for each attempt."""

    @property
    def episode(self) -> str:
        """The episode's key."""
        return self.started.episode

    @property
    def outcome(self) -> Outcome:
        """Its outcome, such as ``success`` or ``duplicate``."""
        return self.judgement.outcome

    @property
    def why(self) -> str:
        """The reason for the outcome, in a sentence."""
        return self.judgement.why

    @property
    def events(self) -> Sequence[Event]:
        """Its typed events."""
        return self.trace.events

    @cached_property
    def metrics(self) -> Metrics:
        """Calls, tokens, first token times, conversation, history and faults of the whole episode."""
        return Metrics(self.trace)

    @property
    def prompt(self) -> str:
        """The user's text, of the turn if there is one."""
        turns = self.started.turns
        return turns[self.turn - 1] if self.turn and turns else self.started.prompt

    @property
    def turns(self) -> int:
        """The planned number of turns."""
        return len(self.started.turns) or 1

    def of_turn(self, number: int) -> EpisodeView:
        """The view of that turn. Raises ``NothingToJudge`` if the prompt has no such turn."""
        if number > self.turns:
            raise NothingToJudge(f"the prompt has {self.turns} turn{'s' if self.turns > 1 else ''}")
        return replace(self, turn=number)

    @property
    def faults(self) -> Sequence[FaultRecord]:
        """The fate of each fault in the whole episode."""
        return self.judgement.faults

    @property
    def last_end(self) -> Identified[AttemptEnded]:
        """The end of its last attempt."""
        if not self.trace.ends:
            raise NotRecorded("how it ended is not in the history")
        return self.trace.ends[-1]

    @property
    def answer(self) -> str | None:
        """The last answer to the user, or the turn's; None without an answer.

        Raises ``NotRecorded`` if the subject's answer, or its answer to each turn, is not read.
        """
        end = self.last_end.event
        if self.turn is not None and self.turns > 1:
            answers = self._turn_answers(end)
            return answers[self.turn - 1] if self.turn <= len(answers) else None
        if end.ended_by == "report" and end.report is not None:
            return end.response or end.report.answer
        if end.ended_by == "text" and not end.response:
            raise NotRecorded(NO_ANSWER)
        return end.response if end.ended_by == "text" else None

    @property
    def seconds(self) -> float:
        """Duration of its attempts, or of the turn in the last one."""
        if self.turn is None or self.turns == 1:
            return self.trace.seconds if self.last_end else 0.0
        begin, end = self._turn_windows[-1]
        return end - begin

    @cached_property
    def requests(self) -> Sequence[Request]:
        """Its requests on all links, in their order."""
        return [request for request in self.trace.requests if self._is_in_turn(request.start)]

    @property
    def trace_of_turn(self) -> EpisodeTrace:
        """The trace with the turn's requests only."""
        return self.trace.only(self.requests)

    @property
    def repeated(self) -> Sequence[Sequence[Request]]:
        """Groups of requests for the same within an attempt, with at least two requests."""
        return self.trace_of_turn.repeated

    @cached_property
    def model_requests(self) -> Sequence[Request]:
        """Requests to models, including retries. Raises ``NotRecorded`` if no link leads to a model."""
        requests = [request for request in self.requests if request.of_model]
        if not requests and not self.trace.links.model_names and not self.started.recorded:
            raise NotRecorded("no link of the wiring leads to a model")
        return requests

    @property
    def recorded_calls(self) -> Sequence[Identified[ToolCalled]]:
        """The logical tool calls that the subject recorded."""
        return [call for call in self.trace.calls if self._is_in_turn(call.event.t)]

    @cached_property
    def tool_uses(self) -> ToolUses:
        """Its logical tool calls, as far as known."""
        if self.started.recorded:
            uses = recorded_uses(self.recorded_calls)
        else:
            uses = seen_uses(self.requests, has_model=bool(self.trace.links.model_names))
        return replace(uses, unseen=self.unseen())

    def unseen(self, links: Collection[str] = ()) -> str:
        """Why requests on these links (default: all) may be missing; else empty."""
        past = self.trace.past_lab
        if past:
            return f"connections bypassed the lab: {past[0].event.text}"
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
        """Start and end of the turn in each attempt that reached it; seconds since the epoch."""
        assert self.turn is not None
        windows = [self._windows_of(end.event) for end in self._ends]
        begun = [spans[self.turn - 1] for spans in windows if self.turn <= len(spans)]
        if not begun:
            raise NothingToJudge(f"turn {self.turn} was never begun")
        return begun

    def _windows_of(self, end: AttemptEnded) -> Sequence[tuple[float, float]]:
        """Start and end of each turn that the attempt reached."""
        if end.turn_ends is None:
            raise NotRecorded("when its turns ended is not in the history")
        ends = [*end.turn_ends, end.end][: self.turns]
        return list(zip([end.start, *end.turn_ends], ends, strict=False))

    def _turn_answers(self, end: AttemptEnded) -> Sequence[str]:
        if end.turn_ends is None and not end.answers:
            raise NotRecorded("the subject received all turns at once")
        return end.answers


def episode_views(judgement: RunJudgement) -> list[EpisodeView]:
    """The views of a judged run's episodes."""
    views = []
    for judged in judgement.episodes:
        trace = judgement.traces[judged.episode]
        started = trace.last(EpisodeStarted)
        if started is not None and not trace.is_empty:
            views.append(EpisodeView(_with_made_turns(started, trace.all(TurnStarted)), judged, trace))
    return views


def _with_made_turns(started: EpisodeStarted, begun: Sequence[TurnStarted]) -> EpisodeStarted:
    """Add the turns that a function made, from the last attempt that reached them."""
    known = started.turns or [started.prompt]
    made = {turn.turn: turn.text for turn in begun if turn.turn > len(known)}
    return (
        structs.replace(started, turns=[*known, *(made[number] for number in sorted(made))])
        if made
        else started
    )
