"""Files that a hostile container leaves in ``state/`` and ``logs/`` do the user no harm."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.commands import draw_charts
from tests.core.hostile import TRAPS, VICTIM, database_with, victim_of
from tests.report.synthetic import SyntheticRun
from wirefault.cli.main import main
from wirefault.history.events import RunStarted
from wirefault.history.writer import Writer, history_file
from wirefault.report.charts import CHARTS
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.topology import default_topology

RUN = "run-a"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variable, place in (("LOGS_DIR", "logs"), ("STATE_DB", "state/state.db")):
        monkeypatch.setenv(variable, place)
    for name in ("state", "logs"):
        (tmp_path / name).mkdir()
    return tmp_path


def refused(result: Result, name: str) -> None:
    """One line, which names the file and has no control characters; nothing was raised."""
    assert result.exit_code and isinstance(result.exception, SystemExit), result.exc_info
    lines = [line for line in result.output.splitlines() if name in line]
    assert len(lines) == 1 and "refusing to use it" in lines[0], result.output
    assert lines[0].isprintable()


def judge() -> Result:
    return CliRunner().invoke(main, ["runs", "verify", RUN])


def draw() -> Result:
    return draw_charts("--run", RUN)


def test_forged_lab_file_is_ignored(folder: Path) -> None:
    bystander = os.getpid()
    default_topology("lab-evil").dump(folder / "state" / "evil.json")
    lab = {"pid": bystander, "lab_id": "lab-evil", "topology": "state/evil.json", "processes": {}}
    (folder / "state" / "lab.json").write_text(json.dumps(lab))
    with (folder / "state" / "lab.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = CliRunner().invoke(main, ["lab", "down"])  # and this process lives on
        assert (result.exit_code, result.output) == (0, "no lab is up\n")
        assert load_configuration({}).topology.lab_id != "lab-evil"  # nor is anything sent to its addresses


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize("command", [judge, draw])
def test_history_must_be_regular_file(trap: Callable[..., None], command: Callable[[], Result]) -> None:
    path = history_file(Path("logs"), RUN, "agent", 0)
    path.parent.mkdir(parents=True)
    victim = victim_of(path.absolute())
    trap(path, victim)
    refused(command(), "agent-0.jsonl")
    assert victim.read_bytes() == VICTIM


@pytest.mark.parametrize("command", [judge, draw])
def test_linked_runs_folder_is_refused(folder: Path, command: Callable[[], Result]) -> None:
    SyntheticRun(folder / "elsewhere", run_id=RUN, prompts=1).write()
    Path("logs", "runs").symlink_to(folder / "elsewhere" / "runs")
    refused(command(), "logs/runs")


def test_invalid_settings_are_one_line() -> None:
    writer = Writer(history_file(Path("logs"), RUN, "agent", 0))
    writer.write(RunStarted(1.0, RUN, "lab", 0, 1, {"seed": "x"}, "subject", 1))
    writer.close()
    result = judge()
    assert isinstance(result.exception, SystemExit) and "the history has settings of another" in result.output


@pytest.mark.parametrize("bad", [float("nan"), 1e300, -1.0])
@pytest.mark.parametrize("command", [judge, draw])
def test_invalid_time_is_one_line(command: Callable[[], Result], bad: float) -> None:
    writer = Writer(history_file(Path("logs"), RUN, "agent", 0))
    writer.write(RunStarted(bad, RUN, "lab", 0, 1, {"seed": 1}, "subject", 1))
    writer.close()
    result = command()
    assert isinstance(result.exception, SystemExit) and "agent-0.jsonl:1: not an event: " in result.output


@pytest.mark.parametrize("command", [judge, draw])
def test_endless_line_is_bounded(command: Callable[[], Result]) -> None:
    path = history_file(Path("logs"), RUN, "agent", 0)
    path.parent.mkdir(parents=True)
    path.touch()
    os.truncate(path, 1 << 40)  # sparse: uses no disk space
    assert "larger than" in command().output


@pytest.mark.parametrize("command", [judge, draw])
def test_file_names_are_stripped(command: Callable[[], Result]) -> None:
    path = history_file(Path("logs"), RUN, f"agent{ESCAPES}", 0)
    path.parent.mkdir(parents=True)
    path.write_text("nonsense\n")
    expected = command().output
    assert "nonsense" not in expected and "Traceback" not in expected
    assert all(line.isprintable() for line in expected.splitlines())


@pytest.fixture
def one_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    name, draw_it = next(iter(CHARTS.items()))
    monkeypatch.setattr("wirefault.report.charts.CHARTS", {name: draw_it})


@pytest.mark.usefixtures("one_chart")
@pytest.mark.parametrize("trap", ["link", "hard_link"])
def test_charts_replace_links_not_their_targets(folder: Path, trap: str) -> None:
    SyntheticRun(folder / "logs", run_id=RUN, prompts=1).write()
    place = folder / "logs" / "charts" / RUN / "overview.png"
    place.parent.mkdir(parents=True)
    victim = victim_of(place)
    TRAPS[trap](place, victim)
    assert draw().exit_code == 0
    assert place.read_bytes().startswith(b"\x89PNG") and victim.read_bytes() == VICTIM


@pytest.mark.usefixtures("one_chart")
def test_charts_do_not_follow_linked_folder(folder: Path) -> None:
    SyntheticRun(folder / "logs", run_id=RUN, prompts=1).write()
    (folder / "mine").mkdir()
    (folder / "logs" / "charts").symlink_to(folder / "mine")
    refused(draw(), "overview.png")
    assert list((folder / "mine").iterdir()) == []


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize("words", [("run", "--lab"), ("demo",), ("lab", "up")], ids=" ".join)
def test_no_run_starts_on_forged_database(
    folder: Path, trap: Callable[..., None], words: tuple[str, ...]
) -> None:
    place = folder / "state" / "state.db"
    victim = victim_of(place)
    trap(place, victim)
    refused(CliRunner().invoke(main, words), "state.db")
    assert victim.read_bytes() == VICTIM


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_run_appends_to_no_linked_file(folder: Path, trap: Callable[..., None]) -> None:
    Path("prompts.json").write_text('[{"prompt": "Hello"}]')
    place = folder / "logs" / "agent.log"
    victim = victim_of(place)
    trap(place, victim)
    refused(CliRunner().invoke(main, ["run", "--lab", "--prompts", "prompts.json"]), "agent.log")
    assert victim.read_bytes() == VICTIM


def test_foreign_schema_is_refused_before_start(folder: Path) -> None:
    database_with(folder / "state" / "state.db", f'CREATE VIEW "runs{ESCAPES}" AS SELECT 1')
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 70 and "which the lab never creates" in result.output
    assert result.output.count("\n") == 1 and result.output.strip().isprintable()
