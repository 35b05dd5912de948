"""A lab that stays up: ``wirefault lab up|down|status``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.lab.demos import SELDOM, environ_in, processes
from tests.support import ROOT, RUN_PATIENCE_S, until
from wirefault.core.files import private_file
from wirefault.core.lab_folder import (
    LabIsUp,
    hold_lab_lock,
    is_lab_up,
    read_lab_record,
    remove_lab_record,
    write_lab_record,
)
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.wiring.topology import Topology, default_topology


class Folder:
    """A folder that a lab may be up in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path / "state"
        self.environ = environ_in(
            path,
            STATE_DB=str(self.state / "state.db"),
            EFFECTS_DB=str(self.state / "effects.db"),
            LOGS_DIR=str(path / "logs"),
            TOXIC_PROB="0",
            ERROR_PROB="0",
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=self.environ, cwd=ROOT, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )

    def lab(self, word: str, code: int = 0) -> str:
        return self.wirefault("lab", word, code=code)

    def wirefault(self, *words: str, code: int = 0) -> str:
        if words == ("lab", "up"):  # its launcher is a child that outlives this call
            with self.start("wirefault", *words) as process:
                output, _ = process.communicate(timeout=RUN_PATIENCE_S)
            ended = process.returncode
        else:
            done = wirefault(ROOT, self.environ, *words)
            output, ended = done.stdout + done.stderr, done.returncode
        assert ended == code, output
        assert "Traceback" not in output
        return output

    @property
    def toxiproxy(self) -> str:
        return Topology.load(Path(self.file()["topology"])).toxiproxy

    def file(self) -> dict:
        return read_lab_record(self.state) or {}

    def kill(self, part: str) -> int:
        pid = processes(self.path)[part]
        os.kill(pid, signal.SIGKILL)
        return pid

    def await_end(self) -> None:
        until(lambda: not processes(self.path), "the end of all processes", **SELDOM)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    folder = Folder(tmp_path)
    yield folder
    left = processes(tmp_path)
    for pid in left.values():
        os.kill(pid, signal.SIGKILL)
    assert left == {}


def test_only_one_of_two_concurrent_ups_starts(folder: Folder) -> None:
    calls = [folder.start("wirefault", "lab", "up") for _ in range(2)]
    outputs = sorted(call.communicate(timeout=RUN_PATIENCE_S)[0] for call in calls)
    assert sorted(call.returncode for call in calls) == [0, 70], outputs
    assert outputs[0].startswith("a lab is up") and outputs[1].startswith("the lab is up")
    status = folder.lab("status")
    assert folder.file()["lab_id"] in status and '"ready": true' in status and "gateway" in status
    assert "a lab is up" in folder.lab("up", code=70)

    assert "configuration 1: faults of light" in folder.wirefault("faults", "set", "light")
    assert "configuration 1: faults of light" in folder.wirefault("faults", "status")

    with ToxiproxyClient(folder.toxiproxy) as client:
        client.add_toxic("search_proxy", "left", "latency", "upstream", {"latency": 5})
        first = folder.kill("manager")
        until(lambda: processes(folder.path).get("manager", first) != first, "a successor", **SELDOM)
        until(lambda: not client.proxy("search_proxy").toxics, "healed", **SELDOM)
        until(lambda: folder.file()["processes"]["manager"] != first, "published", **SELDOM)

    prompts = folder.path / "prompts.json"
    prompts.write_text(json.dumps([{"prompt": "What is the temperature in Paris right now?"}]))
    with folder.start("agent", "--prompts", str(prompts)) as agent:
        output, _ = agent.communicate(timeout=RUN_PATIENCE_S)
    assert agent.returncode == 0, output
    assert "the lab's faults are in force: light (configuration 1)" in output
    assert "configuration 2: no faults" in folder.wirefault("faults", "clear")

    assert "is down" in folder.lab("down")
    folder.await_end()  # the launcher releases its lock a moment before its process ends
    assert folder.file() == {} and not private_file(folder.state, ".lock").exists()
    assert folder.lab("down") == "no lab is up\n"
    assert "no lab is up" in folder.lab("status", code=70)


def test_lab_of_killed_launcher_is_down_and_can_restart(folder: Folder) -> None:
    output = folder.lab("up")
    assert "agent dials" in output and folder.toxiproxy in output
    folder.kill("launcher")
    folder.await_end()
    assert folder.lab("down") == "no lab is up\n"
    folder.lab("up")
    folder.kill("gateway")  # an irreplaceable part takes the lab down
    folder.await_end()
    assert "gateway was killed by signal 9" in (folder.path / "logs/lab/launcher.log").read_text()
    assert "no lab is up" in folder.lab("status", code=70)


def test_lab_with_a_stopped_part_is_not_ready(folder: Folder) -> None:
    folder.lab("up")
    assert '"ready": true' in folder.lab("status")
    parts = {"gateway": "the gateway at ", "tools": "the service of ", "toxiproxy": "Toxiproxy"}
    for part, words in parts.items():
        pid = processes(folder.path)[part]
        os.kill(pid, signal.SIGSTOP)
        try:
            status = folder.lab("status", code=70)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert '"ready": false' in status and words in status.partition('"error": ')[2].splitlines()[0]
    folder.lab("down")
    folder.await_end()


def test_interrupted_start_stays_down(folder: Folder) -> None:
    call = folder.start("wirefault", "lab", "up")
    until(lambda: "launcher" in processes(folder.path), "a start", **SELDOM)
    call.send_signal(signal.SIGINT)
    output, _ = call.communicate(timeout=RUN_PATIENCE_S)
    assert (call.returncode, output) == (130, "interrupted; no lab is up\n")
    folder.await_end()


@pytest.mark.parametrize("pid", [os.getpid(), 2**22 + 1, "nonsense"], ids=["ours", "nobody", "nonsense"])
def test_stale_launcher_file_is_ignored(folder: Folder, pid: object) -> None:
    write_lab_record(
        folder.state, {"pid": pid, "identity": "", "lab_id": "lab-1", "topology": "nowhere.json"}
    )
    assert folder.lab("down") == "no lab is up\n"  # and this process lives on


def test_other_process_is_not_signalled(folder: Folder) -> None:
    topology = folder.path / "topology.json"
    default_topology("lab-1").dump(topology)
    record = {"pid": os.getpid(), "identity": "1 0 1 another", "lab_id": "lab-1", "topology": str(topology)}
    with hold_lab_lock(folder.state):
        write_lab_record(folder.state, record)
        output = folder.lab("down", code=70)  # and this process lives on
    remove_lab_record(folder.state)
    assert "is not the launcher of lab lab-1" in output


def test_lock_has_one_holder(tmp_path: Path) -> None:
    assert not is_lab_up(tmp_path)
    with hold_lab_lock(tmp_path):
        assert is_lab_up(tmp_path)
        with pytest.raises(LabIsUp, match="a lab is up"), hold_lab_lock(tmp_path):
            pass
    assert not is_lab_up(tmp_path)
