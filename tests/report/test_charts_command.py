"""``charts.py`` on the command line: choice of the run, output files, and errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import draw_charts
from tests.report.synthetic import SyntheticRun
from tests.support import ROOT
from wirefault.history.writer import history_file
from wirefault.report import charts

pytestmark = pytest.mark.slow


def _charts(logs, *arguments):
    return draw_charts("--logs", str(logs), *arguments)


@pytest.fixture
def logs(tmp_path):
    for number, run_id in enumerate(("zeta", "alpha-1", "alpha-2")):
        SyntheticRun(tmp_path, run_id=run_id, prompts=2, start=1e9 + 100 * number).write()
    return tmp_path


@pytest.fixture
def one_chart(monkeypatch):
    """Draw only the page of successes, if the content does not matter."""
    monkeypatch.setattr(charts, "CHARTS", {"success": charts.CHARTS["success"]})


def _refused(result, *parts):
    assert result.exit_code in (64, 70)
    assert isinstance(result.exception, SystemExit)
    assert all(part in result.stderr for part in parts), result.stderr


def test_newest_run_is_default_and_files_are_printed(logs):
    result = _charts(logs)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert str(logs / "charts" / "alpha-2" / "overview.png") in lines
    assert all(Path(line).is_file() for line in lines)


@pytest.mark.parametrize(("wanted", "folder"), [("zeta", "zeta"), ("z", "zeta"), ("all", "all")])
def test_run_by_id_or_prefix(logs, one_chart, wanted, folder):
    assert _charts(logs, "--run", wanted).exit_code == 0
    assert (logs / "charts" / folder / "success.png").is_file()


def test_out_option_selects_folder(logs, one_chart, tmp_path):
    assert _charts(logs, "--out", str(tmp_path / "here" / "there")).exit_code == 0
    assert (tmp_path / "here" / "there" / "success.png").is_file()


def test_unknown_run_names_newest(logs):
    _refused(_charts(logs, "--run", "nope"), "unknown run 'nope'", "zeta", "alpha-1")


def test_ambiguous_prefix_names_matches(logs):
    _refused(_charts(logs, "--run", "alpha"), "fits 2 runs", "alpha-1", "alpha-2")


@pytest.mark.parametrize("wanted", ["../zeta", "", "/"])
def test_run_argument_is_never_path(logs, wanted):
    _refused(_charts(logs, "--run", wanted), "unknown run")


def test_missing_logs_are_named(tmp_path):
    _refused(_charts(tmp_path / "gone"), "gone", "no such folder")


@pytest.mark.parametrize("folder", ["", "runs", "runs/x"])
def test_empty_logs_explain_how_to_start_run(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    _refused(_charts(tmp_path), str(tmp_path / "runs"), "make run")


@pytest.mark.parametrize("line", ["{", "{}", "", '{"event":"note","t":"x"}'])
def test_broken_line_names_file_and_line(logs, line):
    path = history_file(logs, "alpha-2", "agent", 0)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], line, *lines[3:], ""]))
    result = _charts(logs)
    assert result.exit_code == 2 and f"{path}:4: altered or inserted" in result.stderr


def test_undated_run_is_left_out_with_note(logs, one_chart):
    (logs / "runs" / "begun").mkdir()
    result = _charts(logs)
    assert result.exit_code == 0
    assert "left out" in result.stderr and "begun" in result.stderr


def test_run_without_agent_file_is_refused(logs):
    history_file(logs, "zeta", "agent", 0).unlink()
    _refused(_charts(logs, "--run", "zeta"), "zeta", "no run_started")


def test_torn_last_line_is_noted(logs, one_chart):
    with history_file(logs, "zeta", "agent", 0).open("a") as file:
        file.write('{"event":"no')
    result = _charts(logs, "--run", "zeta")
    assert result.exit_code == 0
    assert "1 unfinished last line" in result.stderr


def test_unwritable_folder_is_named(logs):
    (logs / "charts").write_text("a file where the folder should be")
    _refused(_charts(logs), "charts")


@pytest.mark.slow
def test_charts_script_runs_from_root(logs, tmp_path):
    command = [sys.executable, "charts.py", "--logs", str(logs), "--run", "zeta"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "evidence of zeta: whole, not signed\n")


def test_missing_matplotlib_is_one_line(logs, tmp_path):
    hidden = (
        f"import sys; sys.modules['matplotlib'] = None; sys.argv[:] = {['charts.py', '--logs', str(logs)]}"
    )
    code = f"{hidden}; import runpy; runpy.run_path('charts.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    [line] = done.stderr.splitlines()
    assert line.startswith("charts: the Python package matplotlib is not installed: ")


def test_altered_run_is_not_drawn(logs, one_chart):
    path = history_file(logs, "zeta", "agent", 0)
    path.write_bytes(path.read_bytes().replace(b'"ms":', b'"ms":1', 1))
    result = _charts(logs, "--run", "zeta")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"charts: altered: {path}:" in result.stderr


@pytest.mark.parametrize("option", ["--nonsense", "--ru=zeta", "zeta"])
def test_unknown_option_is_one_line(logs, option):
    result = _charts(logs, option)
    assert result.exit_code == 64 and option in result.stderr and len(result.stderr.splitlines()) == 1
