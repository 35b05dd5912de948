"""Environments of the framework examples, created once below ``.frameworks`` and reused.

Python examples with equal constraints share a virtual environment. All Node examples share one folder of
packages with its own Node, since many SDKs need a newer one than the system's.

``python -m bench.findings.environments`` creates all environments and lists the failures.
"""

from __future__ import annotations

import fcntl
import filecmp
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "frameworks"
CACHE = ROOT / ".frameworks"
_UV, _NODE = "uv==0.13.9", {"node": "22.23.3"}
_READY = "ready.json"
_INSTALL_TIMEOUT_S = 900
_MACHINE = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class NotInstallable(Exception):
    """An environment cannot be created; the message has the reason."""


@dataclass(frozen=True)
class InstalledAgent:
    """A runnable example: its folder and its command, to which the prompt is appended.

    ``path`` is a PATH with its interpreter and programs first.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    path: str


@dataclass(frozen=True)
class Environment:
    """The environment of some examples; ``manifests`` has each example's requirements file."""

    home: Path
    manifests: dict[str, Path]
    make: Callable[[Path, Sequence[Path]], None]

    def prepare(self) -> dict[str, str]:
        """Create the environment if it is missing; return the reasons why examples cannot run here."""
        with _locked(self.home):
            return self._prepare()

    def _prepare(self) -> dict[str, str]:
        ready = self.home / _READY
        digest = self._digest()
        if ready.exists() and (state := json.loads(ready.read_text()))["digest"] == digest:
            missing: dict[str, str] = state["missing"]
            return missing
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        missing = self._make()
        if not missing:  # missing packages may be available later
            ready.write_text(json.dumps({"digest": digest, "missing": missing}))
        return missing

    def _make(self) -> dict[str, str]:
        try:
            self.make(self.home, [*self.manifests.values()])
        except NotInstallable as error:
            return (
                self._make_one_by_one()
                if len(self.manifests) > 1
                else dict.fromkeys(self.manifests, str(error))
            )
        return {}

    def _make_one_by_one(self) -> dict[str, str]:
        """Install all examples that work together, in order; skip and report conflicting examples."""
        missing: dict[str, str] = {}
        working: list[Path] = []
        for example, manifest in self.manifests.items():
            try:
                self.make(self.home, [*working, manifest])
                working.append(manifest)
            except NotInstallable as error:
                missing[example] = str(error)
        return missing

    def _digest(self) -> str:
        constraints = [EXAMPLES / f"{self.home.name}.constraints"]
        files = [*self.manifests.values(), *(each for each in constraints if each.exists())]
        content = b"\0".join(file.read_bytes() for file in files)
        return sha256(content + sys.version.encode() + repr((_UV, _NODE)).encode()).hexdigest()


def environments(cache: Path = CACHE) -> list[Environment]:
    """Return the environments of all examples, the largest first."""
    python: dict[str, dict[str, Path]] = {}
    for manifest in sorted(EXAMPLES.glob("*/requirements.txt")):
        constraints = manifest.read_text(encoding="utf-8").splitlines()[0].removeprefix("-c ")
        python.setdefault(Path(constraints).stem, {})[manifest.parent.name] = manifest
    node = {manifest.parent.name: manifest for manifest in sorted(EXAMPLES.glob("*/package.json"))}
    return [
        Environment(cache / "node", node, _make_node),
        *(Environment(cache / name, python[name], install_python) for name in sorted(python)),
    ]


def install_python(home: Path, manifests: Sequence[Path]) -> None:
    """Create a virtual environment with these requirements by ``uv``, ten times as fast as pip.

    Raises ``NotInstallable``.
    """
    python = home / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", "--without-pip", str(home)])
    wanted = [word for manifest in manifests for word in ("-r", str(manifest))]
    _run([_uv(), "pip", "install", "--quiet", "--python", str(python), *wanted])


def _uv() -> str:
    """Return the ``uv`` on PATH, or install one."""
    if at_hand := shutil.which("uv"):
        return at_hand
    own = CACHE / "uv"
    with _locked(own):  # two environments are created at once
        if not (own / "bin" / "uv").exists():
            _run([sys.executable, "-m", "venv", "--without-pip", str(own)])
            pip = [sys.executable, "-m", "pip", "--python", str(own / "bin" / "python")]
            _run([*pip, "install", "--quiet", "--disable-pip-version-check", _UV])
    return str(own / "bin" / "uv")


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Lock the folder against other threads and processes."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_node(home: Path, manifests: Sequence[Path]) -> None:
    if shutil.which("npm") is None:
        raise NotInstallable("npm is not installed")
    wanted = dict(_NODE)
    for manifest in manifests:
        for name, version in json.loads(manifest.read_text(encoding="utf-8"))["dependencies"].items():
            if wanted.setdefault(name, version) != version:
                raise NotInstallable(f"{manifest.parent.name} needs another {name} than the other examples")
    package = {"private": True, "type": "module", "dependencies": wanted}
    (home / "package.json").write_text(json.dumps(package, indent=2))
    quietly = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    _run(["npm", "install", *quietly], home)


def _run(command: Sequence[str], folder: Path = ROOT) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S)
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise NotInstallable(" ".join(line.strip() for line in lines[-4:])[:400])


def prepare_all(cache: Path = CACHE) -> dict[str, str]:
    """Create every environment, at most two at once; return the reasons why examples cannot run here."""
    if not (EXAMPLES / "wirefault.yaml").exists():
        raise NotInstallable(f"{EXAMPLES} has no examples")
    with ThreadPoolExecutor(2) as pool:
        reasons = pool.map(Environment.prepare, environments(cache))
        return {example: reason for missing in reasons for example, reason in missing.items()}


def agents(cache: Path = CACHE) -> Iterator[InstalledAgent]:
    """Yield every example, copied into its packages' folder: Node searches the folders above a module."""
    node = cache / "node" / "node_modules" / ".bin"
    for environment in environments(cache):
        for example in environment.manifests:
            [source] = EXAMPLES.glob(f"{example}/agent.*")
            if (source.suffix == ".mjs") != (environment.home.name == "node"):
                continue  # the MCP client is for Python, its servers' package.json for Node
            folder = environment.home / "agents" / example
            shutil.copytree(source.parent, folder, copy_function=_copied_if_changed, dirs_exist_ok=True)
            interpreter = "node" if source.suffix == ".mjs" else "python"
            path = os.pathsep.join([str(environment.home / "bin"), str(node), _MACHINE])
            yield InstalledAgent(example, (interpreter, str(folder / source.name)), folder, path)


def _copied_if_changed(source: str, target: str) -> str:
    """Copy a file, unless it is there already: another process may be reading it."""
    if not (Path(target).is_file() and filecmp.cmp(source, target, shallow=False)):
        shutil.copy2(source, target)
    return target


def main() -> int:
    """Print the time and the failures; return 1 if there are any."""
    started = time.monotonic()
    missing = prepare_all()
    for example, reason in sorted(missing.items()):
        print(f"examples/frameworks/{example} cannot run here: {reason}")
    there = sorted(agent.name for agent in agents() if agent.name not in missing)
    print(f"{len(there)} examples can run ({time.monotonic() - started:.0f} s): {', '.join(there)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
