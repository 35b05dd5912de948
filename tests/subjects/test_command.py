"""Subjects that are commands: a process for each attempt."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from shutil import which

import pytest

from tests.subjects.wired import Wired, alive, pid_in
from wirefault.settings.settings import SettingsError
from wirefault.subjects.command import silent_reason

pytestmark = pytest.mark.slow

PYTHON = json.dumps(sys.executable)


@pytest.fixture
def wired(tmp_path: Path) -> Wired:
    return Wired(tmp_path)


def shell(script: str, more: str = "") -> str:
    return json.dumps({"command": ["sh", "-c", script]})[:-1] + f"{more}}}"


@pytest.mark.parametrize(
    "yaml",
    [
        '{command: [printf, "%s", "{prompt}"]}',
        "{command: [cat]}",
        "{command: [cat, task.txt], prompt: {file: task.txt}}",
        shell('printf %s "$TASK"', ", prompt: {variable: TASK}"),
        "{command: [cp, in.txt, out.txt], prompt: {file: in.txt}, answer: {file: out.txt}}",
        shell('printf \'{"text": ["%s"]}\\n\' "$(cat)"; echo bye', ", answer: {json: text.0}"),
    ],
    ids=["argument", "stdin", "file", "variable", "answer-file", "json-line"],
)
def test_command_gets_prompt_and_answers(wired: Wired, yaml: str) -> None:
    result = wired.ask(yaml, "What is 6 * 7?")
    assert (result.ended_by, result.response) == ("text", "What is 6 * 7?"), result


def test_answer_ending_in_report(wired: Wired) -> None:
    wired.file(
        "agent.py", 'print("So:\\n```json\\n{\\"status\\": \\"done\\", \\"answer\\": \\"It is 42.\\"}\\n```")'
    )
    result = wired.ask(f"{{command: [{PYTHON}, agent.py]}}")
    assert result.report and (result.report.status, result.response) == ("done", "It is 42.")


def test_command_runs_in_own_folder(wired: Wired) -> None:
    wired.ask(shell("echo note > note.txt; pwd"))
    assert wired.attempt_file("work/note.txt") == "note\n"
    assert wired.attempt_file("stdout.txt").endswith("/runs/run-1/attempts/episode-1/work\n")


def test_command_gets_links_and_attempt(wired: Wired) -> None:
    result = wired.ask(shell("env"))
    variables = dict(line.split("=", 1) for line in result.response.splitlines() if "=" in line)
    assert variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:6007"
    assert variables["ANTHROPIC_API_KEY"]
    assert variables["SHOP_URL"] == variables["STORE_URL"] == "http://127.0.0.1:6001/v2"
    assert variables["WIREFAULT_EPISODE"] == "episode"
    assert "wirefault.attempt=1" in variables["BAGGAGE"] and variables["TRACEPARENT"].startswith("00-")


def test_crash_has_last_lines_of_output(wired: Wired) -> None:
    result = wired.ask(shell("echo fine; echo no such city >&2; exit 3"))
    assert (result.ended_by, result.error_type) == ("text", "ExitCode")
    assert (result.response, result.error) == ("fine", "it ended with exit code 3: no such city")
    assert wired.ask(shell("kill -9 $$")).error == "it was killed by signal 9: it printed nothing"


@pytest.mark.parametrize(
    ("script", "ended_by", "error"),
    [
        ("echo 'Error: the shop is down' >&2; exit 1", "text", "Error: the shop is down"),
        ("echo 'Could not place the order.'; exit 1", "text", "Could not place the order."),
        ("echo 'Der Dienst ist leider nicht erreichbar.'; exit 2", "text", "Der Dienst ist leider nicht"),
        ("echo 'DeprecationWarning: old' >&2; echo 'Sorry, no answer'; exit 1", "text", "Sorry, no answer"),
        ("echo 'Looking ...'; exit 1", "exception", "Looking ..."),
        ("exit 1", "exception", ""),
        ("echo 'Sorry, the shop is down'; kill -9 $$", "exception", "Sorry"),
        ("printf 'panic: boom\\n\\ngoroutine 1 [running]:\\n' >&2; exit 2", "exception", "goroutine 1"),
    ],
)
def test_command_with_failure_message_did_not_crash(
    wired: Wired, script: str, ended_by: str, error: str
) -> None:
    result = wired.ask(shell(script))
    assert (result.ended_by, result.error_type) == (ended_by, "ExitCode")
    assert error in str(result.error)


def test_failure_report_is_read_from_failed_command(wired: Wired) -> None:
    report = '{"status": "failed", "answer": "no tea"}'
    result = wired.ask(shell(f"echo '{report}'; exit 1"))
    assert result.report is not None and (result.ended_by, result.report.status) == ("report", "failed")
    assert wired.ask(shell(f"echo '{report.replace('failed', 'done')}'; exit 1")).ended_by == "exception"


def test_logged_trace_before_statement_is_not_crash(wired: Wired) -> None:
    wired.file(
        "agent.py",
        "import logging, sys\ntry:\n    1 / 0\nexcept ArithmeticError:\n    logging.exception('no price')\n"
        "    print('Sorry, I could not find the price.')\n    sys.exit(1)\n",
    )
    result = wired.ask(f"{{command: [{PYTHON}, agent.py]}}")
    assert (result.ended_by, result.response) == ("text", "Sorry, I could not find the price.")


def test_trace_gives_error_and_class(wired: Wired) -> None:
    wired.file("agent.py", "import urllib.request as web; web.urlopen('http://127.0.0.1:1')")
    result = wired.ask(f"{{command: [{PYTHON}, agent.py]}}")
    assert result.ended_by == "exception"
    assert str(result.error).startswith("it ended with exit code 1: urllib.error.URLError: ")
    assert result.error_class == "network"


def test_notes_come_after_exception(wired: Wired) -> None:
    wired.file(
        "agent.py", "error = OSError('HTTP Error 500')\nerror.add_note('During task tools')\nraise error"
    )
    error = wired.ask(f"{{command: [{PYTHON}, agent.py]}}").error
    assert error == "it ended with exit code 1: OSError: HTTP Error 500; During task tools"


@pytest.mark.skipif(not which("node"), reason="no Node here")
def test_node_error_is_last_statement(wired: Wired) -> None:
    wired.file(
        "agent.js", "console.log(process.argv[2]); if (process.argv[2] === 'x') throw new Error('no city')"
    )
    assert wired.ask("{command: [node, agent.js, '{prompt}']}", "hello").response == "hello"
    assert (
        wired.ask("{command: [node, agent.js, '{prompt}']}", "x").error
        == "it ended with exit code 1: Error: no city"
    )


def test_empty_output_is_not_answer(wired: Wired) -> None:
    assert wired.ask(shell("exit 0")).ended_by == "empty"
    assert wired.ask(shell("echo no", ", answer: json")).error_type == "NoAnswer"
    assert wired.ask(shell("echo no", ", answer: {file: out.txt}")).error_type == "NoAnswer"


def test_limit_kills_all_descendants(wired: Wired) -> None:
    pids = [wired.folder / name for name in ("child", "daemon")]
    script = f"sleep 600 & echo $! > {pids[0]}; setsid sh -c 'echo $$ > {pids[1]}; sleep 600' & wait"
    result = wired.ask(shell(script), attempt_time=3)
    assert (result.ended_by, result.error) == ("limit", "no answer within 3 s")
    assert not any(alive(pid_in(file)) for file in pids)


def test_background_processes_end_with_command(wired: Wired) -> None:
    file = wired.folder / "pid"
    script = f"setsid sh -c 'echo $$ > {file}; sleep 600' & while [ ! -s {file} ]; do :; done; echo done"
    assert wired.ask(shell(script)).response == "done"
    assert not alive(pid_in(file))


def test_endless_output_keeps_redacted_end(tmp_path: Path) -> None:
    wired = Wired(tmp_path, {**os.environ, "SHOP_API_KEY": "sk-0123456789"})
    result = wired.ask(
        shell("yes | head -c 700000 >&2; echo $SHOP_API_KEY >&2; echo the key is $SHOP_API_KEY")
    )
    output = wired.attempt_file("stderr.txt")
    assert output.startswith("[the first ") and output.endswith("y\n[secret]\n") and len(output) < 300_000
    assert wired.attempt_file("stdout.txt") == "the key is [secret]\n"
    assert result.response == "the key is sk-0123456789"  # the recorder takes it out of the history


def test_files_are_relative_to_wiring(wired: Wired) -> None:
    wired.file("agent.py", "import sys; print(sys.argv[1:])")
    (wired.folder / "data").mkdir()
    result = wired.ask(f"{{command: [{PYTHON}, agent.py, data, ./data, nothing.txt]}}")
    assert result.response == str(["data", str(wired.folder / "data"), "nothing.txt"])
    assert wired.ask("{command: [pwd], folder: data}").response == str(wired.folder / "data")


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("{command: [no-such-program]}", "subject.command: missing program 'no-such-program'"),
        ("{command: [./agent.sh]}", "subject.command: missing program './agent.sh'"),
        ("{command: [cat], folder: nowhere}", "subject.folder: missing folder"),
    ],
)
def test_missing_files_are_reported_before_start(wired: Wired, yaml: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message), wired.subject(yaml):
        pass


def test_silent_exit_code_has_reason(wired: Wired) -> None:
    result = wired.ask("{command: [sh, -c, exit 52]}")
    assert (result.ended_by, result.error) == ("exception", "it ended with exit code 52: it printed nothing")
    assert silent_reason(["/usr/bin/curl", "-s"], 52) == "curl: (52) empty reply from server"
    assert silent_reason(["curl"], 99) == silent_reason([], 1) == "it printed nothing"
