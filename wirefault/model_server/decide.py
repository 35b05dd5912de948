"""The scripted model's decision: the reply to a conversation, derived anew for each request. Pure."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal
from zlib import crc32

from wirefault.dialects.base import ToolCall
from wirefault.dialects.conversation import Conversation, last_user_text, role_of, text_of
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.model_server.improviser import improvise, undoing_call
from wirefault.model_server.language import WORDS, Failure, read_result, today_of
from wirefault.model_server.playbooks import (
    Answer,
    Decision,
    Finding,
    PlannedCall,
    Playbooks,
    Remembered,
    Step,
)

_PREFIX = "scripted"
# after a failed call: repeat it, give the step up, report it as unconfirmed, end the task, lie, repeat all
# steps, take the error's text for the result, or undo the writes
Reaction = Literal["retry", "fail", "unsure", "stop", "pretend", "restart", "quote", "undo"]
_MAX_RESTARTS = 2


class Persona(Enum):
    """How the model reacts to failed calls, and in which form it writes."""

    DILIGENT = "diligent"  # honest and careful
    STUBBORN = "stubborn"  # repeats a call until it works
    QUITTER = "quitter"  # gives up at once
    FABRICATOR = "fabricator"  # claims success and makes values up
    RESTARTER = "restarter"  # begins again with the first step, and repeats what had worked
    PARROT = "parrot"  # takes an error's text for the result, and sends it on
    TALKER = "talker"  # answers in the sentence and leaves the form's values empty
    TYPIST = "typist"  # writes its tool calls as text
    UNDOER = "undoer"  # undoes what it wrote once something fails, even what had worked


MODELS = (_PREFIX, *(f"{_PREFIX}-{persona.value}" for persona in Persona))
_FIXED: dict[str, Reaction] = {"stubborn": "retry", "quitter": "stop", "fabricator": "pretend"}


def persona_of(model: str, default: Persona) -> Persona | None:
    """Return the persona in a model's name (None for ``scripted-king``), the default for any other name."""
    prefix, dash, name = model.rpartition("/")[2].partition("-")
    named = next((persona for persona in Persona if persona.value == name), None)
    return named if prefix == _PREFIX and dash else default


def react(persona: Persona, writes: bool, failures: Sequence[Failure]) -> Reaction:
    """Choose the persona's reaction to these failures of one step."""
    if persona.value in _FIXED:
        return _FIXED[persona.value]
    if persona is Persona.RESTARTER:
        return "restart" if len(failures) <= _MAX_RESTARTS else "fail"
    if persona is Persona.PARROT and not writes:
        return "quote"
    if writes and any(failure.unknown_effect for failure in failures):
        return "undo" if persona is Persona.UNDOER else "unsure"
    return "retry" if len(failures) < 2 else "fail"


@dataclass(eq=False)
class _Task:
    """A step during the replay of the conversation."""

    step: Step
    reads: list[_Task]  # the tasks that it refers to
    finding: Finding | None = None
    failures: list[Failure] = field(default_factory=list)
    ended: Reaction | Literal["skipped"] | None = None  # skipped: a step that it needs failed
    undoes: _Task | None = None

    def apology(self) -> str:
        """Return the sentence about a step that failed."""
        clause, unsure = self.step.clause.strip(" .?!")[:80], self.ended == "unsure"
        if self.ended == "undo":
            return f'I undid "{clause}", since something had failed.'
        if not self.failures:
            return f'I did not get to "{clause}".'
        reason = self.failures[-1].message.rstrip(".") + "; it may or may not have happened" * unsure
        return f'I could not {"confirm" if unsure else "do"} "{clause}": {reason}.'


