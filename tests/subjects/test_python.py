"""Subjects that are Python callables, in their own process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.subjects.wired import Wired, alive
from wirefault.settings.settings import SettingsError

pytestmark = pytest.mark.slow

AGENT = """
import asyncio, os, sys, time

message = {}

def plain(prompt):
    print("asked:", prompt)
    return prompt.upper()

async def gently(prompt, model="large"):
    await asyncio.sleep(0)
    return {"status": "done", "answer": model}

def told(prompt, context):
    message.setdefault(context.conversation, []).append(prompt)
    turns = message[context.conversation]
    return f"{turns} {context.turn} {context.links['shop']} {context.headers['baggage'][:15]} {os.getpid()}"

class Talker:
    def __init__(self):
        self.turns = []

    async def run(self, prompt, context):
        self.turns.append(prompt)
        return {"response": f"{self.turns} {context.turn}"}

talker = Talker()

class Mute:
    pass

def badly(prompt):
    if prompt == "raise":
        raise ConnectionError("refused")
    if prompt == "exit":
        sys.exit(3)
    if prompt == "sleep":
        time.sleep(600)
    if prompt == "object":
        return object()
    return str(os.getpid())
"""


@pytest.fixture
def wired(tmp_path: Path) -> Wired:
    wired = Wired(tmp_path)
    wired.file("my_agent.py", AGENT)
    return wired


def test_function_answers_text_or_report(wired: Wired) -> None:
    assert wired.ask("{python: 'my_agent:plain'}", "hello").response == "HELLO"
    assert wired.attempt_file("stdout.txt") == "asked: hello\n"
    result = wired.ask("{python: 'my_agent:gently'}")
    assert result.report and (result.report.status, result.report.answer) == ("done", "large")


def test_callable_with_context_holds_conversation(wired: Wired) -> None:
    with wired.subject("{python: 'my_agent:told'}") as subject:
        result = subject("one", wired.context(turns=("one", "two")))
        assert result.response.startswith("['one', 'two'] 2 http://127.0.0.1:6001/v2 wirefault.run=")
        assert len(result.answers) == 2
        assert result.turn_ends is not None and len(result.turn_ends) == 2
        assert result.turn_ends[0] <= result.turn_ends[1]
        alone = subject("three", wired.context(2))
        answer = alone.response
        assert alone.turn_ends is None
        assert answer.startswith("['three'] 1 ")
    pid = int(answer.split()[-1])
    assert pid != os.getpid() and not alive(pid)


def test_class_is_made_for_each_attempt_and_object_once(wired: Wired) -> None:
    with wired.subject("{python: 'my_agent:Talker'}") as subject:
        assert subject("one", wired.context(turns=("one", "two"))).response == "['one', 'two'] 2"
        assert subject("three", wired.context(2)).response == "['three'] 1"
    with wired.subject("{python: 'my_agent:talker'}") as subject:
        assert subject("one", wired.context()).response == "['one'] 1"
        assert subject("two", wired.context(2)).response == "['one', 'two'] 1"
    assert "has none of the methods __call__, run" in str(wired.ask("{python: 'my_agent:Mute'}").error)


@pytest.mark.parametrize(
    ("prompt", "ended_by", "error_type", "error"),
    [
        ("raise", "exception", "ConnectionError", "refused"),
        ("exit", "exception", "ProcessEnded", "its process ended with exit code 3"),
        ("object", "exception", "TypeError", "not JSON serializable"),
        ("sleep", "limit", "LimitReached", "no answer within 1 s"),
    ],
)
def test_callable_failure_is_crash_and_process_recovers(
    wired: Wired, prompt: str, ended_by: str, error_type: str, error: str
) -> None:
    with wired.subject("{python: 'my_agent:badly'}") as subject:
        pid = int(subject("hello", wired.context()).response)
        limit = {"attempt_time": 1} if ended_by == "limit" else {}  # others may need longer
        result = subject(prompt, wired.context(2, **limit))
        assert (result.ended_by, result.error_type) == (ended_by, error_type)
        assert error in str(result.error)
        assert result.error_class == (
            "network" if prompt == "raise" else "agent" if error_type != "LimitReached" else None
        )
        goes_on = prompt in ("raise", "object")
        assert alive(pid) == goes_on
        assert (int(subject("hello", wired.context(3)).response) == pid) == goes_on


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("my_agent:plian", "my_agent has no function plian; did you mean 'plain'"),
        ("no_agent:plain", "no_agent cannot be imported: ModuleNotFoundError: No module named 'no_agent'"),
        ("bad:plain", "bad cannot be imported: SyntaxError"),
        ("leaving:plain", "while it was imported it ended with exit code 4"),
    ],
)
def test_import_error_comes_before_start(wired: Wired, place: str, message: str) -> None:
    wired.file("bad.py", "def (")
    wired.file("leaving.py", "raise SystemExit(4)")
    with pytest.raises(SettingsError, match=message), wired.subject(f"{{python: '{place}'}}"):
        pass
