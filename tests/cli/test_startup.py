"""Imports of a command, which take most of its start time; bench/startup.py measures them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from wirefault.cli.main import COMMANDS, main
from wirefault.history.events import RunFinished, RunSealed, RunStarted
from wirefault.history.writer import Writer, history_file
from wirefault.settings.settings import Settings

pytestmark = pytest.mark.slow

NETWORK = ("requests", "urllib3", "http.client", "httptools", "uvloop", "starlette", "uvicorn")
MODELS = ("rich", "pydantic", "yaml", "wirefault.faults", "wirefault.settings")
FACE = ("wirefault.core.identity",)
ROOMS = ("wirefault.settings", "wirefault.judging", "wirefault.lab")
NEVER = (
    *("agent", "flask_tools", "proxy_manager", "wirefault.gateway", "wirefault.model_server", "requests"),
    *("langchain", "langchain_core", "langchain_groq", "groq", "matplotlib", "flask", "waitress"),
)
# command, exit code, and modules that it must not import
STARTED: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "help": ("--help", 0, (*NETWORK, *MODELS, *FACE)),
    "version": ("--version", 0, (*NETWORK, *MODELS)),
    "list": ("faults list", 0, (*NETWORK, *ROOMS, "rich")),
    "show": ("faults show heavy", 0, (*NETWORK, *ROOMS, "rich")),
    "verify": ("runs verify latest", 0, (*NETWORK, "yaml", "wirefault.faults.catalogue", "wirefault.lab")),
    "toxiproxy": ("toxiproxy --config none.json", 64, (*MODELS, "wirefault.lab")),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the history of a small run."""
    writer = Writer(history_file(tmp_path / "logs", "20260101-000000-abc", "agent", 0))
    settings = Settings(seed=1).model_dump()
    writer.write(RunStarted(1.0, "20260101-000000-abc", "lab", 0, 1, settings, "a subject", 0))
    writer.write(RunFinished(2.0, True, "", 0))
    writer.write(RunSealed({}))
    writer.close()
    return tmp_path


@pytest.mark.parametrize("name", STARTED)
def test_command_imports_only_needed_modules(folder: Path, name: str) -> None:
    words, code, without = STARTED[name]
    assert _imported(folder, words, code).isdisjoint((*NEVER, *without))


def test_start_of_run_does_not_import_scripted_model(folder: Path) -> None:
    assert "wirefault.model_server" not in _imported(folder, "demo --prompts missing.json", 64)


def _imported(folder: Path, words: str, code: int) -> set[str]:
    """Return the modules that a command imports, which ends with that exit code."""
    command = [sys.executable, "-X", "importtime", "-m", "wirefault", *words.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr[-300:]
    modules = set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "wirefault.cli.main" in modules
    return modules


def test_main_help_matches_each_command() -> None:
    expected = {name: CliRunner().invoke(main, [name, "--help"]).output for name in COMMANDS}
    missing = [name for name, text in COMMANDS.items() if text not in " ".join(expected[name].split())]
    assert missing == []
    assert set(COMMANDS) <= set(CliRunner().invoke(main, ["--help"]).output.split())
