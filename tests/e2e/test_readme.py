"""The README; ``test_pages.py`` runs its commands."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests import commands
from tests.lab.demos import environ_in
from tests.support import ROOT
from wirefault.core.lab_folder import MARKER

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder that is a lab, as a clone is."""
    for name in ("agent", "experiments", "flask_tools", "proxy_manager", "charts.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / MARKER).touch()
    return tmp_path


def test_demo_meets_a_third_of_its_toxics_and_writes_logs_and_state(lab: Path) -> None:
    words = ("demo", "--no-charts", "--json", "--seed", "1")
    done = commands.wirefault(lab, environ_in(lab, PATH=os.environ["PATH"]), *words)
    assert done.returncode == 0, done.stderr
    toxics = [row for row in json.loads(done.stdout)["faults"] if row["source"] == "toxic"]
    drawn, reached = (sum(row[stage] for row in toxics) for stage in ("drawn", "met"))
    assert 0 < drawn <= 3 * reached
    assert (lab / "logs" / "agent.log").read_text(encoding="utf-8").count("\n") >= 24
    assert sorted(path.name for path in (lab / "state").iterdir()) == ["effects.db", "state.db"]


def test_readme_is_short_and_links_exist() -> None:
    assert len(README.splitlines()) <= 168
    for path in re.findall(r"\]\(((?:docs/|CHANGELOG)[^)#]*)", README):
        assert (ROOT / path).exists(), path
