"""An agent that runs already, is just starting, or is killed and resumed by commands of its user."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support import PATIENCE_S, until
from wirefault.core.identity import Identity
from wirefault.core.sockets import Address, bound_address
from wirefault.history.events import Event, SubjectKilled, SubjectResumed
from wirefault.settings.settings import SettingsError
from wirefault.state.state import State
from wirefault.state.tables import KillOrder
from wirefault.subjects.http_agent import running_agent
from wirefault.subjects.killing import LabFailed, SubjectKills
from wirefault.subjects.surroundings import Surroundings
from wirefault.wiring.subject_spec import HttpSpec

HERE = Surroundings("wirefault.yaml", Path(), Path("logs"), {}, {}, str)


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """A port that opens on request."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener


def spec(at: Address, **fields: float) -> HttpSpec:
    return HttpSpec(http=f"{at.url}/ask", **fields)


def test_starting_agent_is_awaited(bound: socket.socket) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        bound.listen()

    agent = running_agent(spec(bound_address(bound), ready_within=30), HERE, lambda: 0.0, sleep)
    assert agent.kind == "http" and len(slept) == 1


def test_late_agent_is_error(bound: socket.socket) -> None:
    seconds = map(float, count(0, 10))
    with pytest.raises(SettingsError, match=r"subject.http: no server listens there within 30 s"):
        running_agent(
            spec(bound_address(bound), ready_within=30), HERE, lambda: next(seconds), lambda _: None
        )


def test_agent_without_ready_timeout_is_not_awaited(bound: socket.socket) -> None:
    def sleep(_: float) -> None:
        raise AssertionError("nothing is waited for")

    assert running_agent(spec(bound_address(bound)), HERE, sleep=sleep).kind == "http"


STUCK_ONCE = """
import os, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

class Agent(BaseHTTPRequestHandler):
    def do_POST(self):
        Path("asked").open("a").write("x")
        if Path("asked").stat().st_size == 1:
            time.sleep(600)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")

server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Agent)
Path("pid").write_text(str(os.getpid()))
server.serve_forever()
"""
KILL = ["sh", "-c", "kill -$0 $(cat pid)", "{signal}"]


class Killed:
    """An agent that runs elsewhere and whose first request is killed; the gateway is rows of ``state.db``."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.open: Callable[[], State] = partial(State, folder / "state.db")
        self.events: list[Event] = []
        (folder / "agent.py").write_text(STUCK_ONCE)

    def ask(self, kill: list[str], signal: str = "kill") -> str:
        start = f"{sys.executable} agent.py {self.port} >/dev/null 2>&1 &"
        spec = HttpSpec(http=f"http://127.0.0.1:{self.port}/", kill=kill, resume=["sh", "-c", start])
        environ = dict(os.environ)
        agent = running_agent(spec, Surroundings("w.yaml", self.folder, self.folder, environ, {}, str))
        identity = Identity("run", "tea", 1)
        kills = SubjectKills(self.open, identity, self.events.append)
        context = SimpleNamespace(
            kills=kills, identity=identity, settings=SimpleNamespace(attempt_time=PATIENCE_S), turns=()
        )
        context.begin_turn, context.make_turn, context.budget_spent = lambda *_: None, None, str
        context.elapsed = 0.0
        gateway = Thread(target=self._gateway, args=(signal,))
        gateway.start()
        try:
            return agent("tea", cast(Any, context)).response
        finally:
            gateway.join(PATIENCE_S)

    def _gateway(self, kind: Any) -> None:
        order = KillOrder("run", "tea", 1, 1, "shop", "crash", "before_reply", kind, 5, 0)
        until((self.folder / "asked").exists, "the agent to be asked")
        with self.open() as state:
            state.kills.add(order)
            until(lambda: self._state(state) != "wanted", "the kill")
            if self._state(state) == "dead":
                [row] = [state.kills.last("run", "tea", 1)]
                assert row is not None and state.kills.move(row, "closed")

    def _state(self, state: State) -> str:
        row = state.kills.last("run", "tea", 1)
        assert row is not None
        return row.state

    def end(self) -> None:
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)


@pytest.fixture
def killed(bound: socket.socket, tmp_path: Path) -> Iterator[Killed]:
    port = bound_address(bound).port
    bound.close()
    killed = Killed(tmp_path, port)
    yield killed
    killed.end()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kill", "term"])
def test_agent_elsewhere_is_killed_and_asked_again(killed: Killed, kind: str) -> None:
    """The resuming command also starts it at the beginning, since nothing listens there."""
    assert killed.ask(KILL, kind) == "done"
    assert [type(event) for event in killed.events] == [SubjectKilled, SubjectResumed]
    assert (killed.folder / "asked").read_text() == "xx"


@pytest.mark.slow
def test_failed_kill_command_is_failure_of_lab_in_one_line(killed: Killed) -> None:
    kill = ["sh", "-c", "kill $(cat pid); echo first; echo no such container: agent >&2; exit 3"]
    message = "kill_subject: subject.kill: .*sh: exit code 3: no such container: agent"
    with pytest.raises(LabFailed, match=f"^{message}$"):
        killed.ask(kill)
    assert not any(isinstance(event, SubjectResumed) for event in killed.events)
