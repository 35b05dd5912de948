"""Whether a command that ended with a non-zero exit code said why it failed. Pure.

A command that says why did not crash: it noticed its failure. A trace of an unhandled exception, or an end
without output, is a crash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from wirefault.subjects.process import OutputTail

# From here on codes are a shell's: not executable, not found, killed by a signal.
FIRST_SHELL_CODE = 126
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


def failure_reason(stdout: OutputTail, stderr: OutputTail) -> str:
    """The statement by which the command said why it failed; empty if it did not.

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
