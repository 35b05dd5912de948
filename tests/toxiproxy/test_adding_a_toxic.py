"""docs/extending.md, followed step by step in a copy of the sources."""

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

pytestmark = pytest.mark.slow

PAGE = page_section("extending.md", "A toxic")
CODE, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
DIFFS = re.findall(r"```diff\n(.*?)```", PAGE, re.DOTALL)
CODE_FILE, LIST_FILE, TEST_FILE = re.findall(r"^(?:In )?`([\w/]+\.py)`", PAGE, re.MULTILINE)
COPIED = (
    *("tests/__init__.py", "tests/support.py", "tests/shared_imports.py"),
    *("bench", "tests/conformance", "tests/toxiproxy", "tools", "wirefault", "flask_tools"),
)

# Everything that the lab derives from a toxic defined by these two files only.
DERIVED = """
from wirefault.wiring.links import lab_links
from tools.reference import toxics_section
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import load_set
from wirefault.report.charts.style import fault_color
from wirefault.settings.settings import Settings
from wirefault.toxiproxy.toxics import toxic
from wirefault.toxiproxy.toxics.text_form import parse

assert str(parse("stall@upstream:500")) == "stall@upstream:500"
[spec] = Settings(seed=1, toxics="stall:500").toxic_specs
assert spec.attributes == {"delay": 500, "bytes": 20}
[entry] = load_set("toxics: [{toxic: stall, with: {delay: 7}}]", "the page", REGISTRY, lab_links()).toxics
assert (entry.id, entry.spec.attributes["delay"]) == ("stall", 7)
assert toxic("stall").fixed_delay_ms(spec.attributes) == 500
assert fault_color("stall") == "#44aa99"
assert "| `delay` (main) | ms | 300 | 0 to 3600000 | time for which data is held back |" in toxics_section()
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, to which the page's files and list entries are added."""
    tree = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        (tree / name).parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            copy_sources(ROOT / name, tree / name)
        else:
            shutil.copy(ROOT / name, tree / name)
    (tree / CODE_FILE).write_text(CODE, encoding="utf-8")
    (tree / TEST_FILE).write_text(TEST, encoding="utf-8")
    listed = (tree / LIST_FILE).read_text(encoding="utf-8")
    for diff in DIFFS:
        before = re.sub(r"^\+.*\n", "", diff, flags=re.MULTILINE).replace("\n ", "\n")[1:]
        assert listed.count(before) == 1
        listed = listed.replace(before, re.sub(r"^.", "", diff, flags=re.MULTILINE))
    (tree / LIST_FILE).write_text(listed, encoding="utf-8")
    return tree


def succeeds(tree: Path, *arguments: str) -> None:
    environ = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    ended = subprocess.run(
        command, cwd=tree, env=environ, capture_output=True, text=True, timeout=RUN_PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_own_and_common_toxic_tests_pass(tree: Path) -> None:
    succeeds(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/toxiproxy/toxics")


def test_other_tables_derive_from_list(tree: Path) -> None:
    succeeds(tree, "-c", DERIVED)


def test_example_has_about_forty_lines() -> None:
    body = CODE[CODE.index("class StallToxic") :]
    assert len(body.splitlines()) <= 42
