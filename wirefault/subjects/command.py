"""``command:`` subjects: one process per attempt, which gets the prompt, answers and ends."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from wirefault.core.interrupts import INTERRUPTED_LINE, Interrupted
from wirefault.history.events import EXIT_CODE
from wirefault.state.tables import KillOrder
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

# From here on codes are a shell's: not executable, not found, killed by a signal.
_FIRST_SHELL_CODE = 126
_LINES = 12
# How runtimes begin the report of an uncaught exception, or its steps.
_TRACE = re.compile(
    r"^Traceback \(most recent call last\)|^\s+at .+(?:\(.*\)|:\d+)$|^panic: |^goroutine \d+ \["
    r"|^thread '.*' (?:\(\d+\) )?panicked at|^Exception in thread|^Unhandled exception|^Uncaught "
    r"|^(?:PHP )?Fatal error: |^\S+\.rb:\d+:in |^terminate called|^Segmentation fault|^node:internal"
    r"|^\s+\|? ?(?:File|at) \".*\", line \d+",
    re.MULTILINE,
)
# of English, German, French and Spanish
_FAILURE = re.compile(
    r"\b(?:error|errors|fail(?:s|ed|ure|ing)?|fatal|could ?n[o']t|could not|can(?:no|')t|unable|unavailable|"
    r"not (?:available|possible|found|reach\w*|complet\w*|respond\w*)|refused|denied|rejected|invalid|"
    r"missing|unreachable|unexpected\w*|time[ds]?[ -]?out|timeout|sorry|abort\w*|giv(?:e|ing) up|gave up|"
    r"no (?:answer|response|reply|connection|result)s?|exception|overloaded|rate limit\w*|too many requests|"
    r"(?:HTTP|status|code)[ :=]*[45]\d\d|"
    r"fehler|fehlgeschlagen|leider|nicht (?:m[öo]glich|erreichbar|gefunden)|konnte|abgebrochen|"
    r"erreur|[\u00e9e]chec|[\u00e9e]chou[\u00e9e]|impossible|d[\u00e9e]sol[\u00e9e]|"
    r"fallo|fall[\u00f3o]|no (?:se )?(?:pudo|pude|puede)|imposible|lo siento)\b|\w(?:Error|Exception)\b",
    re.IGNORECASE,
)
_LOG = re.compile(r"(?:warning|\b(?:warn|info|debug))\b", re.IGNORECASE)


class CommandSubject(Subject):
    """Starts the command for each attempt. Raises ``SettingsError`` if the program is missing."""

    kind = "command"

    def __init__(self, spec: CommandSpec, surroundings: Surroundings) -> None:
        self._spec = spec
        self._surroundings = surroundings
        self._folder = existing_folder(spec.folder, surroundings) if spec.folder else None
        self._words = resolved_words(spec.command, surroundings, "command", self._folder)
        self._resume = self._words
        if spec.resume:
            self._resume = resolved_words(spec.resume, surroundings, "resume", self._folder)
        self.notes = surroundings.tap.notes
        self.name = f"command: {' '.join(spec.command)}"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        files = AttemptFiles(self._surroundings, context.identity)
        folder = self._folder or files.make_work_folder()
        answer = folder / self._spec.answer.file if isinstance(self._spec.answer, InFile) else None
        if answer:
            answer.unlink(missing_ok=True)  # another attempt's, in a shared folder
        deadline = time.monotonic() + context.settings.attempt_time
        try:
            result = self._run(self._words, prompt, folder, context, files, deadline, answer)
            while isinstance(result, KillOrder) and context.kills is not None:
                files.set_aside(("stdout.txt", "stderr.txt"), f"killed-{result.number}")
                command = self._surroundings.redact(" ".join(self._spec.resume or self._spec.command))
                context.kills.resumed(result, command)
                result = self._run(self._resume, prompt, folder, context, files, deadline, answer)
        finally:
            files.remove_if_empty()
        assert isinstance(result, SubjectResult)
        return result

    def _run(
        self,
        words: Sequence[str],
        prompt: str,
        folder: Path,
        context: AttemptContext,
        files: AttemptFiles,
        deadline: float,
        answer: Path | None,
    ) -> SubjectResult | KillOrder:
        """Run one process to its end, or to the deadline (monotonic); the order if the lab killed it."""
        order: KillOrder | None = None
        with StartSignal(self._surroundings.tap) as start:
            process = self._start(words, prompt, folder, context, start.fd)
            try:
                left_s = max(deadline - time.monotonic(), 0.0)
                if context.kills is None:
                    in_time = process.wait(left_s)
                else:
                    with context.kills.watching(process) as watch:
                        in_time = process.wait(left_s)
                    order = watch.order
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
            if not start.was_received():
                raise LabFailed(f"the command could not be started: {stderr.last_statement()}")
        if order is not None:
            return order
        if was_interrupted:
            raise Interrupted(INTERRUPTED_LINE)
        if not in_time:
            return limit_reached(context.settings.attempt_time)
        if process.exit_code:
            return self._failed(process.exit_code, stdout, stderr)
        return self._answer(stdout, answer)

    def _failed(self, exit_code: int, stdout: OutputTail, stderr: OutputTail) -> SubjectResult:
        """A crash, unless the command ended on its own and said why it failed."""
        reason = _failure_reason(stdout, stderr) if exit_code < _FIRST_SHELL_CODE else ""
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
        self, words: Sequence[str], prompt: str, folder: Path, context: AttemptContext, started_fd: int | None
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
        elif place != "none" and not any(PROMPT in word for word in words):
            stdin = prompt
        words = [word.replace(PROMPT, prompt) for word in words]
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
    if file.exists() and not file.is_file():  # a pipe would block forever
        return crashed("NoAnswer", f"{file.name}, where its answer is to be: not a regular file")
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - MAX_KEPT_BYTES))
            text = opened.read(MAX_KEPT_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return crashed("NoAnswer", f"{file.name}, where its answer is to be: {error.strerror}")
    return answer_result(text)


def _failure_reason(stdout: OutputTail, stderr: OutputTail) -> str:
    """The statement by which the command said why it failed; empty if it did not.

    A command that says why did not crash: it noticed its failure. A trace of an unhandled exception, or an
    end without output, is a crash.

    On standard error this is the last statement that is not a log line. Standard output must name a failure;
    if standard error has a trace, which the command may have logged itself, the last statement of standard
    output must name it.
    """
    if _TRACE.search(stderr.text):
        last = stdout.last_statement()
        return last if _FAILURE.search(last) and not _TRACE.search(stdout.text) else ""
    if _TRACE.search(stdout.text):
        return ""
    statement = stderr.last_statement()
    if statement and (_FAILURE.search(statement) or not _LOG.search(statement)):
        return statement
    return _failure_in(stderr) or _failure_in(stdout)


# curl's exit codes for failed connections, which ``curl --silent`` does not explain
_CURL = {
    5: "could not resolve proxy",
    6: "could not resolve host",
    7: "failed to connect",
    18: "the transfer was cut off",
    22: "the server answered with an error (400 or above)",
    28: "the operation timed out",
    35: "the TLS handshake failed",
    52: "empty reply from server",
    55: "failed sending network data",
    56: "failure in receiving network data",
    60: "the server's certificate was not trusted",
    92: "a stream of HTTP/2 was not closed cleanly",
}


def silent_reason(command: Sequence[str], exit_code: int) -> str:
    """The reason for the exit code of a command that printed nothing; for curl the code's meaning."""
    program = PurePath(command[0]).name if command else ""
    if program == "curl" and exit_code in _CURL:
        return f"curl: ({exit_code}) {_CURL[exit_code]}"
    return "it printed nothing"


def _failure_in(output: OutputTail) -> str:
    lines = output.last_lines(_LINES).splitlines()
    return next((line.strip() for line in reversed(lines) if _FAILURE.search(line)), "")
