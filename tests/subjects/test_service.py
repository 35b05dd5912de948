"""Long-lived subjects called over HTTP, started by the run or independently."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.wired import Wired, alive, pid_in
from tests.support import until
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.settings.settings import SettingsError

pytestmark = pytest.mark.slow

SERVICE = """
import os, sys, time
from collections import Counter
from flask import Flask, request

app = Flask("agent")
turns = Counter()
with open("pid", "w") as file:
    file.write(str(os.getpid()))

@app.get("/health")
def health():
    return "", 204 if os.path.exists("pid") else 503

@app.post("/ask")
def ask():
    asked = request.get_json()
    turns[asked.get("session")] += 1
    print("asked:", asked["question"], flush=True)
    if asked["question"] == "die":
        os.kill(os.getpid(), 9)
    if asked["question"] == "sleep":
        time.sleep(600)
    if asked["question"] == "drip":
        return (part for part in iter(lambda: time.sleep(0.05) or " ", None))
    if asked["question"] == "fail":
        return "no such city", 500
    n = turns[asked.get("session")]
    identity = request.headers["baggage"]
    return {"data": [{"text": f"{asked['question']} ({n})"}, identity, os.environ["SHOP_URL"]]}

app.run(port=int(sys.argv[1]))
"""


@pytest.fixture
def wired(tmp_path: Path) -> Wired:
    wired = Wired(tmp_path)
    wired.file("agent.py", SERVICE)
    return wired


@pytest.fixture
def port() -> Iterator[int]:
    """A free port that the next FREE does not get."""
    with bind(FREE) as listener:
        free = bound_address(listener).port
    yield free


def service(port: int, **more: object) -> str:
    return json.dumps(
        {
            "service": [sys.executable, "agent.py", str(port)],
            "url": f"http://127.0.0.1:{port}/ask",
            "json": {"question": "{prompt}", "session": "{conversation}"},
            "answer": "data.0.text",
            **more,
        }
    )


def test_service_answers_each_prompt(wired: Wired, port: int) -> None:
    with wired.subject(service(port, ready=f"http://127.0.0.1:{port}/health")) as subject:
        pid = pid_in(wired.folder / "pid")
        for attempt in (1, 2):
            result = subject(f"prompt {attempt}", wired.context(attempt))
            assert (result.ended_by, result.response) == ("text", f"prompt {attempt} (1)"), result
            assert f"asked: prompt {attempt}\n" in wired.attempt_file("stdout.txt", attempt)
        assert pid_in(wired.folder / "pid") == pid and alive(pid)
    assert not alive(pid)


def test_callable_gets_links_and_attempt(wired: Wired, port: int) -> None:
    for place, message in ((1, "wirefault.attempt=1"), (2, "http://127.0.0.1:6001/v2")):
        assert message in wired.ask(service(port, answer=f"data.{place}")).response


@pytest.mark.parametrize(
    ("prompt", "error_type", "error"),
    [
        ("fail", "NoAnswer", "it answered with status 500: no such city"),
        ("die", "ServiceEnded", "in this attempt it was killed by signal 9"),
    ],
)
def test_service_failure_is_crash_and_service_recovers(
    wired: Wired, port: int, prompt: str, error_type: str, error: str
) -> None:
    with wired.subject(service(port)) as subject:
        result = subject(prompt, wired.context())
        assert (result.ended_by, result.error_type) == ("exception", error_type)
        assert error in str(result.error)
        assert subject("hello", wired.context(2)).response == "hello (1)"


@pytest.mark.parametrize("prompt", ["sleep", "drip"])
def test_slow_attempt_does_not_continue_into_next(wired: Wired, port: int, prompt: str) -> None:
    with wired.subject(service(port)) as subject:
        pid = pid_in(wired.folder / "pid")
        assert subject(prompt, wired.context(attempt_time=1)).ended_by == "limit"
        assert not alive(pid)
        assert subject("hello", wired.context(2)).response == "hello (1)"


def test_service_restarts_after_death_between_attempts(wired: Wired, port: int) -> None:
    with wired.subject(service(port)) as subject:
        pid = pid_in(wired.folder / "pid")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
        result = subject("hello", wired.context())
        assert (result.ended_by, result.error_type) == ("exception", "ServiceEnded")
        assert "this attempt it was killed by signal 9" in str(result.error)
        assert subject("hello", wired.context(2)).response == "hello (1)"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"service": [sys.executable, "-c", "1/0"]}, "subject.service: it ended with exit code 1: "),
        ({"service": ["sleep", "600"], "ready_within": 0.2}, "subject.url: it was not ready within 0.2 s"),
        ({"service": ["no-such-program"]}, "subject.service: missing program 'no-such-program'"),
    ],
)
def test_not_ready_is_reported(wired: Wired, port: int, more: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)), wired.subject(service(port, **more)):
        pass


def test_foreign_server_on_port_is_error(wired: Wired) -> None:
    with bind(FREE) as other:
        taken = bound_address(other).port
        refused = pytest.raises(SettingsError, match="another program listens there")
        with refused, wired.subject(service(taken)):
            pass


def test_remote_agent_gets_headers_from_environment(wired: Wired, port: int) -> None:
    wired.environ["AGENT_TOKEN"] = "123"
    request = {
        "http": f"http://localhost:{port}/ask",
        "json": {"question": "{prompt}"},
        "headers": {"Authorization": "Bearer ${AGENT_TOKEN}"},
        "answer": "data.0.text",
    }
    refused = wired.ask(json.dumps(request))
    assert (refused.ended_by, refused.error_type) == ("exception", "NoReply")
    with wired.subject(service(port)):
        assert wired.ask(json.dumps(request), "hello").response == "hello (1)"
    del wired.environ["AGENT_TOKEN"]
    with pytest.raises(SettingsError, match=r"headers\.Authorization: the variable AGENT_TOKEN is not set"):
        wired.ask(json.dumps(request))


def test_conversation_keeps_its_id(wired: Wired, port: int) -> None:
    with wired.subject(service(port)) as subject:
        context = wired.context(turns=("one", "two"))
        result = subject("one", context)
        assert (result.response, result.answers) == ("two (2)", ("one (1)", "two (2)"))
        assert subject("one", wired.context(2)).response == "one (1)"
