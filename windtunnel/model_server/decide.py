"""The scripted model's one decision: what to reply to these messages, derived anew each time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from windtunnel.model_server.arguments import fill
from windtunnel.model_server.asking import asked_values
from windtunnel.model_server.conditions import holds
from windtunnel.model_server.dates import today_of
from windtunnel.model_server.fabrication import fabricate
from windtunnel.model_server.findings import Finding
from windtunnel.model_server.history import Conversation, MadeCall, read_conversation
from windtunnel.model_server.personas import Persona, Reaction, react
from windtunnel.model_server.planning import plan
from windtunnel.model_server.prose import sentence_of
from windtunnel.model_server.report import Outcome, Report, final_report, small_talk
from windtunnel.model_server.results import Failure
from windtunnel.model_server.toolspec import Step, Tool, parse_tools


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Decision:
    """Tool calls, or else the text of the final answer."""

    tool_calls: tuple[ToolCall, ...] = ()
    text: str = ""


@dataclass
class _Progress:
    """The steps while the conversation is replayed."""

    steps: tuple[Step, ...]
    persona: Persona
    seed: int
    today: date
    before: tuple[Finding, ...]
    task: str = ""
    findings: dict[int, Finding] = field(default_factory=dict)
    failures: dict[int, list[Failure]] = field(default_factory=dict)
    ended: dict[int, Reaction] = field(default_factory=dict)
    missing: dict[int, tuple[str, ...]] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    stopped: bool = False

    def is_open(self, index: int) -> bool:
        return not any(index in ended for ended in (self.findings, self.ended, self.missing, self.skipped))

    def past(self) -> list[Finding]:
        return [*self.before, *(self.findings[index] for index in sorted(self.findings))]

    def next_calls(self, parallel: bool) -> list[tuple[int, ToolCall]]:
        """The calls to make now, with their steps; none when everything is done or given up."""
        group: list[tuple[int, ToolCall]] = []
        for index, step in enumerate(self.steps):
            if self.stopped or (group and not (parallel and _joins(self.steps[group[0][0]], step))):
                break
            if not self.is_open(index) or not self._ready(index, step):
                continue
            filled = fill(
                step.tool, step.text, step.context, self.today, self._usable(index), step.refers, self.task
            )
            if group and filled.leaned:
                break
            if filled.missing:
                self.missing[index] = filled.missing
                continue
            group.append((index, ToolCall(step.tool.name, filled.arguments)))
        return group

    def _usable(self, index: int) -> list[Finding]:
        """Earlier results; those of a clause's own repeats only where it refers to them."""
        step = self.steps[index]
        own = {
            i
            for i, other in enumerate(self.steps)
            if i < index and other.tool == step.tool and not step.refers
        }
        found = [self.findings[i] for i in sorted(self.findings) if i < index and i not in own]
        return [*self.before, *found]

    def _ready(self, index: int, step: Step) -> bool:
        """Whether the step can be taken; a step that builds on a failed one is skipped."""
        if step.condition and (reason := self._unmet(index, step)):
            self.skipped[index] = reason
            return False
        reads = [i for i in range(index) if not self.steps[i].tool.writes and i not in self.skipped]
        if step.refers and reads and any(i not in self.findings for i in reads[-1:] or reads):
            self.skipped[index] = "failed"
            return False
        return True

    def _unmet(self, index: int, step: Step) -> str:
        condition = step.condition
        if condition == "otherwise":
            former = [s.condition for s in self.steps[:index] if s.condition and s.condition != "otherwise"]
            found = holds(former[-1], self.past()) if former else None
            return "" if found is False else "condition" if found else "failed"
        found = holds(condition, self.past())
        return "" if found else "condition" if found is False else "failed"

    def absorb(self, turn: Sequence[MadeCall]) -> None:
        """Takes one reply's calls and their results."""
        expected = self.next_calls(parallel=True)
        for made in turn:
            match = next(
                (
                    e
                    for e in expected
                    if e[1].name == made.name and dict(e[1].arguments) == dict(made.arguments)
                ),
                None,
            )
            match = match or next((e for e in expected if e[1].name == made.name), None)
            if match is None:
                continue
            expected.remove(match)
            self._finish(match[0], made)

    def _finish(self, index: int, made: MadeCall) -> None:
        step = self.steps[index]
        failure = made.result.failure
        if failure is None:
            self.findings[index] = finding_of(step, made.arguments, made.result.data)
            return
        self.failures.setdefault(index, []).append(failure)
        reaction = react(self.persona, step.tool.writes, self.failures[index])
        if reaction is Reaction.PRETEND:
            data = fabricate(step, self.seed, index)
            self.findings[index] = finding_of(step, made.arguments, data)
        elif reaction is not Reaction.RETRY:
            self.ended[index] = reaction
            self.stopped = self.stopped or reaction is Reaction.STOP


