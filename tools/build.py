"""Build the source distribution and the wheel in a copy of this checkout: ``python -m tools.build OUT``.

A build rewrites the package's metadata and leaves folders behind. In the checkout, a run or a test could read
them during the build.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree, ignore_patterns

ROOT = Path(__file__).resolve().parent.parent
CACHES = ("__pycache__", ".cache", ".*_cache", ".hypothesis", ".git", ".venv", ".frameworks")
LEFT_OUT = ignore_patterns(*CACHES, "build", "dist", "site", "*.egg-info", "wirefault-[0-9]*")


def build(out: Path) -> None:
    """Build both files into ``out``. Raises ``CalledProcessError`` with the build's output."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "wirefault")
        copytree(ROOT, copy, ignore=_ignored, symlinks=True)
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out.resolve()), str(copy)]
        subprocess.run(command, check=True, capture_output=True, text=True)


def _ignored(folder: str, names: list[str]) -> set[str]:
    """Return the names to skip: caches, earlier builds, and the content of ``logs`` and ``state``."""
    if Path(folder) in (ROOT / "logs", ROOT / "state"):
        return set(names) - {".gitkeep"}
    return LEFT_OUT(folder, names)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
