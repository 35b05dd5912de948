"""``proxy_manager`` as a process: how it starts, ends and is followed by another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from tests.gateway.lab import TOKEN
from tests.proxy_manager.rig import ARMED, PLAN, Plane, taken
from tests.proxy_manager.test_loop import beating
from tests.shared_imports import fork
from tests.support import PATIENCE_S, until
from tests.upstream import FREE
from wirefault.core.control_access import TOKEN_FILE
from wirefault.core.files import make_private_folder
from wirefault.core.processes import LIFELINE_VARIABLE, TOPOLOGY_VARIABLE
from wirefault.core.sockets import SOCKETS_VARIABLE, bind, bound_address
from wirefault.core.spans import Span
from wirefault.lab.process import ProcessLog, python, start
from wirefault.state.state_files import RunLock
from wirefault.state.tables import HeldCall
from wirefault.wiring.topology import Topology

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "proxy_manager"]


class Manager:
    """A manager process; ``lifeline`` is the launcher's end of its pipe."""

    def __init__(self, plane: Plane) -> None:
        listener = bind(FREE)
        self.topology = replace(plane.topology, manager=bound_address(listener))
        self.path = plane.folder / "topology.json"
        self.topology.dump(self.path)
        reading, self.lifeline = os.pipe()
        environ = {
            **environ_of(plane.folder),
            SOCKETS_VARIABLE: json.dumps({"manager": listener.fileno()}),
            LIFELINE_VARIABLE: str(reading),
        }
        (plane.folder / "token").write_text(TOKEN)
        handed, log = [reading, listener.fileno()], ProcessLog(plane.folder, plane.folder / "manager.log")
        self._process = start("manager", python("proxy_manager"), environ, handed, log, fork)
        os.close(reading)
        listener.close()

    def send_signal(self, number: signal.Signals) -> None:
        self._process.signal(number)

    def exit_code(self) -> int | None:
        """None if it does not end."""
        self._process.wait(PATIENCE_S)
        return self._process.poll()

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self._process.stop()

    def get(self, path: str) -> requests.Response:
        return requests.get(self.topology.manager.url + path, timeout=PATIENCE_S)

    def await_ready(self) -> None:
        until(lambda: self.get("/ready").status_code == 200, "ready")


def environ_of(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        TOPOLOGY_VARIABLE: str(folder / "topology.json"),
        "STATE_DB": str(folder / "state.db"),
        "LOGS_DIR": str(folder / "logs"),
        TOKEN_FILE: str(folder / "token"),
    }


@contextmanager
def manager(plane: Plane) -> Iterator[Manager]:
    running = Manager(plane)
    try:
        running.await_ready()
        yield running
    finally:
        running.kill()
        if running.lifeline >= 0:
            os.close(running.lifeline)


def armed(plane: Plane) -> int:
    plane.clock.now = time.time()
    with beating(plane):  # its run does not die before the manager, however busy, has come to arm it
        attempt_id = plane.request(PLAN, attempt=len(plane.state.open_attempts("lab", 0)) + 1)
        until(lambda: plane.attempt(attempt_id).state == "armed")
        assert plane.toxics() == ARMED
    return attempt_id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_in_attempt_heals_and_exits_0(plane: Plane, number: signal.Signals) -> None:
    with manager(plane) as running:
        armed(plane)
        running.send_signal(number)
        assert running.exit_code() == 0
    left = plane.client.proxies()
    assert not any(name.startswith(plane.topology.proxy_prefix) for name in left)  # the server is shared
    assert plane.state.toxics.left("lab", 0) == 0
    assert running.path.exists()


