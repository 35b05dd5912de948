"""The recipes as an agent of another kind uses them: over HTTP, with requests, without the lab."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.support import Wire, http
from wirefault.recovery import (
    LoopBreaker,
    LoopDetected,
    NotVerified,
    argument_key,
    step_key,
    verify_after_write,
)

PAGE = Path("docs/recovery.md")
ORDER = {"item": "tea"}


@pytest.fixture
def snippets() -> dict[str, Any]:
    """The names that the page's Python examples define."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[:2]:
        exec(block, names)
    return names


@pytest.fixture
def shop() -> Iterator[Callable[..., Wire]]:
    """Starts shops that give each request its next answer."""
    started: list[Wire] = []

    def start(*answers: Any) -> Wire:
        started.append(Wire(*answers))
        return started[-1]

    yield start
    for server in started:
        server.close()


def close(connection: Any) -> None:
    connection.close()


def test_lost_reply_is_answered_by_reading(snippets: dict[str, Any], shop: Callable[..., Wire]) -> None:
    server = shop(close, http(200, [ORDER]))
    address = f"http://{server.address.host}:{server.address.port}"
    assert snippets["book"](address, "run-1", 1, ORDER) == ORDER
    assert [request.method for request in server.received] == ["POST", "GET"]


def test_unseen_write_is_repeated_with_the_same_key(
    snippets: dict[str, Any], shop: Callable[..., Wire]
) -> None:
    server = shop(close, http(200, []), http(201, ORDER))
    address = f"http://{server.address.host}:{server.address.port}"
    assert snippets["book"](address, "run-1", 1, ORDER) == ORDER
    first, _, second = (request.key for request in server.received)
    assert first == second == step_key("run-1", 1)


def test_write_that_the_state_never_shows_is_not_verified() -> None:
    slept: list[float] = []

    def lose() -> str:
        raise TimeoutError("lost")

    with pytest.raises(NotVerified) as error:
        verify_after_write(lose, lambda: None, TimeoutError, writes=2, reads=3, pause=0.5, sleep=slept.append)
    assert isinstance(error.value.__cause__, TimeoutError) and slept == [0.5] * 6


def test_other_errors_are_not_answered_by_reading() -> None:
    def refuse() -> str:
        raise PermissionError("no")

    with pytest.raises(PermissionError):
        verify_after_write(refuse, lambda: "there", TimeoutError)


def test_key_by_arguments_ignores_their_order_and_step() -> None:
    assert argument_key("r", "pay", {"a": 1, "b": 2}) == argument_key("r", "pay", {"b": 2, "a": 1})
    assert argument_key("r", "pay", {"sum": 1}) != argument_key("r", "pay", {"sum": 2})
    assert step_key("r", 1) != step_key("r", 2) and step_key("r", 1) != step_key("r", 1, 1)


def test_loop_of_equal_results_is_refused(snippets: dict[str, Any]) -> None:
    breaker, calls = LoopBreaker(repeats=2), []

    def status(job: int) -> str:
        calls.append(job)
        return "running"

    replies = [snippets["guarded"](breaker, "status", status, job=7) for _ in range(4)]
    assert calls == [7, 7] and replies[:2] == ["running", "running"]
    assert "status was called 2 times with the same arguments" in replies[3]


def test_progress_is_no_loop() -> None:
    breaker = LoopBreaker(repeats=2)
    for done in range(9):
        breaker.check("status", {"job": 7})
        breaker.record("status", {"job": 7}, f"{done} of 9")
    breaker.check("status", {"job": 8})


def test_call_in_progress_counts() -> None:
    breaker = LoopBreaker(repeats=1)
    breaker.check("pay", {})
    with pytest.raises(LoopDetected):
        breaker.check("pay", {})


@pytest.mark.slow  # a process
def test_recipes_need_no_package_of_the_lab() -> None:
    lab = ["langchain", "langgraph", "flask", "groq", "pybreaker", "tenacity", "wirefault.lab"]
    code = f"import sys, wirefault.recovery; print([name for name in {lab} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
