"""The wheel installed from a package index: first without the lab's requirements, then with them."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.package.installing import (
    CALM,
    MARKS,
    TWO,
    Environment,
    constraint,
    empty_environment,
    install,
    lend_packages,
    must,
    run,
)
from tests.support import ROOT

pytestmark = MARKS

OF_THE_LAB = {"langchain", "langchain-core", "langchain-groq", "matplotlib", "numpy", "flask", "waitress"}


def packages(environment: Environment) -> set[str]:
    listing = "from importlib.metadata import distributions; print(*(each.name for each in distributions()))"
    return set(must([environment.python, "-P", "-c", listing], environment.path).lower().split())


def test_core_has_no_lab_requirements(core: Environment, tmp_path: Path) -> None:
    assert packages(core) & OF_THE_LAB == set()
    for words in (["--help"], ["--version"], ["faults"], ["faults", "show", "light"], ["lab", "init", "lab"]):
        core.must_run(tmp_path, *words)
    assert "Usage" in core.must_run(tmp_path, "toxiproxy", "--help")


def test_run_of_lab_is_judged_by_core(core: Environment, tmp_path: Path) -> None:
    must([sys.executable, "-m", "wirefault", "demo", *CALM, *TWO], tmp_path)
    assert "wirefault demo --seed 7" in core.must_run(tmp_path, "runs", "verify", "latest")


@pytest.mark.parametrize("words", [["demo"], ["run", "--lab"], ["lab", "up"]], ids=" ".join)
def test_demo_names_missing_requirements(core: Environment, words: list[str], tmp_path: Path) -> None:
    done = core.wirefault(tmp_path, *words)
    assert (done.returncode, done.stdout) == (70, "")
    assert re.fullmatch(r"Error: the lab needs langchain, .*: .*\[lab\].*\n", done.stderr), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_printed_command_installs_requirements(core: Environment, wheel: Path, tmp_path: Path) -> None:
    extended = empty_environment(tmp_path / "extended")
    install(extended, "--no-deps", str(wheel), "pip")
    lend_packages(extended, core.packages)
    stderr = extended.wirefault(tmp_path, "demo").stderr
    command = shlex.split(stderr.rpartition(": ")[2])
    assert command[0] == extended.python
    must(command, tmp_path, **constraint(extended.path))
    assert packages(extended) > OF_THE_LAB
    assert "charts: " in extended.must_run(tmp_path, "demo", *CALM, *TWO)
    must([extended.python, "-m", "pip", "check"], tmp_path)


def test_readme_lab_install(index: None, dist: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^(pipx install [^#\n]*)", readme, flags=re.MULTILINE)
    tools = empty_environment(tmp_path / "tools")
    install(tools, "pip", "pipx")
    (tmp_path / "dist").symlink_to(dist)
    places = {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    environ = {**places, **constraint(tmp_path), "PIPX_DEFAULT_PYTHON": sys.executable}
    must([tools.python, "-m", *shlex.split(line)], tmp_path, **environ)
    folder = tmp_path / "folder"
    folder.mkdir()
    done = run([str(tmp_path / "bin" / "wirefault"), "demo", *CALM, *TWO], folder)
    assert done.returncode == 0, done.stderr
    assert list(folder.glob(".wirefault/logs/charts/*/overview.png"))
