"""The lab's agent in its own process, which ``kill_subject`` can kill and whose memory can be limited."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from wirefault.core.lab_folder import LIBRARY
from wirefault.core.run_key import KEY_DESCRIPTOR
from wirefault.faults.sets.fault_set import FaultSet
from wirefault.recovery.strategies import parse_recovery
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import SettingsError
from wirefault.state.tables import KillOrder
from wirefault.subjects.lab_worker import (
    Answered,
    Asked,
    AttemptOrder,
    Channel,
    Conversations,
    Ended,
    Memories,
    Opened,
    Opening,
    Variant,
)
from wirefault.subjects.process import ProcessGroup, exit_description
from wirefault.subjects.subject import AttemptContext, LabFailed, Subject, SubjectResult, crashed

_MODULE = "wirefault.subjects.lab_worker"
_RESUME = "the lab's agent, in a new process"
_EXIT_GRACE_S = 1.0
_MIN_ATTEMPT_S = 0.1


def needs_process(faults: FaultSet) -> bool:
    """Whether a fault kills the subject or limits its memory."""
    return any(entry.fault.kills or entry.fault.memory_limit for entry in faults.faults)


class LabProcess(Subject):
    """Runs the lab's agent in a process that lives as long as the run, or until it is killed."""

    keeps_record = True
    holds_conversations = True

    def __init__(self, configuration: Configuration, conversations: Conversations | None = None) -> None:
        self._configuration, self._conversations = configuration, conversations
        self._process: ProcessGroup | None = None
        self._channel: Channel | None = None

    def start(self) -> tuple[ProcessGroup, Channel]:
        """Return once the agent is open. Raises ``SettingsError`` if it cannot be."""
        ours, theirs = socket.socketpair()
        key = os.environ.get(KEY_DESCRIPTOR)
        with theirs:
            inherited = [theirs.fileno(), *([int(key)] if key else [])]
            words = [sys.executable, "-P", str(LIBRARY / "lab" / "program.py"), _MODULE, str(theirs.fileno())]
            # with one arena, since each of glibc's reserves address space, which a limit would count
            environ = {**os.environ, "MALLOC_ARENA_MAX": "1"}
            process = ProcessGroup(words, environ, self._configuration.logs.parent, inherited=inherited)
        self._process, self._channel = process, Channel(ours)
        try:
            self._channel.send(Opening(self._configuration, self._conversations))
            opened: Opened = self._channel.receive()
        except (OSError, EOFError):
            opened = Opened(problem=f"the lab's agent {self._end()}")
        if opened.problem:
            self.stop()
            raise SettingsError(opened.problem)
        self.name = opened.name
        return process, self._channel

    def stop(self) -> None:
        """End the process; the next attempt starts it again."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.close()
            self._process = None

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        return self.answer(prompt, context)

    def answer(
        self, prompt: str, context: AttemptContext, variant: Variant = ("", "", 0), resumed: int = 0
    ) -> SubjectResult:
        """Make an attempt; in conversation with this agent, see ``AttemptOrder``."""
        while True:
            try:
                process, channel = self._running()
            except SettingsError as error:  # it started before, so this is its own failure
                return crashed("NotReady", str(error))
            if context.kills is None:
                ended = _converse(channel, prompt, context, variant, resumed)
                order: KillOrder | None = None
            else:
                with context.kills.watching(process) as watch:
                    ended = _converse(channel, prompt, context, variant, resumed)
                order = watch.order
            if order is not None and context.kills is not None:
                self.stop()
                context.kills.resumed(order, _RESUME)
                if parse_recovery(variant[0]).checkpoint:  # else the conversation's turn begins anew
                    resumed = resumed or context.identity.attempt
            if ended is not None and ended.lab_failed:
                raise LabFailed(ended.lab_failed)
            if ended is not None and ended.result is not None:
                return ended.result
            if order is None:
                why = self._end()
                self.stop()
                return crashed("ProcessEnded", f"its process {why}")

    def _running(self) -> tuple[ProcessGroup, Channel]:
        if self._process is None or self._channel is None:
            return self.start()
        return self._process, self._channel

    def _end(self) -> str:
        if self._process is None:
            return exit_description(None)
        self._process.wait(_EXIT_GRACE_S)
        return f"{exit_description(self._process.exit_code)}: {self._process.stderr.seen().last_lines()}"


def _converse(
    channel: Channel, prompt: str, context: AttemptContext, variant: Variant, resumed: int
) -> Ended | None:
    """Answer the calls of the agent until the attempt ends; None if its process ended first.

    ``ATTEMPT_TIME`` runs from the attempt's beginning, whichever process makes it.
    """
    settings = context.settings
    left_s = round(max(settings.attempt_time - context.elapsed, _MIN_ATTEMPT_S), 1)
    order = AttemptOrder(
        prompt,
        context.identity,
        settings.model_copy(update={"attempt_time": min(left_s, settings.attempt_time)}),
        context.turns,
        context.make_turn is not None,
        context.started,
        context.gateway.absolute(),
        context.memory_limit,
        variant,
        resumed,
    )
    try:
        channel.send(order)
        while True:
            message: Asked | Ended = channel.receive()
            if isinstance(message, Ended):
                return message
            if message.name == "record":
                context.record(*message.arguments)
            else:
                channel.send(_answered(message, context))
    except (OSError, EOFError):
        return None


def _answered(question: Asked, context: AttemptContext) -> Answered:
    functions = {
        "begin_turn": context.begin_turn,
        "make_turn": context.make_turn,
        "budget_spent": context.budget_spent,
    }
    function = functions[question.name]
    assert function is not None
    try:
        value = function(*question.arguments)
    except LabFailed as error:
        return Answered(lab_failed=str(error))
    return Answered(value if question.name != "begin_turn" else None)


@dataclass
class ConversingProcess(Subject):
    """One agent in conversation, in the process of all of them; the first turn starts it."""

    process: LabProcess
    variant: Variant
    memories: Memories
    keeps_record = True
    holds_conversations = True

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        resumed = self.memories.resumed.pop(context.identity.episode, 0)
        return self.process.answer(prompt, context, self.variant, resumed)


@contextmanager
def running_lab_agent(configuration: Configuration) -> Iterator[LabProcess]:
    """Run the lab's agent in its own process within the block. Raises ``SettingsError``."""
    agent = LabProcess(configuration)
    try:
        agent.start()
        yield agent
    finally:
        agent.stop()
