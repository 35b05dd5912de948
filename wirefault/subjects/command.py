"""``command:``, a process for each attempt: it gets the prompt, answers, and ends."""

from __future__ import annotations

import os
from pathlib import Path

from wirefault.subjects.process import KEPT_BYTES, Printed, ProcessGroup, exit_words
from wirefault.subjects.results import error_class_in, last_object, result_of, value_at
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
from wirefault.subjects.taps.tap import TapEntry
from wirefault.wiring.subject_spec import PROMPT, CommandSpec, InFile, InJson, InVariable


class CommandSubject(Subject):
    """Starts the command anew for each attempt. Raises ``SettingsError`` if there is no such program."""

    kind = "command"

    def __init__(self, spec: CommandSpec, surroundings: Surroundings) -> None:
        self._spec = spec
        self._surroundings = surroundings
        self._words = resolved_words(spec.command, surroundings, "command")
        self._folder = existing_folder(spec.folder, surroundings) if spec.folder else None
        self.notes = surroundings.tap.notes
        self.name = f"command: {' '.join(spec.command)}"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        files = AttemptFiles(self._surroundings, context.identity)
        folder = self._folder or files.make_work_folder()
        answer = folder / self._spec.answer.file if isinstance(self._spec.answer, InFile) else None
        if answer:
            answer.unlink(missing_ok=True)  # another attempt's, in a folder that they share
        with TapEntry(self._surroundings.tap) as entry:
            process = self._start(prompt, folder, context, entry.told)
            try:
                in_time = process.wait(context.settings.attempt_time)
            finally:
                process.close()
                said, complained = process.stdout.take(), process.stderr.take()
                files.keep("stdout.txt", said)
                files.keep("stderr.txt", complained)
                files.remove_if_empty()
            if not entry.was_made():
                raise LabFailed(f"the command could not be started: {complained.last_statement()}")
        if not in_time:
            return limit_reached(context.settings.attempt_time)
        if process.exit_code:
            statement = (complained if complained.end else said).last_statement()
            error = self._surroundings.redact(f"it {exit_words(process.exit_code)}: {statement}")
            return crashed("ExitCode", error, error_class_in(statement))
        return self._answer(said, answer)

    def _start(self, prompt: str, folder: Path, context: AttemptContext, entered: int | None) -> ProcessGroup:
        way, given = self._spec.prompt, ""
        environ = {**self._surroundings.environ, **attempt_environ(context.identity)}
        if isinstance(way, InVariable):
            environ[way.variable] = prompt
        elif isinstance(way, InFile):
            file = folder / way.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(prompt, encoding="utf-8")
        elif way != "none" and not any(PROMPT in word for word in self._words):
            given = prompt
        words = [word.replace(PROMPT, prompt) for word in self._words]
        words = self._surroundings.tap.words(words, entered=entered)
        inherited = [] if entered is None else [entered]
        return ProcessGroup(words, environ, folder, given, inherited, self._spec.show)

    def _answer(self, said: Printed, file: Path | None) -> SubjectResult:
        if self._spec.prompt == "none" and not said.end and file is None:
            return SubjectResult(ended_by="text", response="")  # nobody asked it for an answer
        way = self._spec.answer
        if file is not None:
            return _answer_in(file)
        if way == "stdout":
            return result_of(said.text)
        found = last_object(said.text)
        if found is None:
            return crashed("NoAnswer", "no line of its standard output is a JSON object")
        if not isinstance(way, InJson):
            return result_of(found)
        try:
            return result_of(value_at(found, way.json_path))
        except LookupError as error:
            return crashed("NoAnswer", f"the last JSON line of its standard output has no {error.args[0]}")


def _answer_in(file: Path) -> SubjectResult:
    """The end of the file, which is as long as what is kept of an output."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - KEPT_BYTES))
            text = opened.read(KEPT_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return crashed("NoAnswer", f"{file.name}, where its answer is to be: {error.strerror}")
    return result_of(text)
