"""docs/extending.md, followed word by word in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import page_section
from tests.support import ROOT, RUN_PATIENCE_S, copy_sources
from wirefault.wiring.links import lab_links

pytestmark = pytest.mark.slow

_PORTS = {link.port for link in lab_links()}
_FREE = next(port for port in range(5008, 6000) if port not in _PORTS)  # 5008, until a tool has that
PAGE = page_section("extending.md", "A tool").replace("5008", str(_FREE))
COPIED = (
    *("agent", "experiments", "flask_tools", "proxy_manager", "tests", "wirefault"),
    *("docker-compose.yaml", "compose.subject.yaml", ".env.example"),
)
# the tests on the page, and project tests that an incomplete tool would fail
RUN = (
    *("tests/flask_tools/test_note.py", "tests/flask_tools/test_app.py", "tests/agent/test_note.py"),
    *("tests/wiring/test_links.py", "tests/project/test_compose_file.py"),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the page's files written and its changes made."""
    folder = tmp_path_factory.mktemp("project")
    for name in COPIED:
        copy = copy_sources if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for block in re.finditer(r"```(python|diff|yaml|json)\n(.*?)```", PAGE, re.DOTALL):
        path = folder / re.findall(r"`([\w/-]+\.(?:py|yaml|json))`", PAGE[: block.start()])[-1]
        if block[1] == "diff":
            change(path, block[2].splitlines(keepends=True))
        else:
            path.write_text(block[2], encoding="utf-8")
    return folder


def change(path: Path, lines: list[str]) -> None:
    """Apply one hunk; its unchanged lines must be in the file exactly once."""
    before = "".join(line[1:] or line for line in lines if not line.startswith("+"))
    after = "".join(line[1:] or line for line in lines)
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path.name} has not this once:\n{before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_docs_page_touches_three_files_and_compose(project: Path) -> None:
    files = [
        path for path in project.rglob("*.*") if path.is_file() and path.suffix in (".py", ".yaml", ".json")
    ]
    touched = {
        str(path.relative_to(project))
        for path in files
        if not (ROOT / path.relative_to(project)).is_file()
        or path.read_bytes() != (ROOT / path.relative_to(project)).read_bytes()
    }
    assert {name for name in touched if not name.startswith("tests/")} == {
        *("wirefault/wiring/lab.json", "flask_tools/note.py", "agent/tools.py", "docker-compose.yaml"),
        *("my-playbooks.yaml", "my-prompts.json"),
    }


def test_tool_of_docs_page_works_and_passes_project_tests(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *RUN],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_docs_page_commands_show_tool(project: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    commands = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
    for line, outcome in zip(commands, ("success", "duplicate"), strict=True):
        words = f"{line.replace('wirefault ', f'{sys.executable} -m wirefault ', 1)} --no-charts"
        done = subprocess.run(
            ["bash", "-c", words],
            cwd=project,
            env=environ,
            capture_output=True,
            text=True,
            timeout=RUN_PATIENCE_S,
        )
        assert re.search(rf"^1/1 +{outcome}\b", done.stdout, re.MULTILINE), done.stdout + done.stderr
