"""Some prompts alone, and the line that repeats a run: from the command line to the history to ``judge``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.judging.oracle.histories import episode, run_started
from wirefault.cli.main import main
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.saved import SavedExperiment
from wirefault.history.writer import Writer, history_file
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import PromptsSource, load_prompts


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOGS_DIR", raising=False)
    path = Path("few.json")
    path.write_text('[{"prompt": "Say hi"}, {"prompt": "Say ho", "id": "ho"}]', encoding="utf-8")
    return path


def flown(prompts: Path) -> None:
    """A history of a run of the second prompt alone, which was killed, and so has no seal."""
    writer = Writer(history_file(Path("logs"), "run-1", "agent", 0))
    source = load_prompts(prompts, ["ho"], "ho").source
    settings = Settings(seed=7, translator_backend="offline").model_dump()
    begun = replace(run_started(**settings), prompts_source=source)
    for event in [begun, *episode(expect={})]:
        writer.write(event)
    writer.close()


def said(*arguments: str) -> str:
    return " ".join(CliRunner().invoke(main, arguments).output.split())


def test_the_demo_hands_on_what_is_picked(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[PromptsSource] = []

    def fly(saved: SavedExperiment, *_: object) -> ExperimentResult:
        assert saved.plan.source is not None
        handed.append(saved.plan.source)
        return ExperimentResult(saved, code=0)

    monkeypatch.setattr("wirefault.cli.running.run_experiment", fly)
    said("demo", "--prompts", "few.json", "--only", "1", "--only", "ho", "--match", "-hi")
    assert not handed, "a mistake is found before the lab starts"
    said("demo", "--prompts", "few.json", "--only", "1", "--only", "ho", "--match", "Say h")
    assert (handed[0].file, handed[0].only, handed[0].match) == ("few.json", ["1", "ho"], "Say h")


@pytest.mark.parametrize("command", [["demo"], ["run", "--lab"]])
def test_what_is_not_there_is_said(prompts: Path, command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--prompts", "few.json", "--only", "hoo"])
    assert result.exit_code == 64
    assert "few.json: --only='hoo': no entry has this id" in result.output
    assert "did you mean 'ho'?" in result.output


def test_judge_repeats_the_run_s_own_file_and_what_was_picked(prompts: Path) -> None:
    flown(prompts)
    assert "wirefault demo --seed 7 --prompts few.json --only=ho --match=ho" in said(
        "runs", "verify", "run-1"
    )


def test_judge_says_that_the_file_has_changed_or_is_gone(prompts: Path) -> None:
    flown(prompts)
    assert "changed since the run" not in said("runs", "verify", "run-1")
    moved = prompts.rename("moved.json")
    assert "the run's prompts file is not here: few.json" in said("runs", "verify", "run-1")
    assert "--prompts moved.json --only=ho" in said("runs", "verify", "run-1", "--prompts", "moved.json")
    assert "is not here" not in said("runs", "verify", "run-1", "--prompts", "moved.json")
    prompts.write_text("[]", encoding="utf-8")
    assert "the prompts file few.json has changed since the run" in said("runs", "verify", "run-1")
    assert moved.exists()
