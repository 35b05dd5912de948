"""The scripted model as a process: its sockets, its settings, its end."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
import requests

from wirefault.core.sockets import Address, bind, bound_address
from wirefault.wiring.links import SCRIPTED


@contextmanager
def process(**environ):
    child = subprocess.Popen(
        [sys.executable, "-m", "wirefault.model_server"],
        env={**os.environ, **environ},
        pass_fds=(),
        close_fds=False,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(5)


@pytest.mark.slow
def test_process_serves_inherited_socket_and_ends_with_launcher():
    listener = bind(Address("127.0.0.1", 0))
    reading, writing = os.pipe()
    for descriptor in (listener.fileno(), reading):
        os.set_inheritable(descriptor, True)
    environ = {
        "WIREFAULT_SOCKETS": json.dumps({SCRIPTED: listener.fileno()}),
        "WIREFAULT_LIFELINE": str(reading),
    }
    with listener, process(**environ) as child:
        assert requests.get(bound_address(listener).url, timeout=20).json() == {"status": "OK"}
        os.close(writing)
        assert child.wait(5) == 0
    os.close(reading)


def run(*arguments, **environ):
    return subprocess.run(
        [sys.executable, "-m", "wirefault.model_server", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=20,
    )


@pytest.mark.slow
def test_taken_port_is_reported_in_one_line(tmp_path):
    with bind(Address("127.0.0.1", 0)) as taken:
        code = (
            "import sys; from wirefault.wiring import topology as t; from dataclasses import replace; "
            "from pathlib import Path; base = t.default_topology('lab-x'); "
            "base.services['model'] = t.Address('127.0.0.1', int(sys.argv[1])); base.dump(Path(sys.argv[2]))"
        )
        path = tmp_path / "topology.json"
        subprocess.run([sys.executable, "-c", code, str(bound_address(taken).port), str(path)], check=True)
        done = run(WIREFAULT_TOPOLOGY=str(path))
    assert done.returncode == 1
    assert "cannot listen" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_unknown_persona_is_refused_at_start():
    done = run(PERSONA="sleeper")
    assert done.returncode == 64
    assert "sleeper" in done.stderr
    assert "quitter" in done.stderr


@pytest.mark.slow
def test_help_lists_settings():
    result = run("--help")
    assert result.returncode == 0
    assert all(part in result.stdout for part in ("5007", "PERSONA", "quitter", "PLAYBOOKS"))
    assert run("--persona").returncode == 64
