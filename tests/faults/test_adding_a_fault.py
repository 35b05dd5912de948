"""docs/extending.md, followed step by step; the same fault is added to the HTTP family too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.faults.catalogue.clients.upstream import answering
from tests.faults.tries import a_try
from tests.gateway.lab import gateway
from tests.pages import page_section
from tests.support import PATIENCE_S, ROOT, RUN_PATIENCE_S, copy_sources
from tools.fault_pages import fault_page
from wirefault.dialects.http import json_reply
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import load_set
from wirefault.wiring.links import lab_links

pytestmark = pytest.mark.slow

SETS = (ROOT / "docs" / "fault-sets.md").read_text(encoding="utf-8")
PAGE = page_section("extending.md", "A fault")
CODE, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[OBJECTS] = re.findall(r"```python\n(.*?)```", SETS, re.DOTALL)
[DIFF] = re.findall(r"```diff\n(.*?)```", PAGE, re.DOTALL)
SET, *_ = re.findall(r"```yaml\n(.*?)```", SETS, re.DOTALL)


def add_fault(tree: Path, family: str) -> None:
    """The page's example in a copy of the library: one new file, and the lines of the diff."""
    catalogue = tree / "wirefault" / "faults" / "catalogue" / family
    code = CODE.replace('family = "meaning"', f'family = "{family}"').replace(
        'where = "tool"', 'where = "any"'
    )
    (catalogue / "rounded.py").write_text(code, encoding="utf-8")
    listing = catalogue / "__init__.py"
    import_line, entry = re.findall(r"^\+(.*)$", DIFF.replace("meaning", family), re.MULTILINE)
    head = f"{family.upper()}_FAULTS: tuple[type[Fault], ...] = ("
    text = listing.read_text(encoding="utf-8").replace(head, f"{import_line}\n\n{head}\n{entry}")
    listing.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("family", ["meaning", "http"])
def test_two_files_add_a_fault(tmp_path: Path, family: str) -> None:
    for name in ("wirefault", "tools", "bench"):
        copy_sources(ROOT / name, tmp_path / name)
    add_fault(tmp_path, family)
    script = (
        "from wirefault.cli.faults import faults_command as faults\n"
        "from wirefault.judging.charted import group_of\n"
        "from tools.fault_pages import faults_page\n"
        "print(group_of('rounded'), '### rounded' in faults_page({}))\n"
        "faults(['show', 'rounded'])"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
    )
    group, _, page = ran.stdout.partition("\n")
    assert group in ("wrong_in_content True", "other_fault True"), ran.stderr
    assert "Numbers in a JSON reply are rounded." in page and "digits" in page


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The page's module, with its fault registered as the page shows."""
    names: dict[str, Any] = {"__name__": "the_page", "a_try": a_try, "json_reply": json_reply}
    exec(compile(CODE, "adding-a-fault.md", "exec", dont_inherit=True), names)
    monkeypatch.setitem(REGISTRY.own, "rounded", names["Rounded"])
    return names


def test_example_test_passes(written: dict[str, Any]) -> None:
    exec(compile(TEST, "adding-a-fault.md", "exec"), written)
    written["test_numbers_are_rounded"]()


def test_example_has_about_thirty_lines() -> None:
    body = CODE[CODE.index("class Rounded") :]
    assert len(body.splitlines()) <= 35


def test_example_is_usable_in_set_and_has_page(written: dict[str, Any]) -> None:
    fault_set = load_set(SET, "the page", REGISTRY, lab_links())
    assert [entry.id for entry in fault_set.faults] == ["rounded", "lost-messages"]
    assert [toxic.id for toxic in fault_set.toxics] == ["latency"]
    assert "| `digits` | `0` | ≥ 0, ≤ 6 | decimal places that remain |" in fault_page(written["Rounded"])


def test_set_can_be_written_in_python() -> None:
    exec(compile(OBJECTS, "adding-a-fault.md", "exec", dont_inherit=True), {})


def test_example_works_on_wire(written: dict[str, Any], tmp_path: Path) -> None:
    with (
        answering(json_reply(200, {"celsius": 21.37})) as upstream,
        gateway(tmp_path, weather=upstream.address) as lab,
    ):
        lab.begin(faults={"faults": [{"fault": "rounded", "with": {"digits": 1}}]})
        answer = requests.get(
            lab.url("weather", "/weather"), headers=lab.identity("weather"), timeout=PATIENCE_S
        )
        [recorded] = lab.exchange().faults
    assert answer.json() == {"celsius": 21.4}
    assert recorded.injected and recorded.evidence["original"] == {"celsius": 21.37}
