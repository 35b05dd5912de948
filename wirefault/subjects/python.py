"""``python:`` subjects: a callable in its own process, which lives as long as the run."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wirefault.settings.settings import SettingsError
from wirefault.subjects.process import ProcessGroup, exit_description
from wirefault.subjects.python_worker import PythonContext
from wirefault.subjects.results import AttemptOver, conversation_id, converse
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, crashed, limit_reached
from wirefault.subjects.surroundings import AttemptFiles, Surroundings, existing_folder
from wirefault.wiring.subject_spec import PythonSpec

_WORKER = str(Path(__file__).with_name("python_worker.py"))
# an agent's frameworks may take long to import
_IMPORT_BOUND_S = 120.0
_EXIT_GRACE_S = 1.0
_MAX_ANSWER = 4 * 1024 * 1024


class _Worker:
    """The process and the channel to it."""

    def __init__(self, spec: PythonSpec, surroundings: Surroundings, folder: Path) -> None:
        module, _, name = spec.python.partition(":")
        self._channel, theirs = socket.socketpair()
        with theirs:
            number = str(theirs.fileno())
            words = [sys.executable, "-P", _WORKER, number, str(surroundings.folder), module, name]
            words = surroundings.tap.words(words)
            self.process = ProcessGroup(words, surroundings.environ, folder, inherited=[theirs.fileno()])
        self._lines = self._channel.makefile("rb")

    def send(self, **message: Any) -> None:
        """Raises ``OSError`` if the process has ended."""
        self._channel.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return its next message. Raises ``TimeoutError``, or ``EOFError`` if it has ended."""
        self._channel.settimeout(seconds)
        try:
            line = self._lines.readline(_MAX_ANSWER)
        except ConnectionResetError:
            line = b""
        if not line.endswith(b"\n"):
            raise EOFError
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        self._lines.close()
        self._channel.close()
        self.process.close()


class PythonSubject(Subject):
    """Calls it for each turn; restarts the process after an attempt that ended it."""

    kind = "python"
    holds_conversations = True

    def __init__(self, spec: PythonSpec, surroundings: Surroundings) -> None:
        self._spec = spec
        self._surroundings = surroundings
        self._folder = existing_folder(spec.folder, surroundings)
        self._worker: _Worker | None = None
        self.notes = surroundings.tap.notes
        self.name = f"python: {spec.python}"

    def start(self) -> _Worker:
        """Return when the callable is imported. Raises ``SettingsError`` if the import fails."""
        worker = self._worker = _Worker(self._spec, self._surroundings, self._folder)
        try:
            problem = worker.receive(_IMPORT_BOUND_S).get("problem", "")
        except TimeoutError:
            problem = f"its import takes longer than {_IMPORT_BOUND_S:g} s"
        except EOFError:
            problem = f"while it was imported it {_end_of(worker.process)}"
        if problem:
            self.stop()
            redacted = self._surroundings.redact(str(problem))
            raise SettingsError(f"{self._surroundings.where}: subject.python: {redacted}")
        return worker

    def stop(self) -> None:
        """End the process with all its descendants."""
        if self._worker:
            self._worker.close()
            self._worker = None

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        try:
            worker = self._worker or self.start()
        except SettingsError as error:  # it was imported before, so this is its own failure
            return crashed("NotReady", str(error))
        files = AttemptFiles(self._surroundings, context.identity)

        def turn(text: str, number: int, seconds: float) -> object:
            return self._turn(
                worker, text, python_context(context, number, self._surroundings.links), seconds, context
            )

        try:
            return converse(prompt, context, turn)
        finally:
            files.keep("stdout.txt", worker.process.stdout.take())
            files.keep("stderr.txt", worker.process.stderr.take())

    def _turn(
        self,
        worker: _Worker,
        text: str,
        python_context: PythonContext,
        seconds: float,
        context: AttemptContext,
    ) -> object:
        try:
            worker.send(prompt=text, context=asdict(python_context))
            reply = worker.receive(seconds)
        except TimeoutError:
            self.stop()  # work on this prompt must not continue into the next attempt
            raise AttemptOver(limit_reached(context.settings.attempt_time)) from None
        except (OSError, EOFError):
            ended = f"its process {_end_of(worker.process)}"
            self.stop()
            raise AttemptOver(crashed("ProcessEnded", self._surroundings.redact(ended))) from None
        if "error_type" in reply:
            raise AttemptOver(_reported_crash(reply))
        return reply["answer"]


def _reported_crash(reply: Mapping[str, Any]) -> SubjectResult:
    return SubjectResult(
        "exception",
        error_type=reply["error_type"],
        error=reply["error"],
        error_class=reply["error_class"],
    )


def _end_of(process: ProcessGroup) -> str:
    process.wait(_EXIT_GRACE_S)
    return f"{exit_description(process.exit_code)}: {process.stderr.seen().last_lines()}"


@contextmanager
def running_python(spec: PythonSpec, surroundings: Surroundings) -> Iterator[PythonSubject]:
    """Keep the callable imported in its process within the block. Raises ``SettingsError`` if it cannot be
    imported.
    """
    subject = PythonSubject(spec, surroundings)
    try:
        subject.start()
        yield subject
    finally:
        subject.stop()


def python_context(context: AttemptContext, turn: int, links: Mapping[str, str]) -> PythonContext:
    """Return the context of a turn as the callable gets it."""
    identity = context.identity
    return PythonContext(
        run=identity.run,
        episode=identity.episode,
        attempt=identity.attempt,
        conversation=conversation_id(context),
        turn=turn,
        headers=identity.headers(""),
        links=links,
        started=context.started,
        gateway=str(context.gateway.absolute()),
    )
