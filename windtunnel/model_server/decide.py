"""The scripted model's one decision: what to reply to these messages, derived anew each time. Pure."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from windtunnel.dialects.conversation import Conversation, last_user_text, text_of
from windtunnel.dialects.model_messages import ToolCall
from windtunnel.dialects.openai_chat import OPENAI_CHAT
from windtunnel.model_server.answer import Answer, Decision, Finding, PlannedCall, Status, Step
from windtunnel.model_server.evidence import today_of
from windtunnel.model_server.improviser import improvise
from windtunnel.model_server.personas import Persona, Reaction, react
from windtunnel.model_server.playbooks import Playbooks
from windtunnel.model_server.results import Failure, read_result
from windtunnel.model_server.words import WORDS

_PRETENDED = Answer("done", "That is done.")
_DECLINED = Answer("failed", WORDS["declined"])


@dataclass(eq=False)
class _Task:
    """A step while the conversation is replayed; ``reads`` are those that a reference in it means."""

    step: Step
    reads: list[_Task]
    finding: Finding | None = None
    failures: list[Failure] = field(default_factory=list)
    ended: Reaction | None = None
    skipped: bool = False

    @property
    def is_over(self) -> bool:
        return self.finding is not None or self.ended is not None or self.skipped

    def found(self) -> list[Finding]:
        """What its reads found."""
        return [read.finding for read in self.reads if read.finding is not None]

    def apology(self) -> str:
        """What to say of a step that did not end well."""
        asked = self.step.asked.strip(" .?!")[:80]
        if not self.failures:
            return f'I did not get to "{asked}".'
        reason = self.failures[-1].message.rstrip(".")
        if self.ended is Reaction.UNSURE:
            return f'I could not confirm "{asked}": {reason}; it may or may not have happened.'
        return f'I could not do "{asked}": {reason}.'


class _Progress:
    """The steps of a plan, brought to where the conversation is."""

    def __init__(self, steps: Sequence[Step], persona: Persona, drawn: int) -> None:
        self._tasks: list[_Task] = []
        for step in steps:
            self._tasks.append(_Task(step, self._nearest_reads()))
        self._persona = persona
        self._drawn = drawn

    def _nearest_reads(self) -> list[_Task]:
        """The nearest run of reads before the next step."""
        reads: list[_Task] = []
        for task in reversed(self._tasks):
            if not task.step.writes:
                reads.insert(0, task)
            elif reads:
                break
        return reads

    def next_calls(self, parallel: bool) -> list[tuple[_Task, PlannedCall]]:
        """The calls to make now, with their steps; none when everything is done or given up."""
        group: list[tuple[_Task, PlannedCall]] = []
        stopped = any(task.ended is Reaction.STOP for task in self._tasks)
        for task in self._tasks if not stopped else []:
            step, found = task.step, task.found()
            if group and (not parallel or step.after_all or step.refers):
                break
            # what builds on a read that failed is left undone
            task.skipped = step.refers and (not found or len(found) < len(task.reads))
            if not task.is_over:
                group.append((task, step.call_with(found)))
        return group

    def absorb(self, turn: Sequence[tuple[ToolCall, object]]) -> None:
        """Takes one reply's calls and the contents of their results; leaves out a call that no step made."""
        expected = self.next_calls(parallel=True)
        for made, content in turn:
            same_tool = [entry for entry in expected if entry[1].name == made.name]
            same = [entry for entry in same_tool if entry[1].arguments == made.values()]
            if same_tool:
                entry = (same or same_tool)[0]
                expected.remove(entry)
                self._take(entry[0], content)

    def _take(self, task: _Task, content: object) -> None:
        step = task.step
        result = read_result(content, step.writes, step.known)
        task.finding = None if result.failure else step.reading.read(result.data)
        if task.finding is not None:
            return
        task.failures.append(result.failure or Failure("the result does not say it", False))
        reaction = react(self._persona, step.writes, task.failures)
        if reaction is Reaction.PRETEND:
            task.finding = step.reading.pretend(self._drawn + self._tasks.index(task))
        elif reaction is not Reaction.RETRY:
            task.ended = reaction

    def answer(self) -> Answer:
        """Done only if every step ended well; unsure if all that went wrong is unconfirmed writes."""
        bad = [task for task in self._tasks if task.finding is None]
        unsure = bad and all(task.ended is Reaction.UNSURE for task in bad)
        passed_on = [read for task in self._tasks if task.step.refers for read in task.reads]
        said = [task.finding.sentence for task in self._tasks if task.finding]
        asked = [task.finding for task in self._tasks if task.finding and task not in passed_on]
        facts = ChainMap(*(dict(task.finding.facts) for task in self._tasks if task.finding))
        said += [task.apology() for task in bad if not task.skipped]
        said += ["The rest depended on it and was left undone."] if any(task.skipped for task in bad) else []
        status: Status = "unsure" if unsure else "failed" if bad else "done"
        return Answer(status, " ".join(said), tuple(v for finding in asked for v in finding.values), facts)


@dataclass(frozen=True)
class Engine:
    """Decides by these playbooks, and improvises where they have nothing."""

    playbooks: Playbooks

    def decide(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        persona: Persona,
        seed: int,
        parallel: bool = True,
    ) -> Decision:
        """The reply to a conversation in the form of chat completions.

        ``tools`` are those that may be called, in that form too. The same arguments give the same reply.
        """
        prompt, turns = last_user_text([*messages]), list(_turns(messages))
        today = today_of("\n".join(text_of(m) for m in messages if m.get("role") in ("system", "developer")))
        offered = {str(tool["function"]["name"]) for tool in tools}
        # a framework that only wants its form filled leaves out the tools that were called before
        known = offered | {made.name for turn in turns for made, _ in turn}
        steps = self.playbooks.plan(prompt, sorted(known), today)
        if not steps and (reply := self.playbooks.reply_to(prompt)):
            return Decision(answer=Answer("done", reply))
        steps = steps or improvise(prompt, tools, today)
        if not steps:
            pretends = persona is Persona.FABRICATOR
            return Decision(answer=_PRETENDED if pretends else _DECLINED)
        progress = _Progress(steps, persona, crc32(f"{seed} {prompt}".encode("utf-8", "surrogatepass")))
        for turn in turns:
            progress.absorb(turn)
        calls = tuple(call for _, call in progress.next_calls(parallel) if call.name in offered)
        return Decision(calls) if calls else Decision(answer=progress.answer())


def _turns(messages: Sequence[dict[str, Any]]) -> Iterator[list[tuple[ToolCall, object]]]:
    """The tool calls of each reply since the last user message, with their tool messages' contents."""
    users = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    since = [*messages[users[-1] if users else 0 :]]
    for reply, *results in Conversation("openai", {}, since).units():
        contents = {result.get("tool_call_id"): result.get("content") for result in results}
        calls = OPENAI_CHAT.read_reply({"choices": [{"message": reply}]}).calls
        yield [(call, contents.get(call.id)) for call in calls]
