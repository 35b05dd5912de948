"""``charts.py`` with matplotlib alone draws what a run stored at its end, unchecked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from tests.commands import draw_charts
from tests.report.synthetic import SyntheticRun
from tests.support import ROOT
from wirefault.history.reader import read_run
from wirefault.judging.chart_data import CHARTS_FILE, decode_run, encode_run
from wirefault.judging.charted import run_data

pytestmark = pytest.mark.slow

ALONE = """
import sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refusal())
sys.argv[:] = {words}
import runpy
runpy.run_path("charts.py", run_name="__main__")
"""


def _others() -> list[str]:
    """The top-level modules of all installed packages but matplotlib, what it requires, and Wirefault."""
    needed, pending = set[str](), ["matplotlib", "wirefault"]
    while pending:
        name = pending.pop()
        needed.add(name)
        required = [each for each in requires(name) or () if ";" not in each and name != "wirefault"]
        pending += {re.split(r"[^\w.-]", each)[0].lower() for each in required} - needed
    modules = packages_distributions().items()
    return [module for module, owners in modules if not needed & {each.lower() for each in owners}]


def _store(logs: Path, run_id: str) -> bytes:
    """Store the data of a synthetic run, as the runner does at its end."""
    data = encode_run(run_data(read_run(logs, run_id)))
    (logs / "runs" / run_id / CHARTS_FILE).write_bytes(data)
    return data


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for number, run_id in enumerate(("early", "late", "killed")):
        ended = run_id != "killed"
        SyntheticRun(tmp_path, run_id=run_id, prompts=3, start=1e9 + 100 * number, finish=ended).write()
        if ended:
            _store(tmp_path, run_id)
    return tmp_path


def _alone(logs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = ALONE.format(names=_others(), words=["charts.py", "--logs", str(logs), *words])
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)


def test_drawn_as_with_all_packages(logs: Path, tmp_path: Path) -> None:
    alone = _alone(logs, "--run", "late", "--out", str(tmp_path / "alone"))
    assert alone.returncode == 0, alone.stderr
    assert re.fullmatch(r"evidence of late: not checked: .* msgspec is not installed\n", alone.stderr)
    draw_charts("--logs", str(logs), "--run", "late", "--out", str(tmp_path / "whole"))
    alone_files, whole_files = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("alone", "whole")
    )
    assert len(alone_files) == 7 and alone_files == whole_files


def test_killed_run_has_one_line_that_says_what_to_do(logs: Path) -> None:
    for words in ((), ("--run", "killed")):
        done = _alone(logs, *words)
        [line] = done.stderr.splitlines()
        assert done.returncode == 64 and re.match(r"charts: run killed: no charts.json: .*make setup", line)


def test_all_runs_leave_killed_one_out(logs: Path) -> None:
    done = _alone(logs, "--run", "all")
    assert done.returncode == 0 and "note: left out run killed: " in done.stderr
    assert (logs / "charts" / "all" / "overview.png").is_file()


def test_control_of_experiment_decides_outcome(logs: Path) -> None:
    (logs / "runs" / "late").rename(logs / "runs" / "x-2-method")
    facts = logs / "experiments" / "x" / "facts" / "x-2-method.json"
    facts.parent.mkdir(parents=True)
    judged = [{"judged": {"episode": f"e00{number}", "outcome": "duplicate"}} for number in (1, 2, 3)]
    facts.write_text(json.dumps({"facts": {"episodes": judged}}))
    (logs / "experiments" / "x" / "audit.json").write_text('{"dry_run": false}')
    assert _titles(logs, "x-2-method") == "0 of 3 prompts succeeded (0 %, 95 % interval 0-71 %)"


def _titles(logs: Path, run_id: str) -> str:
    from unittest.mock import patch

    from wirefault.report.charts.select import select_runs
    from wirefault.report.charts.style import success_rate, success_title

    with patch.dict(sys.modules, {"wirefault.report.charts.recorded": None}):
        selection = select_runs(logs, run_id, warn=pytest.fail)
    return success_title(success_rate(selection), selection)


def test_damaged_data_are_one_line(logs: Path) -> None:
    (logs / "runs" / "late" / CHARTS_FILE).write_text('{"run_id": "late"}')
    [line] = _alone(logs, "--run", "late").stderr.splitlines()
    assert line.startswith(f"charts: {logs}/runs/late/charts.json: not the data of charts of this version: ")


def test_stored_data_are_read_back(logs: Path) -> None:
    assert decode_run(_store(logs, "late")) == run_data(read_run(logs, "late"))
