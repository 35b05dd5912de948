"""docs/your-agent.md and docs/first-experiment.md, followed step by step."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.examples.serving import shop
from tests.lab.demos import environ_in
from tests.support import ROOT

pytestmark = pytest.mark.slow


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Callable[[str, str], None]]:
    """Write a block of a page as a file, with the address of a running shop."""
    with shop(tmp_path / "shop.db") as running:
        port = running.url.rpartition(":")[2]
        yield lambda name, text: (tmp_path / name).write_text(text.replace("9000", port), encoding="utf-8")


def run(folder: Path, line: str) -> tuple[int, str]:
    command, *words = shlex.split(line)[1:]
    embedded = [] if command in ("plan", "show") else ["--toxiproxy", "embedded"]
    environ = environ_in(folder, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin")
    done = wirefault(folder, environ, command, *embedded, *words)
    return done.returncode, done.stdout + done.stderr


def test_tutorial_finds_second_order_and_proves_fix(tmp_path: Path, write) -> None:
    [agent], [wiring], [prompts] = (blocks("your-agent.md", kind) for kind in ("python", "yaml", "json"))
    unchanged, declared = blocks("your-agent.md", "sh")
    write("agent.py", agent)
    code, text = run(tmp_path, unchanged)
    assert code in (0, 1, 2), text  # the draw depends on the shop's port
    write("wirefault.yaml", wiring)
    write("prompts.json", prompts)
    code, text = run(tmp_path, declared)
    assert code == 0 and "1/1" in text, text

    write("lost-reply.yaml", blocks("first-experiment.md", "yaml")[0])
    plan, fixed = blocks("first-experiment.md", "sh")
    plan, first = plan.splitlines()
    assert run(tmp_path, plan)[0] == 0
    code, text = run(tmp_path, first)
    assert code == 1 and "deviated: method: no duplicate: duplicate 4 of 4" in text
    [why] = re.findall(r"^why: (.*)$", text, re.MULTILINE)
    assert re.search(r"^harmful +4  POST .orders was sent again", text, re.MULTILINE), text
    assert run(tmp_path, why)[1].startswith("duplicate  episode tea of "), text

    fix_import, fix_order = blocks("first-experiment.md", "python")[0].strip().split("\n\n")
    fixed_agent = re.sub(r"^ORDER = .*$", lambda _: f"{fix_import}\n{fix_order}", agent, flags=re.MULTILINE)
    write("agent.py", fixed_agent)
    code, text = run(tmp_path, fixed.strip())
    assert code == 0 and "held" in text, text
