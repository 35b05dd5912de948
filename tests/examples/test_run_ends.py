"""Runs whose subject, service or launcher is killed: one line reports it, and no process is left."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_process import CliProcess
from tests.conformance.servers import embedded_server
from tests.lab.demos import SELDOM, environ_in, processes
from tests.subjects.wired import alive, pid_in
from tests.support import free_port, until
from wirefault.toxiproxy.client import ToxiproxyClient

pytestmark = pytest.mark.slow

SERVICE = """
import os, sys, time
from flask import Flask

app = Flask("agent")

@app.post("/ask")
def ask():
    with open(sys.argv[2], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)

app.run(port=int(sys.argv[1]))
"""
TOXIC = ("--toxic-prob", "1", "--toxics", "latency:20", "--error-prob", "0", "--seed", "1")


@pytest.fixture
def server() -> Iterator[ToxiproxyClient]:
    """A shared Toxiproxy: what remains there is a leak."""
    with embedded_server() as url, ToxiproxyClient(url) as client:
        yield client


def subject(kind: str, folder: Path) -> dict[str, Any]:
    """One that writes its process id when it is asked, and then takes its time."""
    pid = str(folder / "pid")
    if kind == "command":
        return {"command": ["sh", "-c", f"echo $$ > {pid}; exec sleep 600"]}
    port = free_port()
    (folder / "service.py").write_text(SERVICE, encoding="utf-8")
    command = [sys.executable, "service.py", str(port), pid]
    return {"service": command, "url": f"http://127.0.0.1:{port}/ask"}


class OngoingRun:
    """A run during its subject's attempt; ``pid`` is the subject's process."""

    def __init__(self, kind: str, folder: Path, server: ToxiproxyClient) -> None:
        self.folder = folder
        self._server = server
        links = {"shop": {"upstream": "http://127.0.0.1:9"}}
        wiring = folder / "wirefault.yaml"
        wiring.write_text(json.dumps({"links": links, "subject": subject(kind, folder)}), encoding="utf-8")
        words = ("run", str(wiring), "--prompt", "Wait", "--no-charts", "--out", str(folder))
        self.process = CliProcess(folder, environ_in(folder), *words, "--toxiproxy", server.url, *TOXIC)
        self.pid = pid_in(folder / "pid")
        assert [proxy for proxy in server.proxies().values() if proxy.toxics]

    def output(self) -> str:
        """Return all its output once no process of it is left."""
        with self.process:
            self.process.wait()
            until(self._is_over, "the end of all processes", **SELDOM)
            output = self.process.output()
        until(lambda: not self._server.proxies(), "the end of its proxies", **SELDOM)
        assert "Traceback" not in output
        return output

    def _is_over(self) -> bool:
        return not processes(self.folder) and not alive(self.pid)


@pytest.mark.parametrize("kind", ["command", "service"])
def test_killed_subject_is_crash(tmp_path: Path, server: ToxiproxyClient, kind: str) -> None:
    ongoing = OngoingRun(kind, tmp_path, server)
    os.kill(ongoing.pid, signal.SIGKILL)
    output = ongoing.output()
    assert "1/1  crash" in output and output.count("was killed by signal 9") == 1
    assert ongoing.process.returncode == 2  # it made no request, so no fault was injected


@pytest.mark.parametrize("kind", ["command", "service"])
def test_killed_launcher_ends_everything(tmp_path: Path, server: ToxiproxyClient, kind: str) -> None:
    ongoing = OngoingRun(kind, tmp_path, server)
    ongoing.process.kill()
    assert "interrupted: the launcher was killed" in ongoing.output()