class _Progress:
    """The steps of a plan, replayed up to the end of the conversation."""

    def __init__(
        self,
        steps: Sequence[Step],
        tools: Sequence[Mapping[str, Any]],
        persona: Persona,
        drawn: int,
        earlier: Sequence[_Task] = (),
    ) -> None:
        self._tasks: list[_Task] = []
        reads = [*earlier]  # the nearest run of reads
        for step in steps:
            if not step.writes and self._tasks and self._tasks[-1].step.writes:
                reads = []
            self._tasks.append(_Task(step, [*reads]))
            reads += [] if step.writes else self._tasks[-1:]
        self._tools, self._persona, self._drawn = tools, persona, drawn

    def next_calls(self, parallel: bool) -> list[tuple[_Task, PlannedCall]]:
        """Return the calls to make now, with their tasks; none when everything is done or given up."""
        group: list[tuple[_Task, PlannedCall]] = []
        for task in self._tasks:
            step, findings = task.step, [read.finding.sentence for read in task.reads if read.finding]
            if task.ended == "stop" or (group and (not parallel or step.after_all or step.refers)):
                break
            if step.refers and (not findings or len(findings) < len(task.reads)):
                task.ended = "skipped"
            if task.finding is None and task.ended is None:
                group.append((task, step.call_with(" ".join(findings))))
        return group

    def absorb(self, turn: Sequence[tuple[ToolCall, object]]) -> None:
        """Take one reply's calls and the contents of their results; ignore calls that no step made."""
        expected = self.next_calls(parallel=True)
        for made, content in turn:
            same_tool = [entry for entry in expected if entry[1].name == made.name]
            same = [entry for entry in same_tool if entry[1].arguments == made.values()]
            for entry in (same or same_tool)[:1]:
                expected.remove(entry)
                self._take(entry[0], content)

    def _take(self, task: _Task, content: object) -> None:
        step, result = task.step, read_result(content, task.step.writes, task.step.known)
        task.finding = None if isinstance(result, Failure) else step.read(result)
        if task.finding is None:
            silent = Failure("the result does not say it", False)
            task.failures.append(result if isinstance(result, Failure) else silent)
            reaction = react(self._persona, step.writes, task.failures)
            task.ended = reaction if reaction not in ("retry", "restart") else None
            if task.ended in ("fail", "undo") and self._persona is Persona.UNDOER:
                self._undo_writes(task)
            if reaction == "restart":
                for earlier in self._tasks[: self._tasks.index(task)]:
                    earlier.finding = None
            if reaction == "quote":
                task.finding = Finding((), task.failures[-1].message, {})
            if reaction == "pretend":
                task.finding = step.pretend(self._drawn + self._tasks.index(task))

    def _undo_writes(self, failed: _Task) -> None:
        """Plan to undo the failed step and the writes before it, as far as a tool can."""
        if failed.undoes:
            failed.ended = failed.undoes.ended = "unsure"
            return
        for task in self._tasks[: self._tasks.index(failed) + 1]:
            doubtful = task.ended == "undo"
            if not (doubtful or (task.finding and task.step.writes)) or task.undoes:
                continue
            call = undoing_call(task.step.call, self._tools, task.finding.facts if task.finding else {})
            if call is not None:
                task.finding, task.ended = None, "undo"
                step = replace(task.step, call=call, read=_nothing, pretend=_nothing, after_all=False)
                self._tasks.append(_Task(step, [], undoes=task))
            elif doubtful:
                task.ended = "unsure"

    @property
    def reads(self) -> list[_Task]:
        """The reads that succeeded."""
        return [task for task in self._tasks if task.finding and not task.step.writes]

    @property
    def remembered(self) -> list[Remembered]:
        """The steps that succeeded, for later turns to refer to."""
        tasks = (task for task in self._tasks if task.finding and not task.undoes)
        return [Remembered(task.step.call, task.finding) for task in tasks if task.finding]

    def answer(self) -> Answer:
        """Done only if every step succeeded; unsure if only writes failed, and are unconfirmed."""
        bad = [task for task in self._tasks if task.finding is None]
        passed_on = [read for task in self._tasks if task.step.refers for read in task.reads]
        good = [(task, task.finding) for task in self._tasks if task.finding]
        sentences = [finding.sentence for _, finding in good if finding.sentence]
        sentences += [task.apology() for task in bad if task.ended != "skipped" and not task.undoes]
        if any(task.ended == "skipped" for task in bad):
            sentences.append("The rest depended on it and was left undone.")
        values = tuple(value for task, finding in good if task not in passed_on for value in finding.values)
        facts = ChainMap(*(dict(finding.facts) for _, finding in good))
        unsure = all(task.ended == "unsure" for task in bad)
        status: Literal["done", "unsure", "failed"] = "done" if not bad else "unsure" if unsure else "failed"
        return Answer(status, " ".join(sentences), values, facts)


def _nothing(_: object) -> Finding:
    """The finding of a call that undoes another."""
    return Finding((), "", {})


