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
def test_it_gets_the_prompt_and_answers(wired: Wired, yaml: str) -> None:
    result = wired.ask(yaml, "What is 6 * 7?")
    assert (result.ended_by, result.response) == ("text", "What is 6 * 7?"), result


def test_a_report_at_the_end_of_its_answer_is_one(wired: Wired) -> None:
    wired.file(
        "agent.py", 'print("So:\\n```json\\n{\\"status\\": \\"done\\", \\"answer\\": \\"It is 42.\\"}\\n```")'
    )
    result = wired.ask(f"{{command: [{PYTHON}, agent.py]}}")
    assert result.report and (result.report.status, result.response) == ("done", "It is 42.")


def test_it_works_in_a_folder_of_its_own_that_stays_with_the_run(wired: Wired) -> None:
    wired.ask(shell("echo note > note.txt; pwd"))
    assert wired.kept("work/note.txt") == "note\n"
    assert wired.kept("stdout.txt").endswith("/runs/run-1/attempts/episode-1/work\n")


def test_it_finds_its_links_and_which_attempt_it_is(wired: Wired) -> None:
    result = wired.ask(shell("env"))
    variables = dict(line.split("=", 1) for line in result.response.splitlines() if "=" in line)
    assert variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:6007"
    assert variables["ANTHROPIC_API_KEY"]
    assert variables["SHOP_URL"] == variables["STORE_URL"] == "http://127.0.0.1:6001/v2"
    assert variables["WIREFAULT_EPISODE"] == "episode"
    assert "wirefault.attempt=1" in variables["BAGGAGE"] and variables["TRACEPARENT"].startswith("00-")


def test_a_failure_is_its_crash_with_its_last_words(wired: Wired) -> None:
    result = wired.ask(shell("echo fine; echo no such city >&2; exit 3"))
    assert (result.ended_by, result.error_type) == ("exception", "ExitCode")
    assert result.error == "it ended with exit code 3: no such city"
    assert wired.ask(shell("kill -9 $$")).error == "it was killed by signal 9: "


def test_of_a_trace_the_error_is_told_and_whose_it_was(wired: Wired) -> None:
    wired.file("agent.py", "import urllib.request as web; web.urlopen('http://127.0.0.1:1')")
    result = wired.ask(f"{{command: [{PYTHON}, agent.py]}}")
    assert str(result.error).startswith("it ended with exit code 1: urllib.error.URLError: ")
    assert result.error_class == "network"


@pytest.mark.skipif(not which("node"), reason="no Node here")
def test_a_program_of_node_says_what_ended_it(wired: Wired) -> None:
    wired.file(
        "agent.js", "console.log(process.argv[2]); if (process.argv[2] === 'x') throw new Error('no city')"
    )
    assert wired.ask("{command: [node, agent.js, '{prompt}']}", "hello").response == "hello"
    assert (
        wired.ask("{command: [node, agent.js, '{prompt}']}", "x").error
        == "it ended with exit code 1: Error: no city"
    )


def test_nothing_said_is_no_answer(wired: Wired) -> None:
    assert wired.ask(shell("exit 0")).ended_by == "empty"
    assert wired.ask(shell("echo no", ", answer: json")).error_type == "NoAnswer"
    assert wired.ask(shell("echo no", ", answer: {file: out.txt}")).error_type == "NoAnswer"


def test_at_its_limit_all_that_it_started_is_killed(wired: Wired) -> None:
    pids = [wired.folder / name for name in ("child", "daemon")]
    script = f"sleep 600 & echo $! > {pids[0]}; setsid sh -c 'echo $$ > {pids[1]}; sleep 600' & wait"
    result = wired.ask(shell(script), attempt_time=3)
    assert (result.ended_by, result.error) == ("limit", "no answer within 3 s")
    assert not any(alive(pid_in(file)) for file in pids)


def test_what_it_leaves_in_the_background_ends_with_it(wired: Wired) -> None:
    file = wired.folder / "pid"
    script = f"setsid sh -c 'echo $$ > {file}; sleep 600' & while [ ! -s {file} ]; do :; done; echo done"
    assert wired.ask(shell(script)).response == "done"
    assert not alive(pid_in(file))


def test_of_an_endless_output_the_end_is_kept_without_secrets(tmp_path: Path) -> None:
    wired = Wired(tmp_path, {**os.environ, "SHOP_API_KEY": "sk-0123456789"})
    result = wired.ask(
        shell("yes | head -c 700000 >&2; echo $SHOP_API_KEY >&2; echo the key is $SHOP_API_KEY")
    )
    kept = wired.kept("stderr.txt")
    assert kept.startswith("[the first ") and kept.endswith("y\n[secret]\n") and len(kept) < 300_000
    assert wired.kept("stdout.txt") == "the key is [secret]\n"
    assert result.response == "the key is sk-0123456789"  # the recorder takes it out of the history


def test_files_beside_the_wiring_are_found_from_its_folder(wired: Wired) -> None:
    wired.file("agent.py", "import sys; print(sys.argv[1:])")
    (wired.folder / "data").mkdir()
    result = wired.ask(f"{{command: [{PYTHON}, agent.py, data, ./data, nothing.txt]}}")
    assert result.response == str(["data", str(wired.folder / "data"), "nothing.txt"])
    assert wired.ask("{command: [pwd], folder: data}").response == str(wired.folder / "data")


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("{command: [no-such-program]}", "subject.command: missing program 'no-such-program'"),
        ("{command: [./agent.sh]}", "subject.command: missing program './agent.sh'"),
        ("{command: [cat], folder: nowhere}", "subject.folder: missing folder"),
    ],
)
def test_what_is_not_there_is_said_before_anything_starts(wired: Wired, yaml: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said), wired.subject(yaml):
        pass
