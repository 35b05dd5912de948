"""``command:`` subjects: one process per attempt, which gets the prompt, answers and ends."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from wirefault.core.interrupts import INTERRUPTED_LINE, Interrupted
from wirefault.history.events import EXIT_CODE
from wirefault.subjects.exit_reason import FIRST_SHELL_CODE, failure_reason, silent_reason
from wirefault.subjects.process import MAX_KEPT_BYTES, OutputTail, ProcessGroup, exit_description
from wirefault.subjects.results import answer_result, error_class_in, last_object, value_at
from wirefault.subjects.subject import (
    AttemptContext,
    LabFailed,
    Subject,
    SubjectResult,
    crashed,
    limit_reached,
)
from wirefault.subjects.surroundings import (
    AttemptFiles,
    Surroundings,
    attempt_environ,
    existing_folder,
    resolved_words,
)
from wirefault.subjects.taps.tap import StartSignal
from wirefault.wiring.subject_spec import PROMPT, CommandSpec, InFile, InJson, InVariable


class CommandSubject(Subject):
    """Starts the command for each attempt. Raises ``SettingsError`` if the program is missing."""

    kind = "command"

    def __init__(self, spec: CommandSpec, surroundings: Surroundings) -> None:
        self._spec = spec
        self._surroundings = surroundings
        self._folder = existing_folder(spec.folder, surroundings) if spec.folder else None
        self._words = resolved_words(spec.command, surroundings, "command", self._folder)
        self.notes = surroundings.tap.notes
        self.name = f"command: {' '.join(spec.command)}"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        files = AttemptFiles(self._surroundings, context.identity)
        folder = self._folder or files.make_work_folder()
        answer = folder / self._spec.answer.file if isinstance(self._spec.answer, InFile) else None
        if answer:
            answer.unlink(missing_ok=True)  # another attempt's, in a shared folder
        with StartSignal(self._surroundings.tap) as start:
            process = self._start(prompt, folder, context, start.fd)
            try:
                in_time = process.wait(context.settings.attempt_time)
                was_interrupted = process.was_interrupted
            except Interrupted as end:
                if end.signal:
                    process.interrupt(end.signal)
                raise
            finally:
                process.close()
                stdout, stderr = process.stdout.take(), process.stderr.take()
                files.keep("stdout.txt", stdout)
                files.keep("stderr.txt", stderr)
                files.remove_if_empty()
            if not start.was_received():
                raise LabFailed(f"the command could not be started: {stderr.last_statement()}")
        if was_interrupted:
            raise Interrupted(INTERRUPTED_LINE)
        if not in_time:
            return limit_reached(context.settings.attempt_time)
        if process.exit_code:
            return self._failed(process.exit_code, stdout, stderr)
        return self._answer(stdout, answer)

    def _failed(self, exit_code: int, stdout: OutputTail, stderr: OutputTail) -> SubjectResult:
        """A crash, unless the command ended on its own and said why it failed."""
        reason = failure_reason(stdout, stderr) if exit_code < FIRST_SHELL_CODE else ""
        statement = reason or (stderr if stderr.end else stdout).last_statement()
        statement = statement or silent_reason(self._spec.command, exit_code)
        error = self._surroundings.redact(f"it {exit_description(exit_code)}: {statement}")
        error_class = error_class_in(statement)
        printed = answer_result(stdout.text)
        if printed.report is not None and printed.report.status != "done":
            return replace(printed, error_type=EXIT_CODE, error=error, error_class=error_class)
        if not reason:
            return crashed(EXIT_CODE, error, error_class)
        response = printed.response or self._surroundings.redact(reason)
        return SubjectResult("text", None, response, EXIT_CODE, error, error_class)

    def _start(
        self, prompt: str, folder: Path, context: AttemptContext, started_fd: int | None
    ) -> ProcessGroup:
        place = self._spec.prompt
        stdin = None if self._spec.show == "as-is" else ""
        environ = {**self._surroundings.environ, **attempt_environ(context.identity)}
        if isinstance(place, InVariable):
            environ[place.variable] = prompt
        elif isinstance(place, InFile):
            file = folder / place.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(prompt, encoding="utf-8")
        elif place != "none" and not any(PROMPT in word for word in self._words):
            stdin = prompt
        words = [word.replace(PROMPT, prompt) for word in self._words]
        words = self._surroundings.tap.words(words, started_fd=started_fd)
        inherited = [] if started_fd is None else [started_fd]
        redact = self._surroundings.redact
        return ProcessGroup(words, environ, folder, stdin, inherited, self._spec.show, redact)

    def _answer(self, stdout: OutputTail, file: Path | None) -> SubjectResult:
        if self._spec.prompt == "none" and not stdout.end and file is None:
            return SubjectResult(ended_by="text", response="")  # no answer is expected
        place = self._spec.answer
        if file is not None:
            return _answer_in(file)
        if place == "stdout":
            return answer_result(stdout.text)
        value = last_object(stdout.text)
        if value is None:
            return crashed("NoAnswer", "no line of its standard output is a JSON object")
        if not isinstance(place, InJson):
            return answer_result(value)
        try:
            return answer_result(value_at(value, place.json_path))
        except LookupError as error:
            return crashed("NoAnswer", f"the last JSON line of its standard output has no {error.args[0]}")


def _answer_in(file: Path) -> SubjectResult:
    """Read the end of the file, up to the size that is kept of an output."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - MAX_KEPT_BYTES))
            text = opened.read(MAX_KEPT_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return crashed("NoAnswer", f"{file.name}, where its answer is to be: {error.strerror}")
    return answer_result(text)