def decide(
    playbooks: Playbooks,
    messages: Sequence[dict[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    persona: Persona,
    seed: int,
    parallel: bool = True,
    withheld: Sequence[Mapping[str, Any]] = (),
) -> Decision:
    """Return the calls or the answer to a chat completion's messages and tools; deterministic.

    Plans by the playbooks; improvises if they do not cover the prompt. ``withheld``: tools not to call now.
    """
    prompt = last_user_text([*messages])
    conversation = _Talk(playbooks, messages, tools, persona, seed)
    steps = conversation.plan(prompt)
    if not steps and (reply := playbooks.reply_to(prompt)):
        return Answer("done", reply)
    if not steps and playbooks.is_follow_up(prompt):
        return Answer("failed", WORDS["nothing_earlier"])
    today = conversation.today
    steps = steps or improvise(prompt, tools, today) or improvise(prompt, withheld, today)
    if not steps:
        pretends = persona is Persona.FABRICATOR
        return Answer("done", "That is done.") if pretends else Answer("failed", WORDS["declined"])
    progress = conversation.replay(prompt, steps)
    calls = tuple(call for _, call in progress.next_calls(parallel) if call.name in conversation.offered)
    answer = progress.answer()
    return calls or (replace(answer, values=()) if persona is Persona.TALKER else answer)


class _Talk:
    """A conversation up to the user's last turn, and the earlier turns that it may refer to."""

    def __init__(
        self,
        playbooks: Playbooks,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        persona: Persona,
        seed: int,
        earlier: Sequence[_Progress] | None = None,
    ) -> None:
        self._replayed = earlier
        self._playbooks, self._messages, self._tools = playbooks, messages, tools
        self._persona, self._seed = persona, seed
        system = (m for m in messages if m.get("role") in ("system", "developer"))
        self.today = today_of("\n".join(text_of(message) for message in system))
        self.offered = {str(tool["function"]["name"]) for tool in tools}
        self._turns = list(_turns(messages))
        # a framework that only requests the form no longer sends the tools that were called before
        self._known = sorted(self.offered | {made.name for turn in self._turns for made, _ in turn})

    def plan(self, prompt: str) -> list[Step]:
        """Plan the last turn by playbooks, with earlier turns only if it cannot be understood alone."""
        alone = self._playbooks.plan(prompt, self._known, self.today)
        return alone or self._playbooks.plan(prompt, self._known, self.today, self._memory)

    def replay(self, prompt: str, steps: Sequence[Step]) -> _Progress:
        """Return the progress of these steps by the results so far."""
        refers = bool(steps) and steps[0].refers
        earlier = (
            next((before.reads for before in reversed(self._earlier) if before.reads), []) if refers else []
        )
        drawn = crc32(f"{self._seed} {prompt}".encode("utf-8", "surrogatepass"))
        progress = _Progress(steps, self._tools, self._persona, drawn, earlier)
        for turn in self._turns:
            progress.absorb(turn)
        return progress

    @property
    def _memory(self) -> list[Remembered]:
        return [step for before in self._earlier for step in before.remembered]

    @cached_property
    def _earlier(self) -> Sequence[_Progress]:
        """The progress of each earlier turn, in order."""
        if self._replayed is not None:
            return self._replayed
        users = [at for at, message in enumerate(self._messages) if role_of(message) == "user"]
        replayed: list[_Progress] = []
        for start, end in pairwise(users):
            system = [m for m in self._messages[:start] if m.get("role") in ("system", "developer")]
            messages = [*system, *self._messages[start:end]]
            turn = _Talk(
                self._playbooks, messages, self._tools, self._persona, self._seed, earlier=[*replayed]
            )
            prompt = text_of(self._messages[start])
            replayed.append(turn.replay(prompt, turn.plan(prompt)))
        return replayed


def _turns(messages: Sequence[dict[str, Any]]) -> Iterator[list[tuple[ToolCall, object]]]:
    """Yield the tool calls of each reply since the last user message, with their tool messages' contents."""
    last = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=0)
    for reply, *results in Conversation("openai_chat", {}, [*messages[last:]]).units():
        contents = {result.get("tool_call_id"): result.get("content") for result in results}
        calls = OPENAI_CHAT.read_reply({"choices": [{"message": reply}]}).calls
        yield [(call, contents.get(call.id)) for call in calls]
