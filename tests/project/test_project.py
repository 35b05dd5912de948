"""The repository itself: what may stand in it, and that its command line offers what it promises."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import PATIENCE_S, ROOT
from wirefault.cli.main import main
from wirefault.settings.settings import NAMES


@pytest.fixture(scope="module")
def tracked():
    """The files that git knows and that are there; a copy without git cannot be checked."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE_S
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    assert "pyproject.toml" in names
    return [Path(name) for name in names if (ROOT / name).is_file()]


def occurrences(tracked, pattern):
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
    assert occurrences(tracked, rb"\b" + name + rb"\b" + ALLOWED.get(parts, b"")) == []


@pytest.mark.parametrize("option", ["index-url", "extra-index-url", "find-links", "trusted-host"])
def test_no_requirements_say_where_they_come_from(tracked, option):
    locks = [name for name in tracked if name.suffix in (".lock", ".txt", ".toml")]
    assert occurrences(locks, rb"^\s*(--)?" + option.encode() + rb"\b") == []


@pytest.mark.parametrize("folder", ["root", "work", "home", "Users", "tmp"])
def test_no_file_holds_an_absolute_path_of_a_machine(tracked, folder):
    assert occurrences(tracked, rb"(?<![\w.$}~*)-])/" + folder.encode() + rb"/\w") == []


def test_no_file_holds_a_key(tracked):
    assert occurrences(tracked, rb"\bgsk_[A-Za-z0-9]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY") == []


@pytest.mark.parametrize("folder", ["state", "logs"])
def test_state_and_logs_are_empty_in_git(tracked, folder):
    assert [name for name in tracked if name.parts[0] == folder and name.name != ".gitkeep"] == []


def test_no_environment_cache_or_secret_is_tracked(tracked):
    bad = {".venv", "__pycache__", ".env", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
    assert [name for name in tracked if bad & set(name.parts)] == []


@pytest.mark.slow
def test_what_a_build_puts_here_for_a_moment_is_no_part_of_a_clone(tracked):
    """Ruff and those who copy the clone would look for its files when they are gone."""
    written = ["build", "dist", "wirefault.egg-info", f"wirefault-{version('wirefault')}"]
    asked = ["git", "check-ignore", *(f"{name}/setup.py" for name in written)]
    ignored = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ignored.stdout.splitlines() == asked[2:]


def in_the_tree():
    """The files below the root, without what tools keep there."""
    kept = {".git", ".venv", "logs", "state"}
    return [path for name in ROOT.iterdir() if name.name not in kept for path in (name, *name.rglob("*"))]


def test_no_left_over_of_a_merge_or_an_editor_stands_in_the_tree(request):
    checkout = (ROOT / ".git").exists()
    names = request.getfixturevalue("tracked") if checkout else in_the_tree()
    assert [name for name in names if re.search(r"\.(orig|rej|bak|tmp)$|~$", name.name)] == []


def definitions(tree):
    """The public names that a module binds at its top level, without those that it imports."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_every_public_name_is_defined_once():
    """But for ``main``, the schemas that the model sees as ``Report`` and ``Value``, and what every tool's
    module has. The model server's tables of words are not looked at.
    """
    places = defaultdict(set)
    for package in ("wirefault", "agent", "proxy_manager", "flask_tools"):
        for path in (ROOT / package).rglob("*.py"):
            if "model_server" not in path.parts:
                for name in definitions(ast.parse(path.read_text(encoding="utf-8"))):
                    places[name].add(str(path.relative_to(ROOT)))
    twice = {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}
    for name in ("main", "Report", "Value", "TABLES", "blueprint"):
        twice.pop(name, None)
    assert {name: paths for name, paths in twice.items() if not name.startswith("_")} == {}


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
