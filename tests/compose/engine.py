"""The Docker engine of this machine, and leftovers of test sessions on it."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.support import ROOT

# then a name and "-", and the process id of the session, without which other sessions take it for an orphan
PROJECT = "wirefault-test-"
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
    """Containers and networks of the project, without Compose."""
    label = ("--filter", f"label=com.docker.compose.project={project}")
    if left := docker("ps", "-aq", *label).split():
        docker("rm", "-f", "-v", *left, check=False)
    if left := docker("network", "ls", "-q", *label).split():
        docker("network", "rm", *left, check=False)


def remove_orphans() -> None:
    """Leftovers of test sessions that were killed before their cleanup."""
    listed = docker("ps", "-a", "--format", '{{.Label "com.docker.compose.project"}}').split()
    for project in {name for name in listed if name.startswith(PROJECT)}:
        if not Path(f"/proc/{project.rpartition('-')[2]}").exists():
            remove(project)


def base_images() -> list[str]:
    dockerfile, compose = ((ROOT / name).read_text() for name in ("Dockerfile", "docker-compose.yaml"))
    return [
        *re.findall(r"^FROM (\S+:\S+)", dockerfile, flags=re.MULTILINE)[:1],
        *re.findall(r"^ *image: (\S+/toxiproxy:\S+)", compose, flags=re.MULTILINE)[:1],
    ]


def forget_image() -> None:
    """So that `up` builds it again; the last one's layers stay, for the builder."""
    if docker("image", "ls", "-q", IMAGE):
        docker("tag", IMAGE, f"{IMAGE}:previous", check=False)
        docker("rmi", IMAGE, check=False)
