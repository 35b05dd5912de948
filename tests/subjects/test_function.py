"""Functions that exceed their time: interrupted, or left behind without harm to other attempts."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.subjects.wired import Wired
from tests.upstream import FREE
from wirefault.core.sockets import Address, bind, bound_address
from wirefault.subjects import function as subjects
from wirefault.subjects.function import FunctionSubject
from wirefault.subjects.subject import LabFailed
from wirefault.subjects.taps.tap import NO_TAP
from wirefault.subjects.taps.this_process import Interception, ThisProcessTap


@pytest.fixture(autouse=True)
def short_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "_END_BOUND_S", 0.3)


class Attempts:
    """Attempts of one function, a tenth of a second each."""

    def __init__(self, folder: Path, function: Any, **options: Any) -> None:
        self._wired = Wired(folder)
        self.subject = FunctionSubject(function, **options)

    def __call__(self, prompt: str) -> str:
        """How the attempt ended, with its answer."""
        result = self.subject(prompt, self._wired.context(attempt_time=0.1))
        return f"{result.ended_by}: {result.response}".removesuffix(": ")


def test_function_that_computes_is_interrupted(tmp_path: Path) -> None:
    threads = []

    def agent(prompt: str) -> str:
        threads.append(threading.get_ident())
        while prompt == "for ever":
            with suppress(Exception):  # an agent that survives every error
                len(prompt)
        return "done"

    attempts = Attempts(tmp_path, agent)
    assert [attempts(prompt) for prompt in ("for ever", "once", "for ever", "once")] == [
        *("limit", "text: done") * 2
    ]
    assert len(set(threads)) == 1


_PROFILED = """
import sys, threading
from wirefault.subjects.function import _Thread

inside, thread = threading.Event(), _Thread()

def wait():
    inside.set()
    threading.Event().wait()

thread.begin(wait)
inside.wait()
thread.interrupt_function()
sys.setprofile(lambda *_: None)
(lambda: None)()
sys.setprofile(None)
print("went on")
"""


@pytest.mark.slow
def test_interrupting_a_waiting_function_leaves_profilers_alone() -> None:
    done = subprocess.run([sys.executable, "-c", _PROFILED], capture_output=True, text=True, timeout=30)
    assert done.stdout == "went on\n", done.stderr


@pytest.fixture
def silent() -> Iterator[Address]:
    """A server that accepts and never answers."""
    with bind(FREE) as listener:
        yield bound_address(listener)


def test_function_that_waits_for_reply_ends_and_calls_no_more(tmp_path: Path, silent: Address) -> None:
    interception = Interception(
        silent,
        "",
        NO_TAP,
        proxies=[],
        is_of_lab=lambda _: False,
        may_pass=lambda _: False,
        answers_for=lambda _: True,
    )
    calls = []

    def agent(prompt: str) -> str:
        for _ in range(2):
            calls.append(prompt)
            with socket.create_connection(("shop.example", 80)) as connection, suppress(OSError):
                connection.recv(1)
        return "done"

    attempts = Attempts(tmp_path, agent, tap=ThisProcessTap({}, interception))
    assert attempts("order") == "limit"
    assert calls == ["order"]
    assert attempts("order again") == "limit"  # the first one does not make it invalid


def test_function_that_waits_for_lock_disturbs_only_attempts_that_it_meets(tmp_path: Path) -> None:
    lock, returned = threading.Lock(), threading.Event()

    def agent(prompt: str) -> str:
        try:
            if prompt == "wait":
                lock.acquire()
            if prompt == "release":
                lock.release()
                returned.wait(10)
        finally:
            if prompt == "wait":
                returned.set()
        return "done"

    attempts = Attempts(tmp_path, agent)
    lock.acquire()
    assert attempts("wait") == "limit"
    assert attempts("once") == "text: done"
    with pytest.raises(LabFailed, match="still hangs in an earlier attempt, which may be why"):
        attempts("wait")
    with pytest.raises(LabFailed, match="returned from an earlier attempt during this one"):
        attempts("release")


def test_coroutine_that_ignores_its_cancellation_is_frozen(tmp_path: Path) -> None:
    rounds = []

    async def agent(prompt: str) -> str:
        while prompt == "for ever":
            with suppress(asyncio.CancelledError):
                rounds.append(prompt)
                await asyncio.sleep(0.01)
        return "done"

    attempts = Attempts(tmp_path, agent)
    assert attempts("for ever") == "limit"
    count = len(rounds)
    assert attempts("once") == "text: done"
    assert len(rounds) == count


def test_coroutine_of_callers_loop_is_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        ignored, over = asyncio.Event(), asyncio.Event()

        async def agent(prompt: str) -> str:
            while prompt == "wait" and not over.is_set():
                with suppress(asyncio.CancelledError):
                    await over.wait()
                ignored.set()
            return "done"

        attempts = Attempts(tmp_path, agent, loop=asyncio.get_running_loop())
        assert await asyncio.to_thread(attempts, "wait") == "limit"
        assert ignored.is_set()
        with pytest.raises(LabFailed, match="runs although it was cancelled"):
            await asyncio.to_thread(attempts, "once")
        over.set()
        assert await asyncio.to_thread(_answered, attempts) == "text: done"

    asyncio.run(main())


def _answered(attempts: Attempts) -> str:
    """The end of the first attempt that is valid again."""
    while True:
        with suppress(LabFailed):
            return attempts("once")
