"""A figure that is added as one row of the table is a statement, and is in console, ``--json`` and page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.slow
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
[ROW] = re.findall(r'^Figure\("steps", .*$', ARCHITECTURE, re.MULTILINE)
EXPERIMENT = {
    "title": "New figure",
    "only": ["1", "2"],
    "seed": 3,
    "method": {"settings": {"error_prob": 1}},
    "hypothesis": ["steps >= 0", "added_steps <= 1000"],
}


def test_one_row_adds_a_figure_everywhere(tmp_path: Path) -> None:
    copy = tmp_path / "with_row"
    for name in ("wirefault", "agent", "flask_tools", "proxy_manager", "experiments"):
        shutil.copytree(ROOT / name, copy / name)
    table = copy / "wirefault" / "experiments" / "figures.py"
    before, mark, after = table.read_text(encoding="utf-8").partition('    Figure("model_requests",')
    table.write_text(f"{before}    {ROW},\n{mark}{after}", encoding="utf-8")
    (tmp_path / "exp.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")

    def wirefault(*words: str) -> str:
        environ = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "200"}
        command = [sys.executable, "-m", "wirefault", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert done.returncode in (0, 2), done.stderr
        return done.stdout

    console = wirefault("run", "exp.json")
    assert re.search(r"method +steps >= 0 +claim +held +steps \d.* interval", console)
    assert re.search(r"method +steps +\d+ \[0, unknown\], n = 2 +[+-]?\d", console)  # what failures cost
    [experiment] = (tmp_path / ".wirefault" / "logs" / "experiments").iterdir()
    document = json.loads(wirefault("report", experiment.name, "--json"))
    arms = {arm["arm"]: arm for arm in document["arms"]}
    calls = sum(row["n"] for row in arms["method"]["resilience"]["reliability"] if row["operation"] == "all")
    assert arms["method"]["measures"]["steps"]["estimate"] == calls / 2
    assert {check["statement"] for check in document["checks"]} > set(EXPERIMENT["hypothesis"])
    wirefault("report", experiment.name, "--html", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "steps &gt;= 0" in page and "added_steps" in page
