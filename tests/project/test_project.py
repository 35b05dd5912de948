"""The repository: no hosts, paths, keys or leftovers in it, and a command line with every setting."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.version import Version

from tests import support
from tests.conftest import GROUPS
from tests.support import PATIENCE_S, ROOT, RUN_PATIENCE_S
from wirefault._version import __version__
from wirefault.cli.main import main
from wirefault.settings.settings import INTERNAL, NAMES


@pytest.fixture(scope="module")
def tracked():
    """Files that git tracks; skips in a copy without git."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE_S
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    assert "pyproject.toml" in names
    return [Path(name) for name in names if (ROOT / name).is_file()]


def occurrences(tracked, pattern):
    """Matches of the pattern, as ``file:line: text``."""
    matcher = re.compile(pattern)
    return [
        f"{name}:{number}: {line[:80]!r}"
        for name in tracked
        for number, line in enumerate((ROOT / name).read_bytes().split(b"\n"), start=1)
        if matcher.search(line)
    ]


# joined at run time, so that this file passes its own test
REGISTRIES = [
    *(("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com")),
    *(("docker", "io"), ("ghcr", "io"), ("quay", "io"), ("gcr", "io"), ("crates", "io")),
]


# Toxiproxy's image and Debian's package of the Docker engine contain one
ALLOWED = {("ghcr", "io"): rb"(?!/shopify/toxiproxy\b)", ("docker", "io"): rb"(?![/:.\w])"}


@pytest.mark.parametrize("parts", REGISTRIES, ids="-".join)
def test_no_file_names_registry(tracked, parts):
    name = re.escape(".".join(parts)).encode()
    assert occurrences(tracked, rb"\b" + name + rb"\b" + ALLOWED.get(parts, b"")) == []


@pytest.mark.parametrize("option", ["index-url", "extra-index-url", "find-links", "trusted-host"])
def test_locks_name_no_package_index(tracked, option):
    locks = [name for name in tracked if name.suffix in (".lock", ".txt", ".toml")]
    assert occurrences(locks, rb"^\s*(--)?" + option.encode() + rb"\b") == []


@pytest.mark.parametrize("folder", ["root", "work", "home", "Users", "tmp"])
def test_no_file_has_absolute_path(tracked, folder):
    assert occurrences(tracked, rb"(?<![\w.$}~*)-])/" + folder.encode() + rb"/\w") == []


def test_no_file_has_key(tracked):
    assert occurrences(tracked, rb"\bgsk_[A-Za-z0-9]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY") == []


@pytest.mark.parametrize("folder", ["state", "logs"])
def test_state_and_logs_are_empty_in_git(tracked, folder):
    assert [name for name in tracked if name.parts[0] == folder and name.name != ".gitkeep"] == []


def test_no_cache_or_secret_is_tracked(tracked):
    bad = {".venv", "__pycache__", ".env", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
    assert [name for name in tracked if bad & set(name.parts)] == []


@pytest.mark.slow
def test_build_output_is_ignored(tracked):
    """Else ruff, or a copy of the clone, reads files that a concurrent build removes."""
    written = ["build", "dist", "wirefault.egg-info", f"wirefault-{version('wirefault')}"]
    command = ["git", "check-ignore", *(f"{name}/setup.py" for name in written)]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ignored.stdout.splitlines() == command[2:]


def in_the_tree():
    """Files below the root, without caches and run data."""
    ignored = {".git", ".venv", "logs", "state"}
    return [path for name in ROOT.iterdir() if name.name not in ignored for path in (name, *name.rglob("*"))]


def test_no_editor_or_merge_leftovers(request):
    checkout = (ROOT / ".git").exists()
    names = request.getfixturevalue("tracked") if checkout else in_the_tree()
    assert [name for name in names if re.search(r"\.(orig|rej|bak|tmp)$|~$", name.name)] == []


def test_files_that_share_lab_run_in_one_worker():
    files = (ROOT / "tests" / "e2e").glob("test_*.py")
    sharing = {
        path.name for path in files if re.search(r"\bshared: SharedLab", path.read_text(encoding="utf-8"))
    }
    assert {f"tests/e2e/{name}" for name in sharing} == {
        file for file, group in GROUPS.items() if group in ("lab-one", "lab-two")
    }


@pytest.fixture(scope="module")
def demo_help():
    result = CliRunner().invoke(main, ["demo", "--help-all"], terminal_width=200)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", [name for name in NAMES if name not in INTERNAL])
def test_every_setting_is_option_of_demo(demo_help, name):
    assert re.search(rf"--{name.replace('_', '-')}\b", demo_help)
    assert f"[{name.upper()}]" in " ".join(demo_help.split())


@pytest.mark.parametrize("option", ["--prompts", "--toxiproxy", "--out", "--json"])
def test_demo_has_options_of_lab(demo_help, option):
    assert option in demo_help


@pytest.mark.slow
@pytest.mark.parametrize(("more", "thinned"), [({}, True), ({"WIREFAULT_REQUIRE": ""}, False)])
def test_make_test_ends_with_ci_note(tmp_path, more, thinned):
    shutil.copy(ROOT / "Makefile", tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "ruff", "mypy", "lint-imports", "vulture"):
        (programs / name).write_text(f"#!/bin/sh\necho {name}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    for name in ("requirements-dev.lock", "requirements-uv.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    (tmp_path / ".venv" / ".ready").touch()
    environ = {
        key: value
        for key, value in os.environ.items()
        if key not in ("WIREFAULT_REQUIRE", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")  # as outside of make
    }
    made = subprocess.run(
        ["make", "test"],
        cwd=tmp_path,
        env=environ | more,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    lines = made.stdout.splitlines()
    assert {"python", "ruff", "mypy", "vulture"} <= set(lines)
    assert ("CI runs more" in lines[-1]) is thinned


def test_three_commits_run_every_case(monkeypatch):
    monkeypatch.setattr(support, "_ALL", False)
    cases = []
    for commit in range(3):
        monkeypatch.setenv(support.THIRD, str(commit))
        cases += support.paired(range(4), "abcde")
    assert sorted(cases) == [(number, letter) for number in range(4) for letter in "abcde"]


@pytest.mark.slow
def test_failed_hook_of_worker_fails_the_run(tmp_path):
    (tmp_path / "test_no_folder.py").write_text("def test_passes(): pass\n")  # ours reads the folder
    words = ["-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", "1"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MAKE"))}
    run = subprocess.run(
        [sys.executable, *words, "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
        check=False,
    )
    assert (run.returncode, "IndexError" in run.stdout) == (3, True)


def test_version_is_no_released_one_while_something_is_unreleased():
    """Recordings name the version that reads them: its release and what follows read others."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^## \[(.+?)\]", changes, re.M)[:2]
    assert first != "Unreleased" or Version(__version__) > Version(second)
