"""Some prompts alone, and the line that repeats a run: from the command line to the history to ``judge``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.judging.oracle.histories import episode, run_started
from tests.support import replace
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


def recorded(prompts: Path) -> None:
    """A history of a run of the second prompt alone, which was killed, and so has no seal."""
    writer = Writer(history_file(Path(".wirefault/logs"), "run-1", "agent", 0))
    source = load_prompts(prompts, ["ho"], "ho").source
    settings = Settings(seed=7, translator_backend="offline").model_dump()
    begun = replace(run_started(**settings), prompts_source=source)
    for event in [begun, *episode(expect={})]:
        writer.write(event)
    writer.close()


def expected(*arguments: str) -> str:
    return " ".join(CliRunner().invoke(main, arguments).output.split())


def test_demo_passes_selected_prompts_on(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[PromptsSource] = []

    def fake_run(saved: SavedExperiment, *_: object) -> ExperimentResult:
        assert saved.plan.source is not None
        handed.append(saved.plan.source)
        return ExperimentResult(saved, code=0)

    monkeypatch.setattr("wirefault.cli.own_lab.run_experiment", fake_run)
    expected("demo", "--prompts", "few.json", "--only", "1", "--only", "ho", "--match", "-hi")
    assert not handed, "a mistake is found before the lab starts"
    expected("demo", "--prompts", "few.json", "--only", "1", "--only", "ho", "--match", "Say h")
    assert (handed[0].file, handed[0].only, handed[0].match) == ("few.json", ["1", "ho"], "Say h")


@pytest.mark.parametrize("command", [["demo"], ["run", "--lab"]])
def test_missing_prompt_is_reported(prompts: Path, command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--prompts", "few.json", "--only", "hoo"])
    assert result.exit_code == 64
    assert "few.json: --only='hoo': unknown id" in result.output
    assert "did you mean 'ho'?" in result.output


def test_verify_repeats_file_and_selection(prompts: Path) -> None:
    recorded(prompts)
    assert "wirefault demo --seed 7 --prompts few.json --only=ho --match=ho" in expected(
        "runs", "verify", "run-1"
    )


def test_verify_notes_changed_or_missing_file(prompts: Path) -> None:
    recorded(prompts)
    assert "changed since the run" not in expected("runs", "verify", "run-1")
    moved = prompts.rename("moved.json")
    assert "the run's prompts file is not here: few.json" in expected("runs", "verify", "run-1")
    assert "--prompts moved.json --only=ho" in expected("runs", "verify", "run-1", "--prompts", "moved.json")
    assert "is not here" not in expected("runs", "verify", "run-1", "--prompts", "moved.json")
    prompts.write_text("[]", encoding="utf-8")
    assert "the prompts file few.json has changed since the run" in expected("runs", "verify", "run-1")
    assert moved.exists()