def test_launcher_end_cleans_up(plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    left = [make_private_folder() / name for name in ("lab-aaaaaa.owner", "lab-aaaaaa.json")]
    for path in left:
        path.touch()
    with manager(plane) as running:
        armed(plane)
        os.close(running.lifeline)
        running.lifeline = -1
        assert running.exit_code() == 0
    assert not any(path.exists() for path in left)
    assert not any(name.startswith(plane.topology.proxy_prefix) for name in plane.client.proxies())


def test_successor_heals_open_outage_of_killed_manager(plane: Plane) -> None:
    plane.clock.now = time.time()
    plane.run()
    outage = [replace(toxic, seconds=600.0) for toxic in PLAN]
    with beating(plane):
        with manager(plane) as first:
            attempt_id = plane.request(outage)
            until(lambda: plane.attempt(attempt_id).state == "armed")
            first.kill()
            assert plane.toxics() == ARMED
        with manager(plane):
            assert plane.toxics() == [] and plane.state.toxics.left("lab", 0) == 0
            plane.state.move_attempt(attempt_id, "armed", "finished", time.time())
            until(lambda: plane.attempt(attempt_id).state == "healed")
    assert plane.attempt(attempt_id).disturbed == ("the proxy manager restarted during the attempt",)


def test_successor_heals_started_outage_and_starts_none(plane: Plane) -> None:
    plane.clock.now = time.time()
    plane.run()
    down = replace(PLAN[2], during=Span(0.02, 600.0))
    third = replace(PLAN[1], during=Span(3.0, unit="calls"))
    with beating(plane):
        with manager(plane) as first:
            attempt_id = plane.request([down, third])
            until(lambda: plane.toxics() == [("weather", "down")])
            until(lambda: plane.history()[-1].action == "started")
            first.kill()
            plane.state.held_calls.add(HeldCall("run-1", "001", 1, "movie", 3))
            assert plane.toxics() == [("weather", "down")]
        with manager(plane):
            assert plane.toxics() == []
            until(lambda: plane.state.held_calls.of("run-1", "001", 1) == [], "the held call to go on")
            assert plane.toxics() == [] and plane.state.toxics.left("lab", 0) == 0
            plane.state.move_attempt(attempt_id, "armed", "finished", time.time())
            until(lambda: plane.attempt(attempt_id).state == "healed")
    assert plane.attempt(attempt_id).disturbed == ("the proxy manager restarted during the attempt",)
    assert [event.action for event in plane.history()] == ["armed", "started", "disturbed", "healed"]


def test_successor_heals_before_ready(plane: Plane) -> None:
    with manager(plane) as first:
        attempt_id = armed(plane)
        plane.state.move_run("run-1", "leased", "finished")
        first.kill()
        assert plane.toxics() == ARMED
    with manager(plane):
        assert plane.toxics() == [] and plane.state.toxics.left("lab", 0) == 0
        until(lambda: plane.attempt(attempt_id).state == "abandoned")


def test_heal_removes_proxies_when_manager_is_gone(plane: Plane) -> None:
    plane.proxies.ensure()
    plane.proxies.apply(PLAN)
    plane.topology.dump(plane.folder / "topology.json")
    done = subprocess.run([*COMMAND, "--heal"], env=environ_of(plane.folder), timeout=PATIENCE_S, check=False)
    assert done.returncode == 0
    assert not any(name.startswith(plane.topology.proxy_prefix) for name in plane.client.proxies())


def fails(topology: Topology, folder: Path, *arguments: str, **environ: str) -> str:
    topology.dump(folder / "topology.json")
    command = [*COMMAND, *arguments]
    done = subprocess.run(
        command,
        env=environ_of(folder) | environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    return done.stderr


def test_taken_port_is_one_line_error(plane: Plane) -> None:
    with taken() as listener:
        address = bound_address(listener)
        error = fails(replace(plane.topology, manager=address), plane.folder)
    assert error.endswith(f"proxy_manager: cannot listen on {address}: Address already in use\n")


def test_second_lab_with_same_name_and_folder_is_refused(plane: Plane) -> None:
    lab = plane.topology.lab_id
    first = RunLock(plane.folder, f"manager-{lab}-{plane.topology.lane}")
    assert first.take()
    error = fails(plane.topology, plane.folder, LAB_ID=lab)
    assert "another lab is up in this folder" in error
    first.free()


def test_bad_address_is_one_line_error(plane: Plane) -> None:
    topology = replace(plane.topology, toxiproxy="ftp://nowhere")
    assert "set TOXIPROXY_URL" in fails(topology, plane.folder)
    closed = bind(FREE)
    address = bound_address(closed)
    closed.close()
    topology = replace(plane.topology, toxiproxy=address.url)
    assert "could not heal: no Toxiproxy listens" in fails(topology, plane.folder, "--heal")
