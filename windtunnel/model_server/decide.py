"""The scripted model's one decision: what to reply to these messages, derived anew each time. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windtunnel.model_server.answer import Answer, Decision, PlannedCall, Status
from windtunnel.model_server.conversation import NO_REPLY, MadeCall, read_messages
from windtunnel.model_server.evidence import today_of
from windtunnel.model_server.improviser import improvise
from windtunnel.model_server.personas import Persona, Reaction, react
from windtunnel.model_server.playbooks import Playbooks
from windtunnel.model_server.results import NO_ANSWER, Failure, read_result
from windtunnel.model_server.steps import Finding, Step

NO_PLAYBOOK = (
    "the scripted model has no playbook for this: use a real model, or add one (docs/scripted-model.md)"
)


@dataclass
class _Progress:
    """The steps while the conversation is replayed; each index is of a step."""

    steps: Sequence[Step]
    persona: Persona
    seed: int
    findings: dict[int, Finding] = field(default_factory=dict)
    failures: dict[int, list[Failure]] = field(default_factory=dict)
    ended: dict[int, Reaction] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    stopped: bool = False

    def next_calls(self, parallel: bool) -> list[tuple[int, PlannedCall]]:
        """The calls to make now, with their steps; none when everything is done or given up."""
        group: list[tuple[int, PlannedCall]] = []
        for index, step in enumerate(self.steps):
            if self.stopped or (group and (not parallel or step.after_all or step.refers)):
                break
            if self._is_over(index) or self._lacks_results(index, step):
                continue
            group.append((index, PlannedCall(step.tool, step.arguments_with(self._found_before(index)))))
        return group

    def _is_over(self, index: int) -> bool:
        return index in self.findings or index in self.ended or index in self.skipped

    def _reads_before(self, index: int) -> list[int]:
        """The reads that a reference means: the nearest run of them before the step."""
        reads: list[int] = []
        for earlier in reversed(range(index)):
            if not self.steps[earlier].writes:
                reads.insert(0, earlier)
            elif reads:
                break
        return reads

    def _lacks_results(self, index: int, step: Step) -> bool:
        """Whether the step builds on what failed; it is skipped then."""
        reads = self._reads_before(index)
        lacks = step.refers and (not reads or any(read not in self.findings for read in reads))
        if lacks:
            self.skipped.add(index)
        return lacks

    def _found_before(self, index: int) -> list[Finding]:
        return [self.findings[read] for read in self._reads_before(index) if read in self.findings]

    def absorb(self, turn: Sequence[MadeCall]) -> None:
        """Takes one reply's calls and their results; a call that no step made is left out."""
        expected = self.next_calls(parallel=True)
        for made in turn:
            same_tool = [entry for entry in expected if entry[1].name == made.name]
            same = [entry for entry in same_tool if dict(entry[1].arguments) == dict(made.arguments)]
            if same_tool:
                entry = (same or same_tool)[0]
                expected.remove(entry)
                self._take(entry[0], made)

    def _take(self, index: int, made: MadeCall) -> None:
        step = self.steps[index]
        answered = made.content is not NO_REPLY
        result = read_result(made.content, step.writes, step.known) if answered else NO_ANSWER
        failure = result.failure
        if failure is None:
            finding = step.reading.read(result.data)
            if finding is not None:
                self.findings[index] = finding
                return
            failure = Failure("the result does not say it", False)
        self.failures.setdefault(index, []).append(failure)
        reaction = react(self.persona, step.writes, self.failures[index])
        if reaction is Reaction.PRETEND:
            self.findings[index] = step.reading.pretend(self.seed + index)
        elif reaction is not Reaction.RETRY:
            self.ended[index] = reaction
            self.stopped = self.stopped or reaction is Reaction.STOP

    # the end

    def answer(self) -> Answer:
        """Done only if every step ended well; unsure if all that went wrong is unconfirmed writes."""
        bad = [index for index in range(len(self.steps)) if index not in self.findings]
        unsure = bad and all(self.ended.get(index) is Reaction.UNSURE for index in bad)
        status: Status = "unsure" if unsure else "failed" if bad else "done"
        said = [self.findings[index].sentence for index in sorted(self.findings)]
        said += [self._apology(index) for index in bad if index not in self.skipped]
        said += ["The rest depended on it and was left undone."] if self.skipped else []
        fed = {
            read for index, step in enumerate(self.steps) if step.refers for read in self._reads_before(index)
        }
        asked = [finding for index, finding in sorted(self.findings.items()) if index not in fed]
        facts: dict[str, Any] = {}
        for finding in self.findings.values():
            facts = {**finding.facts, **facts}
        return Answer(status, " ".join(said), tuple(v for f in asked for v in f.values), facts)

    def _apology(self, index: int) -> str:
        asked = self.steps[index].asked.strip(" .?!")[:80]
        if index not in self.failures:
            return f'I did not get to "{asked}".'
        reason = self.failures[index][-1].message.rstrip(".")
        if self.ended.get(index) is Reaction.UNSURE:
            return f'I could not confirm "{asked}": {reason}; it may or may not have happened.'
        return f'I could not do "{asked}": {reason}.'


@dataclass(frozen=True)
class Engine:
    """Decides by these playbooks, and improvises where they have nothing."""

    playbooks: Playbooks

    def decide(
        self,
        messages: Sequence[Any],
        tools: Sequence[Mapping[str, Any]],
        persona: Persona,
        seed: int,
        parallel: bool = True,
    ) -> Decision:
        """The reply to a conversation in the form of chat completions.

        ``tools`` are those that may be called, in that form too. The same arguments give the same reply.
        """
        conversation = read_messages(messages)
        today = today_of(conversation.system)
        offered = {str(tool["function"]["name"]) for tool in tools}
        # a framework that only wants its form filled leaves out the tools that were called before
        known = offered | {made.name for turn in conversation.turns for made in turn}
        steps = self.playbooks.plan(conversation.task, sorted(known), today)
        if not steps and (reply := self.playbooks.reply_to(conversation.task)):
            return Decision(answer=Answer("done", reply))
        steps = steps or improvise(conversation.task, tools, today, self.playbooks.languages)
        if not steps:
            return Decision(answer=self._declined(persona))
        progress = _Progress(steps, persona, _mixed(seed, conversation.task))
        for turn in conversation.turns:
            progress.absorb(turn)
        calls = tuple(call for _, call in progress.next_calls(parallel) if call.name in offered)
        return Decision(calls) if calls else Decision(answer=progress.answer())

    @staticmethod
    def _declined(persona: Persona) -> Answer:
        if persona is Persona.FABRICATOR:
            return Answer("done", "That is done.")
        return Answer("failed", NO_PLAYBOOK)


def _mixed(seed: int, task: str) -> int:
    """A number for made-up values that the seed and the task give."""
    text = json.dumps([seed, task]).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
