"""The Docker engine of this machine, and leftovers of test sessions on it.

``python -m tests.compose.engine SESSION`` removes those of one session, by its process id, once its standard
input ends.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.support import ROOT

# then a name and "-", and the process id of the session, without which other sessions take it for an orphan
PROJECT = "wirefault-test-"
_VARIABLE = f"COMPOSE_PROJECT_NAME={PROJECT}"
IMAGE = "wirefault-under-test"
V1, V2 = ("docker-compose",), ("docker", "compose")
# how long one command of the engine may take on a busy machine, and a build that fetches its packages
PATIENCE_S = 600.0
BUILD_PATIENCE_S = 1800.0


def docker(*arguments: str, check: bool = True) -> str:
    """Its standard output."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    assert not check or done.returncode == 0, f"docker {arguments}: {done.stderr}"
    return done.stdout.strip()


def works(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, timeout=BUILD_PATIENCE_S).returncode == 0


@cache
def has(generation: tuple[str, ...]) -> bool:
    return shutil.which(generation[0]) is not None and works(*generation, "version")


def why_not() -> str:
    """Why the Compose lab cannot run on this machine; empty if it can."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    if not works("docker", "info"):
        return "no Docker engine answers (docker info)"
    if not has(V2) and not has(V1):
        return "there is no Docker Compose"
    for image in base_images():
        if not works("docker", "image", "inspect", image) and not works("docker", "pull", image):
            return f"{image} is not here and cannot be pulled (.ci/images.sh makes a stand-in)"
    return ""


def remove(project: str) -> None:
    """Containers, networks and volumes of the project, without Compose."""
    label = ("--filter", f"label=com.docker.compose.project={project}")
    if left := docker("ps", "-aq", *label).split():
        docker("rm", "-f", "-v", *left, check=False)
    for kind in ("network", "volume"):
        if left := docker(kind, "ls", "-q", *label).split():
            docker(kind, "rm", *left, check=False)


def _projects() -> set[str]:
    """The projects of test sessions that have containers."""
    listed = docker("ps", "-a", "--format", '{{.Label "com.docker.compose.project"}}').split()
    return {name for name in listed if name.startswith(PROJECT)}


def remove_orphans() -> None:
    """Leftovers of test sessions whose remover was killed, too."""
    for project in _projects():
        if not Path(f"/proc/{project.rpartition('-')[2]}").exists():
            remove(project)


@contextmanager
def removed_with_this_process() -> Iterator[None]:
    """Have everything of this session removed when this process ends, however it ends.

    After Ctrl-C, pytest-xdist gives the fixtures of a worker ten seconds. Fifteen containers take longer.
    """
    words = [sys.executable, "-m", "tests.compose.engine", str(os.getpid())]
    remover = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        remover.communicate()


def remove_session(session: str) -> None:
    """Kill the Compose commands of a session that ended, which may still start containers; remove these."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            variables = (folder / "environ").read_text("latin-1").split("\0")
            if any(each.startswith(_VARIABLE) and each.endswith(f"-{session}") for each in variables):
                os.kill(int(folder.name), signal.SIGKILL)
    while projects := {name for name in _projects() if name.endswith(f"-{session}")}:
        for project in projects:
            remove(project)


def base_images() -> list[str]:
    dockerfile, compose = ((ROOT / name).read_text() for name in ("Dockerfile", "docker-compose.yaml"))
    return [
        *re.findall(r"^FROM (\S+:\S+)", dockerfile, flags=re.MULTILINE)[:1],
        *re.findall(r"^ *image: (\S+/toxiproxy:\S+)", compose, flags=re.MULTILINE)[:1],
    ]


def forget_image(image: str) -> None:
    """So that Compose builds it again; the last one's layers stay, for the builder."""
    if docker("image", "ls", "-q", image):
        docker("tag", image, f"{image}:previous", check=False)
        docker("rmi", image, check=False)


if __name__ == "__main__":
    sys.stdin.read()
    remove_session(sys.argv[1])
