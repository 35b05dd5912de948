"""The lab's agent in its own process: the messages between both sides, and the ends of that process."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from tests.subjects.wired import Wired
from tests.support import replace
from wirefault.core.identity import Identity
from wirefault.faults.sets.presets import find_set
from wirefault.history.events import Event, RecoveryTried
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import SettingsError
from wirefault.subjects import lab_worker
from wirefault.subjects.lab_process import LabProcess, needs_process
from wirefault.subjects.lab_worker import Channel, Ended, Opened, Opening
from wirefault.subjects.process import ProcessGroup
from wirefault.subjects.subject import AttemptContext, LabFailed, Subject, SubjectResult

DONE = SubjectResult("text", response="done")
EVENT = RecoveryTried(1.0, "mail", 1, "checkpoint", 1, True, 0.5, "1 model replies")
Agent = Callable[[str, AttemptContext], SubjectResult]


class Scripted(Subject):
    name = "scripted"

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        return self.agent(prompt, context)


class InThread(LabProcess):
    """The other side is a thread of this process."""

    def start(self) -> tuple[ProcessGroup, Channel]:
        ours, theirs = socket.socketpair()
        threading.Thread(target=lab_worker.main, args=(theirs.detach(),)).start()
        self._channel = Channel(ours)
        self._channel.send(Opening(self._configuration))
        opened: Opened = self._channel.receive()
        if opened.problem:
            raise SettingsError(opened.problem)
        self.name = opened.name
        self._process = create_autospec(ProcessGroup, instance=True)
        assert self._process is not None
        return self._process, self._channel


class Dying(LabProcess):
    """Each process of it ends with code 3 before it answers."""

    starts = 0

    def start(self) -> tuple[ProcessGroup, Channel]:
        self.starts += 1
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", "import sys; print('no more', file=sys.stderr); sys.exit(3)"]
        with theirs:  # the process has the other copy: the channel ends when it does
            self._process = ProcessGroup(command, os.environ, Path.cwd(), inherited=[theirs.fileno()])
        self._channel = Channel(ours)
        return self._process, self._channel


@contextmanager
def process_of(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabProcess]:
    @contextmanager
    def opened(configuration: Configuration) -> Iterator[Subject]:
        yield Scripted(agent)

    monkeypatch.setattr(lab_worker, "load_subject", lambda name: opened)
    process = InThread(Wired(tmp_path).configuration)
    try:
        yield process
    finally:
        process.stop()


def context(tmp_path: Path, **more: Any) -> AttemptContext:
    configuration = Wired(tmp_path).configuration
    events: list[Event] = more.pop("events", [])
    settings = configuration.settings.model_copy(update={"attempt_time": 60.0})
    identity = Identity("run-1", "mail", 1)
    return AttemptContext(identity, settings, configuration.topology, events.append, **more)


def test_messages_arrive_whole_and_in_order() -> None:
    ours, theirs = map(Channel, socket.socketpair())
    messages = [Ended(replace(DONE, response="x" * 1_000_000)), Opened("agent")]
    sending = threading.Thread(target=lambda: [ours.send(each) for each in messages])
    sending.start()
    assert [theirs.receive(), theirs.receive()] == messages
    sending.join()
    ours.close()
    theirs.close()


@pytest.mark.parametrize("part", [b"", b"\0", struct.pack("!I", 100) + b"half"])
def test_side_that_ends_within_message_has_ended(part: bytes) -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(part)
    ours.close()
    channel = Channel(theirs)
    with pytest.raises(EOFError):
        channel.receive()
    channel.close()


@pytest.mark.parametrize(("fault", "expected"), [("kill_subject", True), ("lose_reply", False)])
def test_only_faults_of_the_process_need_one(fault: str, expected: bool) -> None:
    text = json.dumps({"faults": [{"fault": fault, "links": "message"}]})
    assert needs_process(find_set(text)) is expected


def test_functions_of_context_are_called_on_the_other_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, events = [], list[Event]()

    def agent(prompt: str, context: AttemptContext) -> SubjectResult:
        context.record(EVENT)
        context.begin_turn(1, prompt)
        return replace(DONE, error=context.budget_spent())

    def begin_turn(number: int, text: str) -> None:
        turns.append((number, text))

    with process_of(agent, tmp_path, monkeypatch) as process:
        attempt = context(
            tmp_path, events=events, begin_turn=begin_turn, budget_spent=lambda: "tokens are spent"
        )
        result = process("Tell Bob", attempt)
    assert result == replace(DONE, error="tokens are spent")
    assert (turns, events, process.name) == ([(1, "Tell Bob")], [EVENT], "scripted")


def test_failure_of_lab_in_context_is_no_failure_of_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_turn(number: int, text: str) -> None:
        raise LabFailed("the manager did not arm the faults")

    def agent(prompt: str, context: AttemptContext) -> SubjectResult:
        context.begin_turn(1, prompt)
        return DONE

    with (
        process_of(agent, tmp_path, monkeypatch) as process,
        pytest.raises(LabFailed, match="did not arm the faults"),
    ):
        process("Tell Bob", context(tmp_path, begin_turn=begin_turn))


def test_exception_is_crash_and_next_attempt_uses_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def agent(prompt: str, context: AttemptContext) -> SubjectResult:
        return DONE if prompt == "again" else {}[prompt]  # type: ignore[return-value]

    with process_of(agent, tmp_path, monkeypatch) as process:
        crash = process("Tell Bob", context(tmp_path))
        channel = process._channel
        assert process("again", context(tmp_path)) == DONE and process._channel is channel
    assert (crash.ended_by, crash.error_type, crash.error) == ("exception", "KeyError", "'Tell Bob'")


def test_time_before_a_kill_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def agent(prompt: str, context: AttemptContext) -> SubjectResult:
        return replace(DONE, response=str(context.settings.attempt_time))

    with process_of(agent, tmp_path, monkeypatch) as process:
        result = process("Tell Bob", context(tmp_path, started=time.time() - 50))
    assert 0 < float(result.response) <= 10


def test_agent_that_cannot_open_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str) -> Any:
        raise SettingsError("GROQ_MODEL: unknown model")

    process = InThread(Wired(tmp_path).configuration)
    monkeypatch.setattr(lab_worker, "load_subject", refused)
    with pytest.raises(SettingsError, match="GROQ_MODEL: unknown model"):
        process.start()
    process.stop()
    crash = process("Tell Bob", context(tmp_path))
    process.stop()
    assert (crash.error_type, crash.error) == ("NotReady", "GROQ_MODEL: unknown model")


@pytest.mark.slow
def test_process_that_ends_is_crash_and_is_started_again(tmp_path: Path) -> None:
    process = Dying(Wired(tmp_path).configuration)
    for starts in (1, 2):
        crash = process("Tell Bob", context(tmp_path))
        assert (crash.error_type, process.starts) == ("ProcessEnded", starts)
        assert crash.error is not None and "its process ended with exit code 3: no more" in crash.error
