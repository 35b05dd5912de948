"""docs/extending.md, followed word by word: a package is built, installed, listed and used in a run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.demos import environ_in
from tests.pages import page_section
from tests.support import ROOT

pytestmark = pytest.mark.slow

PACKAGE = "package my-wirefault-parts 1.0"


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page_section("extending.md", section), re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package is in the folder ``installed``, next to the prompts and the fault set."""
    folder = tmp_path_factory.mktemp("plugins")
    source = folder / "source"
    source.mkdir()
    (source / "rounded.py").write_text(blocks("A fault", "python")[0])
    (source / "my_subject.py").write_text(*blocks("A subject", "python"))
    (source / "my_dialect.py").write_text(*blocks("A package of your own", "python"))
    (source / "pyproject.toml").write_text(*blocks("A package of your own", "toml"))
    (folder / "prompts.json").write_text(*blocks("A package of your own", "json"))
    (folder / "rounded.yaml").write_text(*blocks("A package of your own", "yaml"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(folder / "installed"), str(source)], check=True, timeout=120)
    return folder


def call(folder: Path, *command: str) -> str:
    """The output of a command in an environment with the package."""
    environ = environ_in(folder, PYTHONPATH=f"{folder / 'installed'}:{ROOT}", COLUMNS="200")
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plugin_fault_appears_in_list_show_and_run(folder: Path) -> None:
    [lines] = blocks("A package of your own", "sh")
    install, *commands = (shlex.split(line) for line in lines.splitlines())
    assert install == ["pip", "install", "."]
    listed, output, recorded = (call(folder, sys.executable, "-m", *words) for words in with_json(commands))
    assert f"Numbers in a JSON reply are rounded. (from {PACKAGE})" in " ".join(listed.split())
    assert output.startswith(f"rounded   (tool links) (from {PACKAGE})\n")
    summary = json.loads(recorded)
    assert summary["outcomes"] == {"misled": 1}
    [fault] = summary["faults"]
    assert (fault["entry"], fault["links"], fault["injected"]) == ("rounded", ["calculator"], 1)


def with_json(commands: list[list[str]]) -> list[list[str]]:
    *others, demo = commands
    return [*others, [*demo, "--no-charts", "--json"]]


def test_plugin_dialect_is_recognised_by_path(folder: Path) -> None:
    code = (
        "from wirefault.dialects.registry import DIALECTS, MODEL_DIALECTS, dialect_of\n"
        "name = dialect_of('/house/talk', of_model=True)\n"
        "print(name, DIALECTS[name] is MODEL_DIALECTS[name], dialect_of('/v1/messages', of_model=True))"
    )
    assert call(folder, sys.executable, "-c", code) == "house True anthropic\n"


def test_unused_plugin_is_not_imported(folder: Path) -> None:
    code = (
        "import sys, wirefault.settings.configuration\n"
        "from wirefault.faults.registry import REGISTRY\n"
        "from wirefault.dialects.registry import dialect_of\n"
        "from wirefault.subjects.loading import split_subject_name\n"
        "REGISTRY['delay'], 'rounded' in REGISTRY, dialect_of('/', of_model=False)\n"
        "print(split_subject_name('calculating'), {'rounded', 'my_subject', 'my_dialect'} & set(sys.modules))"
    )
    assert call(folder, sys.executable, "-c", code) == "('my_subject', 'open_subject') set()\n"
