"""The MCP SDKs, each in an environment that is kept between sessions of pytest."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path

import pytest

from bench.findings.environments import install_python
from tests.package.installing import must
from tests.support import ROOT, required

SDKS = Path(__file__).parent / "sdks"
_CACHE = ROOT / ".pytest_cache" / "mcp"
# the client's column in the table: requirements, program, and its arguments before the address
CLIENTS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "Python 1.30": ("python_1.txt", "python_1.py", ()),
    "Python 2.3 (stateless)": ("python_2.txt", "python_2.py", ()),
    "TypeScript 1.32": ("package.json", "typescript.mjs", ("1",)),
    "TypeScript 2.4": ("package.json", "typescript.mjs", ("2",)),
    "TypeScript 2.4 (stateless)": ("package.json", "typescript.mjs", ("2-auto",)),
}


def command(needs: str, program: str) -> list[str]:
    """The command that starts that program with its requirements. Skip if they may not be installed."""
    home = _environment(SDKS / needs)
    script = shutil.copy(SDKS / program, home)  # Node looks for packages from there
    interpreter = home / "venv" / "bin" / "python" if needs.endswith(".txt") else shutil.which("node")
    return [str(interpreter), str(script)]


def _environment(needs: Path) -> Path:
    _require("npm" if needs.suffix == ".json" else sys.executable)
    digest = sha256(needs.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = _CACHE / f"{needs.stem}-{digest}"
    if not (home / "ready").exists() and not required("index"):
        pytest.skip("no SDKs of MCP are installed: WIREFAULT_REQUIRE=index installs them")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:  # tests in another process may want the same
        flock(lock, LOCK_EX)
        if not (home / "ready").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            _install(needs, home)
            (home / "ready").touch()
    return home


def _install(needs: Path, home: Path) -> None:
    if needs.suffix == ".json":
        shutil.copy(needs, home)
        must(["npm", "install", "--no-audit", "--no-fund", "--silent"], home, PATH=os.environ["PATH"])
        return
    install_python(home / "venv", [needs])


def _require(program: str) -> None:
    if shutil.which(program) is None:
        reason = f"{program} is not there"
        pytest.fail(reason) if required("index") else pytest.skip(reason)
