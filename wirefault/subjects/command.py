"""``command:``, a process for each attempt: it gets the prompt, answers, and ends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shutil import which

from wirefault.settings.settings import SettingsError
from wirefault.subjects.crash import error_class_in
from wirefault.subjects.json_path import last_object, value_at
from wirefault.subjects.kept_output import KEPT_BYTES, Printed
from wirefault.subjects.process_group import ProcessGroup, exit_words
from wirefault.subjects.report_text import result_of
from wirefault.subjects.subject import AttemptContext, LabFailed, SubjectResult, crashed, limit_reached
from wirefault.subjects.surroundings import AttemptFiles, Surroundings
from wirefault.subjects.taps.entry import TapEntry
from wirefault.subjects.variables import attempt_environ
from wirefault.wiring.subject_spec import PROMPT, CommandSpec, InFile, InJson, InVariable, ServiceSpec
from wirefault.wiring.wiring import Wiring


class CommandSubject:
    """Starts the command anew for each attempt. Raises ``SettingsError`` if there is no such program."""

    kind = "command"
    holds_conversations = False

    def __init__(self, spec: CommandSpec, surroundings: Surroundings) -> None:
        self._spec = spec
        self._surroundings = surroundings
        self._words = resolved_words(spec.command, surroundings, "command")
        self._folder = existing_folder(spec.folder, surroundings) if spec.folder else None
        self.tap = surroundings.tap
        self.name = f"command: {' '.join(spec.command)}"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        files = AttemptFiles(self._surroundings, context.identity)
        folder = self._folder or files.make_work_folder()
        answer = folder / self._spec.answer.file if isinstance(self._spec.answer, InFile) else None
        if answer:
            answer.unlink(missing_ok=True)  # another attempt's, in a folder that they share
        with TapEntry(self.tap) as entry:
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
        words = self.tap.words(words, entered=entered)
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


def resolved_words(words: list[str], surroundings: Surroundings, key: str) -> list[str]:
    """The command with absolute paths of what lies beside the wiring's file, since it works elsewhere.

    Raises ``SettingsError`` if there is no such program.
    """
    program, *arguments = words
    if problem := program_problem(program, surroundings.folder, surroundings.environ):
        raise SettingsError(f"{surroundings.where}: subject.{key}: {problem}")
    if os.sep in program:
        program = str(surroundings.folder / program)
    return [program, *(_absolute(word, surroundings.folder) for word in arguments)]


def check_program(wiring: Wiring, environ: Mapping[str, str]) -> None:
    """Raises ``SettingsError`` if there is no program to start that wiring's subject by."""
    match wiring.subject:
        case CommandSpec(command=[program, *_]):
            key = "command"
        case ServiceSpec(service=[program, *_]):
            key = "service"
        case _:
            return
    if problem := program_problem(program, wiring.folder, environ):
        raise SettingsError(f"{wiring.file or 'the command line'}: subject.{key}: {problem}")


def program_problem(program: str, folder: Path, environ: Mapping[str, str]) -> str:
    """Why the program cannot be run in that folder, in words; empty if it can."""
    named = str(folder / program) if os.sep in program else program
    if which(named, path=environ.get("PATH", os.defpath)) is not None:
        return ""
    if (folder / program).is_file():
        return f"{program!r} is a file and no program: name what runs it first, such as python or node"
    return f"there is no program {program!r}"


def _absolute(word: str, folder: Path) -> str:
    """A word that could be a subcommand is a folder's name only with a slash in it."""
    path = folder / word
    try:
        is_meant = path.is_file() or (path.is_dir() and (os.sep in word or word in (".", "..")))
    except (OSError, ValueError):  # too long for a name
        return word
    return os.path.normpath(path) if word and is_meant else word


def existing_folder(given: str, surroundings: Surroundings) -> Path:
    """The folder that the wiring names. Raises ``SettingsError`` if it is none."""
    folder = surroundings.working_folder(given)
    if not folder.is_dir():
        raise SettingsError(f"{surroundings.where}: subject.folder: there is no folder {folder}")
    return folder
