"""Users with few rights, and systems that forbid namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.taps.tapped import opened, places, run
from tests.support import ROOT, RUN_PATIENCE_S
from wirefault.settings.settings import SettingsError

pytestmark = pytest.mark.slow

NOBODY = 65534
CURL = "id -u; curl -sS -w '\\n' https://api.example.com/"


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the user without rights owns."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        if os.geteuid() == 0:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def as_nobody() -> list[str]:
    """The command that runs this Python without privileges; empty for an unprivileged user."""
    if os.geteuid():
        return [sys.executable]
    # the program that setpriv starts is still found with root's rights
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env"]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for program in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        if program and not subprocess.run([*drop, program, "-c", ""], capture_output=True).returncode:
            return [*drop, program]
    pytest.skip(f"no {version} that another user may run")


@pytest.mark.usefixtures("namespaces")
def test_namespace_tap_works_without_rights(folder: Path) -> None:
    words = [*as_nobody(), "-m", "tests.subjects.taps.unprivileged", str(folder), "sh", "-c", CURL]
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
        "XDG_STATE_HOME": str(folder),
    }
    ended = subprocess.run(
        words, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=RUN_PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    user, *printed = ended.stdout.splitlines()
    assert user == str(os.geteuid() or NOBODY)
    assert places("\n".join(printed)) == ["https://api.example.com:443"]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs among which ``unshare`` is not."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("curl", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name in ("ip", "nft"):  # never started here, since a system without namespaces reports it first
        (folder / name).symlink_to(shutil.which(name) or str(shutil.which("true")))
    return folder


def test_proxy_tap_without_namespaces_gives_reason(
    tmp_path: Path, ingress: AnsweringIngress, programs: Path
) -> None:
    environ = {**os.environ, "PATH": str(programs)}
    with opened(ingress, tmp_path, "auto", environ) as tap:
        assert tap.kind == "proxy"
        assert ("warning", f"tap: proxy, since the namespace tap is unavailable: {tap.reason}") in tap.notes
        assert tap.reason == "missing program unshare"
        assert places(run(tap, ["curl", "-sS", "https://a.example/"], tmp_path)) == ["https://a.example:443"]


def test_required_namespace_without_rights_is_error(
    tmp_path: Path, ingress: AnsweringIngress, programs: Path
) -> None:
    unshare = programs / "unshare"  # like the system's message where it is forbidden
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    unshare.chmod(0o755)
    refused = (
        "tap: namespace: unshare: unshare failed: Operation not permitted; tap: proxy needs no namespaces"
    )
    with (
        pytest.raises(SettingsError, match=refused),
        opened(ingress, tmp_path, "namespace", {**os.environ, "PATH": str(programs)}),
    ):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a right to lose")
def test_root_without_rights_gets_proxy_tap(
    tmp_path: Path, ingress: AnsweringIngress, programs: Path
) -> None:
    unshare = programs / "unshare"
    real, drop = shutil.which("unshare"), "setpriv --bounding-set=-sys_admin --inh-caps=-all"
    unshare.write_text(
        f'#!/bin/sh\nexec {shutil.which("setpriv")}{drop.removeprefix("setpriv")} {real} "$@"\n'
    )
    unshare.chmod(0o755)
    with opened(ingress, tmp_path, "auto", {**os.environ, "PATH": str(programs)}) as tap:
        assert (tap.kind, tap.reason) == ("proxy", "unshare: unshare failed: Operation not permitted")
