"""The environment of `make setup` and of the image: by uv, else by pip."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.package.installing import run
from tests.support import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("has_uv", [True, False])
def test_environment_has_locked_packages_only(index: None, tmp_path: Path, has_uv: bool) -> None:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "environment.sh", tmp_path / "tools")
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    package = r"^{}==.*\\\n( +--hash=\S+( \\)?\n)+"
    for name in ("idna", "sniffio"):
        entry = re.search(package.format(name), locked, re.MULTILINE)
        assert entry
        (tmp_path / f"{name}.lock").write_text(entry[0], encoding="utf-8")
    uv_lock = (ROOT / "requirements-uv.lock").read_text(encoding="utf-8")
    uv_lock = uv_lock if has_uv else re.sub("sha256:[0-9a-f]{8}", "sha256:00000000", uv_lock)
    (tmp_path / "requirements-uv.lock").write_text(uv_lock, encoding="utf-8")

    for how, lock in (("install", "idna.lock"), ("sync", "sniffio.lock")):
        command = ["bash", "tools/environment.sh", how, sys.executable, ".venv", lock]
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("pip does" in done.stdout) is not has_uv
    [packages] = tmp_path.glob(".venv/lib/python*/site-packages")
    # pip only adds
    assert {path.name for path in packages.iterdir()} >= {"sniffio"} | (set() if has_uv else {"idna"})
    assert not has_uv or not (packages / "idna").exists()
