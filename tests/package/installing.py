"""The wheel, virtual environments for it, and a user's commands in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT

PACKAGES = Path(sysconfig.get_path("purelib"))  # of this process
MARKS = [pytest.mark.slow]
PATIENCE_S = 600.0
CALM = ("--toxic-prob", "0", "--error-prob", "0", "--seed", "7")
# two of the lab's prompts, by their place in its file: `make run` runs all
TWO = ("--only", "1", "--only", "15")


@dataclass(frozen=True)
class Environment:
    """A virtual environment. Its path has nothing of this checkout."""

    path: Path

    @property
    def python(self) -> str:
        return str(self.path / "bin" / "python")

    @property
    def packages(self) -> Path:
        [folder] = self.path.glob("lib/python*/site-packages")
        return folder

    def wirefault(self, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run([str(self.path / "bin" / "wirefault"), *words], folder, **more)

    def must_run(self, folder: Path, *words: str, **more: str) -> str:
        """The output of a command that must succeed; ``more`` extends its environment."""
        done = self.wirefault(folder, *words, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


def run(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environ(**more), capture_output=True, text=True, timeout=PATIENCE_S
    )


def environ(**more: str) -> dict[str, str]:
    """The user's, with no environment active and no Toxiproxy on the path.

    Pip compiles nothing: most modules that it installs are never imported.
    """
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "TOXIPROXY_URL", "PIP_CONSTRAINT")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    uncompiled = {"PIP_NO_COMPILE": "0"}  # pip takes it as the value of its setting "compile"
    return {**variables, **uncompiled, "PATH": "/usr/bin:/bin", **more}


def must(command: list[str], folder: Path, **more: str) -> str:
    done = run(command, folder, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def empty_environment(path: Path) -> Environment:
    must([sys.executable, "-m", "venv", "--without-pip", str(path)], path.parent)
    return Environment(path)


def install(environment: Environment, *requirements: str) -> None:
    """By the pip of this environment, in the versions that are locked."""
    pip = [sys.executable, "-m", "pip", "--python", environment.python, "install", "--quiet"]
    must([*pip, *requirements], environment.path, **constraint(environment.path))


def lend_packages(environment: Environment, packages: Path) -> None:
    """Puts these packages behind its own, which spares installing them again."""
    (environment.packages / "lent.pth").write_text(str(packages), encoding="utf-8")


def constraint(folder: Path) -> dict[str, str]:
    """Constrain pip to the locked versions. Without hashes, since the new build has none."""
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+==[^\s;]+)(?: (;.*?))? \\$", lock, flags=re.MULTILINE)
    file = folder / "constraints.txt"
    file.write_text("".join(f"{pin} {condition}\n" for pin, condition in pins), encoding="utf-8")
    return {"PIP_CONSTRAINT": str(file)}
