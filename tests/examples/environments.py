"""Each example in its own environment: a virtual environment, Node packages, or a built program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from bench.findings.environments import install_python
from tests.examples.serving import EXAMPLES
from tests.package.installing import must
from tests.support import ROOT, required

# next to pytest's own cache; git ignores it and `make clean` removes it
_CACHE = ROOT / ".pytest_cache" / "examples"
# requirements of an example, and the program that installs them
_NEEDS = {"requirements.txt": sys.executable, "package.json": "npm", "go.mod": "go"}
_READY = "ready"


@dataclass(frozen=True)
class Installed:
    """A copy of an example, and the environment variables with its requirements."""

    folder: Path
    environ: Mapping[str, str]

    @property
    def wiring(self) -> Path:
        return self.folder / "wirefault.yaml"


def installed(name: str) -> Installed:
    """The example's environment, made where it is not there yet. Skips where it may not be made."""
    source = EXAMPLES / name
    needs = next(source / file for file in _NEEDS if (source / file).exists())
    _require_program(_NEEDS[needs.name])
    digest = sha256(needs.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = _CACHE / f"{name}-{digest}"
    if not (home / _READY).exists():
        if not required("index"):
            pytest.skip(f"no environment for examples/{name}: WIREFAULT_REQUIRE=index makes one")
        shutil.rmtree(home, ignore_errors=True)
    folder = home / name
    shutil.copytree(source, folder, dirs_exist_ok=True)
    shutil.copy(EXAMPLES / "prompts.json", home)
    if not (home / _READY).exists():
        _install(needs.name, home, folder)
        (home / _READY).touch()
    if needs.name == "go.mod":
        must(["go", "build", "-o", "agent", "."], folder, PATH=os.environ["PATH"])
    node = shutil.which("node")
    places = [str(home / "venv" / "bin"), *([str(Path(node).parent)] if node else []), "/usr/bin", "/bin"]
    return Installed(folder, {"PATH": os.pathsep.join(places)})


def _require_program(name: str) -> None:
    if shutil.which(name) is None:
        reason = f"{name} is not there"
        pytest.fail(reason) if required(name) else pytest.skip(reason)


def _install(needs: str, home: Path, folder: Path) -> None:
    if needs == "requirements.txt":
        install_python(home / "venv", [folder / needs])
    if needs == "package.json":
        must(["npm", "install", "--no-audit", "--no-fund", "--silent"], folder, PATH=os.environ["PATH"])
