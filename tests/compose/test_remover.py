"""What a session started goes with it, also if it is killed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.compose.engine import PATIENCE_S, PROJECT, ROOT, docker

pytestmark = pytest.mark.compose

SESSION = """
import os, subprocess
from tests.compose.engine import PROJECT, base_images, docker, removed_with_this_process

project = f"{PROJECT}killed-{os.getpid()}"
with removed_with_this_process():
    docker("run", "-d", "--label", f"com.docker.compose.project={project}", base_images()[0], "sleep", "900")
    command = subprocess.Popen(["sleep", "900"], env={**os.environ, "COMPOSE_PROJECT_NAME": project})
    print("started", flush=True)
    command.wait()
"""


def test_killed_session_leaves_neither_commands_nor_containers(engine: None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SESSION], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as session:
        assert session.stdout and session.stdout.readline() == "started\n"
        session.kill()
        session.communicate(timeout=PATIENCE_S)  # until its command has ended, too, and the remover
    project = f"{PROJECT}killed-{session.pid}"
    assert docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={project}") == ""
