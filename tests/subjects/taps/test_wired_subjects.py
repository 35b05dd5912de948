"""Wired subjects of each kind behind each tap; nothing remains after the run."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.taps.tapped import behind
from tests.subjects.wired import Wired, alive, pid_in
from tests.support import until
from tests.upstream import FREE
from wirefault.core.files import private_folder
from wirefault.core.sockets import bind, bound_address
from wirefault.subjects.subject import LabFailed

pytestmark = pytest.mark.slow

ANSWER = {"way": "https", "host": "api.example.com", "port": 443}
GET = "import urllib.request\nget = lambda: urllib.request.urlopen('https://api.example.com/').read().decode()\n"
SERVICE = f"""{GET}
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = self.rfile.read(int(self.headers["content-length"]))
        if b"die" in asked:
            os.kill(os.getpid(), 9)
        answer = get().encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
WORK = "echo $$ > main; setsid sh -c 'echo $$ > daemon; exec sleep 600' & exec sleep 600"
RUNNER = """
import sys
from pathlib import Path
from tests.subjects.taps.tapped import behind
from wirefault.core.sockets import Address
folder, ingress, topology, yaml = sys.argv[1:]
with behind(Address.parse(ingress), Path(topology), Path(folder)).opened(yaml) as subject:
    subject("", behind(Address.parse(ingress), Path(topology), Path(folder)).context())
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))


@pytest.fixture(params=["namespace", "proxy"])
def tap(request: pytest.FixtureRequest) -> str:
    if request.param == "namespace":
        request.getfixturevalue("namespaces")
    return request.param


@pytest.fixture
def wired(tmp_path: Path, ingress: AnsweringIngress) -> Wired:
    return behind(ingress.address, ingress.topology, tmp_path)


def yaml(subject: object, tap: str) -> str:
    return json.dumps({"intercept": {"tap": tap}, "subject": subject})


def test_command_behind_tap(wired: Wired, tap: str) -> None:
    with wired.opened(yaml({"command": [sys.executable, "-c", GET + "print(get())"]}, tap)) as subject:
        assert json.loads(subject("", wired.context()).response) == ANSWER
        assert ("info", f"tap: {tap}") in subject.notes


def test_tap_failure_is_lab_failure(wired: Wired, namespaces: None) -> None:
    with wired.opened(yaml({"command": ["sh", "-c", "exit 126"]}, "namespace")) as subject:
        assert subject("", wired.context()).error_type == "ExitCode"
        [setup] = private_folder().glob("tap-*/namespace.json")
        setup.unlink()
        with pytest.raises(LabFailed, match="the command could not be started: the namespace tap: No such"):
            subject("", wired.context(2))


def test_python_subject_behind_tap(wired: Wired, tap: str) -> None:
    wired.file("agent.py", GET + "def ask(prompt): return get()")
    with wired.opened(yaml({"python": "agent:ask"}, tap)) as subject:
        for attempt in (1, 2):
            assert json.loads(subject("", wired.context(attempt)).response) == ANSWER


def test_service_behind_tap_is_restarted(wired: Wired, tap: str) -> None:
    wired.file("agent.py", SERVICE)
    with bind(FREE) as listener:
        port = bound_address(listener).port
    url = f"http://127.0.0.1:{port}/"
    with wired.opened(yaml({"service": [sys.executable, "agent.py", str(port)], "url": url}, tap)) as subject:
        assert json.loads(subject("", wired.context()).response) == ANSWER
        assert subject("die", wired.context(2)).error_type == "ServiceEnded"
        assert json.loads(subject("", wired.context(3)).response) == ANSWER


@pytest.fixture
def runner(tmp_path: Path, ingress: AnsweringIngress, namespaces: None) -> Iterator[int]:
    """A process that runs a working command in a namespace."""
    text = yaml({"command": ["sh", "-c", WORK], "folder": "."}, "namespace")
    words = [sys.executable, "-c", RUNNER, str(tmp_path), str(ingress.address), str(ingress.topology), text]
    runner = os.spawnv(os.P_NOWAIT, sys.executable, words)
    pids = [runner]
    try:
        pids += [pid_in(tmp_path / name) for name in ("main", "daemon")]
        yield runner
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(runner, 0)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("killed", ["runner", "subject"])
def test_namespace_ends_with_killed_process(tmp_path: Path, runner: int, killed: str) -> None:
    [reaper] = children(runner)
    until(lambda: len(children(reaper)) == 2, "the subject and the helper")
    pids = [*children(reaper), pid_in(tmp_path / "daemon")]
    os.kill(runner if killed == "runner" else pid_in(tmp_path / "main"), signal.SIGKILL)
    until(lambda: not any(map(alive, pids)))


def test_command_and_helper_end_with_reaper(tmp_path: Path, runner: int) -> None:
    [reaper] = children(runner)
    until(lambda: len(children(reaper)) == 2, "the subject and the helper")
    pids = children(reaper)
    os.kill(reaper, signal.SIGKILL)
    until(lambda: not any(map(alive, pids)))
