"""The repository itself: what may stand in it, and that its command line offers what it promises."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import ROOT
from windtunnel.cli.main import main
from windtunnel.settings.settings import NAMES


@pytest.fixture(scope="module")
def tracked():
    """The files that git knows and that are there; a copy without git cannot be checked."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60)
    names = [name for name in listed.stdout.decode().split("\0") if name]
    assert "pyproject.toml" in names
    return [Path(name) for name in names if (ROOT / name).is_file()]


def found(tracked, pattern):
    """Where the pattern stands, as ``file:line``."""
    matcher = re.compile(pattern)
    return [
        f"{name}:{number}: {line[:80]!r}"
        for name in tracked
        for number, line in enumerate((ROOT / name).read_bytes().split(b"\n"), start=1)
        if matcher.search(line)
    ]


# put together here, so that this file does not hold what it forbids
REGISTRIES = [
    *(("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com")),
    *(("docker", "io"), ("ghcr", "io"), ("quay", "io"), ("gcr", "io"), ("crates", "io")),
]


# names of things that contain one: Toxiproxy's image, and Debian's package of the Docker engine
ALLOWED = {("ghcr", "io"): rb"(?!/shopify/toxiproxy\b)", ("docker", "io"): rb"(?![/:.\w])"}


@pytest.mark.parametrize("parts", REGISTRIES, ids="-".join)
def test_no_file_names_a_registry(tracked, parts):
    name = re.escape(".".join(parts)).encode()
    assert found(tracked, rb"\b" + name + rb"\b" + ALLOWED.get(parts, b"")) == []


@pytest.mark.parametrize("option", ["index-url", "extra-index-url", "find-links", "trusted-host"])
def test_no_requirements_say_where_they_come_from(tracked, option):
    locks = [name for name in tracked if name.suffix in (".lock", ".txt", ".toml")]
    assert found(locks, rb"^\s*(--)?" + option.encode() + rb"\b") == []


@pytest.mark.parametrize("folder", ["root", "work", "home", "Users", "tmp"])
def test_no_file_holds_an_absolute_path_of_a_machine(tracked, folder):
    assert found(tracked, rb"(?<![\w.$}~*)-])/" + folder.encode() + rb"/\w") == []


def test_no_file_holds_a_key(tracked):
    assert found(tracked, rb"\bgsk_[A-Za-z0-9]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY") == []


@pytest.mark.parametrize("folder", ["state", "logs"])
def test_state_and_logs_are_empty_in_git(tracked, folder):
    assert [name for name in tracked if name.parts[0] == folder and name.name != ".gitkeep"] == []


def test_no_environment_cache_or_secret_is_tracked(tracked):
    bad = {".venv", "__pycache__", ".env", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
    assert [name for name in tracked if bad & set(name.parts)] == []


@pytest.fixture(scope="module")
def demo_help():
    result = CliRunner().invoke(main, ["demo", "--help"], terminal_width=200)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_an_option_of_the_demo(demo_help, name):
    assert re.search(rf"--{name.replace('_', '-')}\b", demo_help)
    assert f"[{name.upper()}]" in " ".join(demo_help.split())


@pytest.mark.parametrize("option", ["--prompts", "--toxiproxy", "--out", "--json"])
def test_the_demo_has_the_options_of_the_lab(demo_help, option):
    assert option in demo_help
