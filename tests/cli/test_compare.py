"""``wirefault compare``: exit codes and printed text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from tests.experiments.test_compare import SavedRuns
from tests.support import replace
from wirefault.cli.main import main
from wirefault.experiments.compare import compare as compare_sides
from wirefault.experiments.compare import side_of
from wirefault.history.judged_events import Outcome
from wirefault.report.comparison import print_comparison


def compare(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["compare", *words, "--out", str(folder)])


@pytest.mark.parametrize(
    ("second", "code", "expected"),
    [
        ("S" * 10, 0, "the second is not shown to be worse"),
        ("F" * 10, 1, "the second is worse, beyond the interval"),
        ("I" * 10, 2, "the second is perhaps worse"),
    ],
)
def test_exit_code_matches_verdict_text(tmp_path: Path, second: str, code: int, expected: str) -> None:
    recorded = SavedRuns(tmp_path / "logs")
    recorded.run("run-1", "S" * 10)
    recorded.run("run-2", second)
    result = compare(tmp_path, "run-1", "run-2")
    assert (result.exit_code, expected in result.output) == (code, True)
    comparison = json.loads(compare(tmp_path, "run-1", "run-2", "--json").output)
    assert (comparison["change"] == "worse") == (code == 1)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["unjudged"], "the second is not judged: success is not compared"),
        (["success", "unjudged"], "the second is not worse; not judged in unjudged: success is not compared"),
    ],
)
def test_arm_without_judged_episode_is_not_called_worse(
    tmp_path: Path, outcomes: list[Outcome], expected: str
) -> None:
    side = side_of(SavedRuns(tmp_path / "logs").run("run-1", "S" * 10))
    [arm] = side.arms.values()
    arms = {
        each: replace(arm, outcomes=dict.fromkeys(arm.outcomes, each), has_oracle=each != "unjudged")
        for each in outcomes
    }
    console = Console(record=True, width=200)
    compared = replace(side, arms=arms, is_experiment=True)
    print_comparison(console, compare_sides(compared, compared), concludes=True)
    assert expected in console.export_text()


def test_changed_outcomes_show_their_prompts(tmp_path: Path) -> None:
    recorded = SavedRuns(tmp_path / "logs")
    recorded.run("run-1", "SS")
    recorded.run("run-2", "SF", settings={"tool_limit": 3})
    lines = compare(tmp_path, "run-1", "run-2").output.splitlines()
    assert "  e1  success -> honest_failure  Message Bob" in lines
    assert "tool_limit" in "".join(lines) and "-50 points [" in "".join(lines)


def test_missing_run_is_usage_error(tmp_path: Path) -> None:
    SavedRuns(tmp_path / "logs").run("run-1", "S")
    result = compare(tmp_path, "run-1", "run-3")
    assert result.exit_code == 64 and "did you mean 'run-1'?" in result.output
