"""Build the source distribution and the wheel in a copy of this checkout: ``python -m tools.build OUT``.

A build rewrites the package's metadata and leaves folders behind. In the checkout, a run or a test could read
them during the build.

A commit with a tag such as ``v1.2.0`` is built as version 1.2.0, any other as the version in ``_version.py``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns

ROOT = Path(__file__).resolve().parent.parent
CACHES = ("__pycache__", ".cache", ".*_cache", ".hypothesis", ".git", ".venv", ".frameworks")
VERSION_FILE = "wirefault/_version.py"
_TAG = re.compile(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)")
LEFT_OUT = ignore_patterns(*CACHES, "build", "dist", "site", "*.egg-info", "wirefault-[0-9]*")


def build(out: Path) -> None:
    """Build both files into ``out``. Raises ``CalledProcessError`` with the build's output."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "wirefault")
        copytree(ROOT, copy, ignore=_ignored, symlinks=True)
        if version := tagged_version(_tags()):
            file = copy / VERSION_FILE
            file.write_text(with_version(file.read_text(encoding="utf-8"), version), encoding="utf-8")
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out.resolve()), str(copy)]
        subprocess.run(command, check=True, capture_output=True, text=True)


def tagged_version(tags: Sequence[str]) -> str:
    """Return the version that one of a commit's tags names, or nothing. Raises ``ValueError`` for two."""
    versions = [match[1] for tag in tags if (match := _TAG.fullmatch(tag))]
    if len(versions) > 1:
        raise ValueError(f"one commit is tagged as several versions: {', '.join(versions)}")
    return versions[0] if versions else ""


def with_version(text: str, version: str) -> str:
    """Return the text of ``_version.py`` with another version."""
    return re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', text, flags=re.MULTILINE)


def _tags() -> list[str]:
    """Return the tags of the checkout's commit; none outside a Git checkout."""
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    except FileNotFoundError:  # no Git
        return []


def _ignored(folder: str, names: list[str]) -> set[str]:
    """Return the names to skip: caches, earlier builds, and the content of ``logs`` and ``state``."""
    if Path(folder) in (ROOT / "logs", ROOT / "state"):
        return set(names) - {".gitkeep"}
    return LEFT_OUT(folder, names)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
