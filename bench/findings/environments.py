"""The environments of the framework examples: made once below ``.frameworks``, and found again.

Python examples whose requirements name the same constraints share a virtual environment. All that run on Node
share one folder of packages, and a Node of that folder: many SDKs need a newer one than the system's.

``python -m bench.findings.environments`` makes them all, and names what is not to be had.
"""

from __future__ import annotations

import fcntl
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
_PATIENCE_S = 900
_MACHINE = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class NotInstallable(Exception):
    """An environment that could not be made; the message says why."""


@dataclass(frozen=True)
class InstalledAgent:
    """An example that can be run: the words that start it, to which the prompt is added, and its folder.

    ``path`` is a PATH on which its interpreter and its programs come first.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    path: str


@dataclass(frozen=True)
class Environment:
    """What some examples share; ``manifests`` has the file of each example that says what it needs."""

    home: Path
    manifests: dict[str, Path]
    make: Callable[[Path, Sequence[Path]], None]

    def prepare(self) -> dict[str, str]:
        """Makes it, unless it is there; returns why each example that cannot run here cannot."""
        with _locked(self.home):
            return self._prepare()

    def _prepare(self) -> dict[str, str]:
        ready = self.home / _READY
        digest = self._digest()
        if ready.exists() and (kept := json.loads(ready.read_text()))["digest"] == digest:
            missing: dict[str, str] = kept["missing"]
            return missing
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        missing = self._make()
        if not missing:  # what is missing today may be there tomorrow
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
        """All that can be had together, in order; an example that spoils it is left out and named."""
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
        said = b"\0".join(file.read_bytes() for file in files)
        return sha256(said + sys.version.encode() + repr((_UV, _NODE)).encode()).hexdigest()


def environments(cache: Path = CACHE) -> list[Environment]:
    """The environments of all examples, the largest first."""
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
    """A virtual environment with what these files name, by ``uv``: pip takes ten times as long.

    Raises ``NotInstallable``.
    """
    python = home / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", "--without-pip", str(home)])
    wanted = [word for manifest in manifests for word in ("-r", str(manifest))]
    _run([_uv(), "pip", "install", "--quiet", "--python", str(python), *wanted])


def _uv() -> str:
    """The installer: the one on the path, or else one of our own."""
    if at_hand := shutil.which("uv"):
        return at_hand
    own = CACHE / "uv"
    with _locked(own):  # two environments are made at once
        if not (own / "bin" / "uv").exists():
            _run([sys.executable, "-m", "venv", "--without-pip", str(own)])
            pip = [sys.executable, "-m", "pip", "--python", str(own / "bin" / "python")]
            _run([*pip, "install", "--quiet", "--disable-pip-version-check", _UV])
    return str(own / "bin" / "uv")


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Whoever else makes that folder waits, in another process, too."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_node(home: Path, manifests: Sequence[Path]) -> None:
    if shutil.which("npm") is None:
        raise NotInstallable("npm is not there")
    wanted = dict(_NODE)
    for manifest in manifests:
        for name, version in json.loads(manifest.read_text(encoding="utf-8"))["dependencies"].items():
            if wanted.setdefault(name, version) != version:
                raise NotInstallable(f"{manifest.parent.name} wants another {name} than its neighbours")
    package = {"private": True, "type": "module", "dependencies": wanted}
    (home / "package.json").write_text(json.dumps(package, indent=2))
    quietly = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    _run(["npm", "install", *quietly], home)


def _run(command: Sequence[str], folder: Path = ROOT) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S)
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise NotInstallable(" ".join(line.strip() for line in lines[-4:])[:400])


def prepare_all(cache: Path = CACHE) -> dict[str, str]:
    """Makes every environment, at most two at once; why each example that cannot run here cannot."""
    if not (EXAMPLES / "wirefault.yaml").exists():
        raise NotInstallable(f"{EXAMPLES} has no examples")
    with ThreadPoolExecutor(2) as pool:
        reasons = pool.map(Environment.prepare, environments(cache))
        return {example: reason for missing in reasons for example, reason in missing.items()}


def agents(cache: Path = CACHE) -> Iterator[InstalledAgent]:
    """Every example, copied beside its packages, since Node looks for them in the folders above a module."""
    node = cache / "node" / "node_modules" / ".bin"
    for environment in environments(cache):
        for example in environment.manifests:
            [source] = EXAMPLES.glob(f"{example}/agent.*")
            if (source.suffix == ".mjs") != (environment.home.name == "node"):
                continue  # the client of MCP's is for Python, and its servers for Node
            folder = environment.home / "agents" / example
            shutil.copytree(source.parent, folder, dirs_exist_ok=True)
            interpreter = "node" if source.suffix == ".mjs" else "python"
            path = os.pathsep.join([str(environment.home / "bin"), str(node), _MACHINE])
            yield InstalledAgent(example, (interpreter, str(folder / source.name)), folder, path)


def main() -> int:
    """Says how long it took, and names what is not to be had; 1 if anything is."""
    started = time.monotonic()
    missing = prepare_all()
    for example, reason in sorted(missing.items()):
        print(f"examples/frameworks/{example} cannot run here: {reason}")
    there = sorted(agent.name for agent in agents() if agent.name not in missing)
    print(f"{len(there)} examples can run ({time.monotonic() - started:.0f} s): {', '.join(there)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