def finding_of(step: Step, arguments: Mapping[str, Any], data: Any) -> Finding:
    """What a finished call found for its step."""
    question = step.question or " ".join([step.text, *step.context[:1]])
    values = () if step.tool.writes else asked_values(question, arguments, data)
    return Finding(
        question, step.tool, arguments, data, values, sentence_of(step.tool, arguments, data, values)
    )


def _joins(first: Step, step: Step) -> bool:
    return step.tool == first.tool and not step.tool.writes and not step.refers and not step.condition


def decide(request: Mapping[str, Any], persona: Persona, seed: int) -> Decision:
    """The reply to a chat-completions request. Pure: the same request, persona and seed give the same reply.

    ``request`` has ``messages`` and may have ``tools``, ``tool_choice`` and ``parallel_tool_calls``.
    """
    conversation = read_conversation(request.get("messages"))
    tools = parse_tools(request.get("tools"))
    reporter = next((tool for tool in tools if tool.is_report), None)
    usable = () if request.get("tool_choice") == "none" else tuple(t for t in tools if not t.is_report)
    today = today_of(conversation.system)
    progress = _replay(conversation, usable, persona, seed, today)
    parallel = request.get("parallel_tool_calls") is not False
    calls = progress.next_calls(parallel)
    if calls:
        return Decision(tuple(call for _, call in calls))
    return _final(progress, conversation.task, reporter if request.get("tool_choice") != "none" else None)


def _replay(
    conversation: Conversation, tools: tuple[Tool, ...], persona: Persona, seed: int, today: date
) -> _Progress:
    by_name = {tool.name: tool for tool in tools}
    before = tuple(
        finding_of(
            Step(" ".join(conversation.earlier[-1:]), by_name[call.name]), call.arguments, call.result.data
        )
        for call in conversation.before
        if call.name in by_name and call.result.failure is None
    )
    steps = plan(conversation.task, conversation.earlier, tools, today, before)
    progress = _Progress(steps, persona, _mixed(seed, conversation.task), today, before, conversation.task)
    for turn in conversation.turns:
        progress.absorb(turn)
    return progress


def _mixed(seed: int, task: str) -> int:
    digest = hashlib.blake2b(
        json.dumps([seed, task]).encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    return int.from_bytes(digest)


def _final(progress: _Progress, task: str, reporter: Tool | None) -> Decision:
    if not progress.steps:
        report = Report("done", small_talk(task, progress.seed), ())
    else:
        report = final_report([_outcome(progress, index, step) for index, step in enumerate(progress.steps)])
    if reporter is None:
        return Decision(text=report.answer)
    return Decision((ToolCall(reporter.name, report.arguments_for(reporter)),))


def _outcome(progress: _Progress, index: int, step: Step) -> Outcome:
    failures = progress.failures.get(index, [])
    return Outcome(
        step=step,
        finding=progress.findings.get(index),
        unsure=progress.ended.get(index) is Reaction.UNSURE,
        error=failures[-1].message if failures and index not in progress.findings else "",
        missing=progress.missing.get(index, ()),
        skipped=progress.skipped.get(index, ""),
    )
