"""docs/subjects.md: its probed world, and its examples. ``tests/e2e/test_pages.py`` runs its commands."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.examples.serving import EXAMPLES
from tests.lab.demos import environ_in
from tests.support import ROOT, free_port, until

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "subjects.md").read_text(encoding="utf-8").partition("\n## Subjects\n")[0]
WIRING, WORLD = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PROMPTS, ADDED = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


@dataclass
class Folder:
    """The reader's folder, with a shop that listens on this port."""

    path: Path
    port: int

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(self._here(text), encoding="utf-8")

    def run(self, *words: str) -> str:
        """The output of ``wirefault run`` with these words, which must succeed."""
        environ = environ_in(self.path, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
        done = wirefault(self.path, environ, "run", "--no-charts", "--toxiproxy", "embedded", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def _here(self, text: str) -> str:
        return text.replace("9000", str(self.port))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    port = free_port()
    folder = Folder(tmp_path, port)
    folder.write("wirefault.yaml", WIRING)
    folder.write("prompts.json", PROMPTS)
    shutil.copy(EXAMPLES / "requests_loop" / "agent.py", tmp_path)
    shutil.copy(EXAMPLES / "shop" / "shop.py", tmp_path)
    command = [sys.executable, "shop.py", str(port)]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as shop:
        try:
            until(lambda: _answers(port))
            yield folder
        finally:
            shop.kill()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_world_is_read(folder: Folder) -> None:
    folder.write("wirefault.yaml", WIRING + WORLD)
    folder.write("prompts.json", ADDED)
    calm = folder.run("--link", "model=scripted", "--toxic-prob", "0", "--error-prob", "0")
    assert "1/1  success" in calm


def test_table_lists_every_example() -> None:
    named = set(re.findall(r"`examples/(\w+)`", PAGE))
    assert named == {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"cookbook"}
    for agent in EXAMPLES.glob("*/agent.*"):
        lines = agent.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 60 and not any(
            re.match(r"\s*(import|from)\s.*wirefault", line) for line in lines
        )
