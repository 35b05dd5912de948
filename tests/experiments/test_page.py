"""docs/experiments.md: its example can be planned, and `wirefault plan` shows the effect of its options."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support import ROOT
from wirefault.cli.main import main

PAGE = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").partition("\n## Budgets\n")[0]
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
WHOLE = [block for block in BLOCKS if block.startswith("title:")]
EXAMPLE = WHOLE[0]
[SAFETY] = [block for block in BLOCKS if block.startswith("safety:")]


@pytest.mark.parametrize("text", WHOLE[1:])
def test_page_experiment_can_be_planned(example: str, text: str) -> None:
    Path("another.yaml").write_text(text, encoding="utf-8")
    assert "control-after" in planned("another.yaml")


def planned(*words: str) -> str:
    done = CliRunner().invoke(main, ["plan", *words])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    links: dict[str, dict[str, Any]] = {
        "model": {"upstream": "scripted", "dialect": "openai_chat", "env": "OPENAI_BASE_URL"}
    }
    links["shop"] = {"upstream": "http://127.0.0.1:9000", "env": "SHOP_URL", "writes": ["POST /orders"]}
    wiring = {"links": links, "subject": {"command": ["python", "agent.py", "{prompt}"]}}
    (tmp_path / "wirefault.yaml").write_text(json.dumps(wiring), encoding="utf-8")
    (tmp_path / "prompts.json").write_text('[{"prompt": "One"}, {"prompt": "Two"}]', encoding="utf-8")
    (tmp_path / "example.yaml").write_text(EXAMPLE, encoding="utf-8")
    return "example.yaml"


def test_example_can_be_planned(example: str) -> None:
    assert "3 arms of 10 episodes each: 30 episodes, seed 7" in planned(example)


def test_example_can_be_made_safe(example: str) -> None:
    Path(example).write_text(EXAMPLE + SAFETY, encoding="utf-8")
    page = planned(example)
    assert "method: 5 of 10 episodes are outside the blast radius" in page
    assert "aborted as soon as: error_rate > 50 %; time > 10min" in page
    assert "no episodes start after 1800 s" in page


def test_plan_estimates_fault_rates(example: str) -> None:
    assert re.search(r"method +lost-writes \(lose_reply\) +shop +50 % of tries", planned(example))


def test_each_option_changes_plan(example: str) -> None:
    assert "3 arms of 3 episodes each: 9 episodes, seed 8" in planned(
        example, "--repeats", "3", "--seed", "8", "--only", "2"
    )
    refused = CliRunner().invoke(main, ["plan", example, "--set", "attempt_time=never"])
    assert refused.exit_code == 64 and "settings.attempt_time: 'never'" in refused.output


def test_python_experiment_plans_like_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "checks.py").write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.delitem(sys.modules, "checks", raising=False)
    page = planned("checks:orders", "--seed", "4", "--only", "1")
    assert "A lost reply does not make my agent order twice" in page and "3 episodes, seed 4" in page
    assert planned("checks.py:orders", "--seed", "4", "--only", "1") == page.replace("checks:", "checks.py:")
    assert planned("checks.py", "--seed", "4", "--only", "1") == page.replace("checks:", "checks.py:")
    (tmp_path / "json.py").write_text("")  # hidden by the standard library's, which is loaded
    (tmp_path / "empty_one.py").write_text("")
    refusals = [
        ("checks:Arm", "must be a wirefault"),
        ("nowhere:x", "cannot be imported"),
        ("nowhere.py:x", "no file nowhere.py"),
        ("nowhere.py", "no file nowhere.py"),
        ("empty_one.py", "no Experiment at its top level"),
        ("json.py:x", "another module has the name json: rename the file"),
    ]
    for name, message in refusals:
        refused = CliRunner().invoke(main, ["plan", name])
        assert refused.exit_code == 64 and message in refused.output


def test_shipped_experiments_plan_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert re.search(r"^wirefault plan experiments$", PAGE, re.MULTILINE)
    for path in (ROOT / "experiments").glob("*.yaml"):
        assert path.read_text(encoding="utf-8").splitlines()[0].removeprefix("title: ") in planned(
            "experiments"
        )


def test_experiments_are_picked_by_title_or_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert "Nothing is said of an agent" not in planned("experiments", "--filter", "HONESTY")
    page = planned("experiments", "--filter", "*write twice", "--filter", "no such tag")
    assert page.count(" episodes, seed") == 1 and "A lost reply does not" in page
    refused = CliRunner().invoke(main, ["plan", "experiments", "--filter", "nothing"])
    assert refused.exit_code == 64 and "no experiment has this title or tag; tags: " in refused.output


def test_prompts_are_selected_by_id_pattern(example: str) -> None:
    Path("prompts.json").write_text('[{"prompt": "One", "id": "a-1"}, {"prompt": "Two", "id": "b-1"}]')
    assert "3 arms of 5 episodes each" in planned(example, "--only", "a-*")
    refused = CliRunner().invoke(main, ["plan", example, "--only", "c-*"])
    assert refused.exit_code == 64 and "no prompt has a matching id" in refused.output


def test_dry_run_is_plan_and_starts_nothing(example: str) -> None:
    done = CliRunner().invoke(main, ["run", example, "--dry-run"])
    assert (done.exit_code, done.output) == (0, planned(example)) and not Path(".wirefault").exists()


def test_plan_does_not_guess_time(example: str) -> None:
    assert "time unknown, money unknown, it has not run here yet" in planned(example)
    timing = {"seconds": 20.0, "episodes": 10, "workers": 2}
    folder = Path(".wirefault/logs/experiments/e1")
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    title = "A lost reply does not make my agent order twice"
    (folder / "verdict.json").write_text(json.dumps({"title": title, "timing": timing}))
    estimate = "about 60.0 s, money unknown, as in e1, where 10 episodes took 20.0 s with --workers 2"
    assert estimate in planned(example).replace("\n", " ")


@pytest.mark.parametrize(
    "words",
    [
        ("x.yaml", "--retry-invalid", "-1"),
        ("--set", "attempt_time", "x.yaml"),
        ("--fail-fast",),
        ("x.yaml", "--prompt", "Hello"),
        ("x.yaml", "--subject", "lab"),
        ("x.yaml", "--workers", "0"),
        ("x.yaml", "--workers", "many"),
    ],
)
def test_incompatible_options_are_refused(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(main, ["run", *words]).exit_code == 64


@pytest.mark.parametrize("levels", ["", "0", "-1", "1,many", "101", "nan"])
def test_invalid_levels_are_refused(levels: str) -> None:
    assert CliRunner().invoke(main, ["run", "x.yaml", "--levels", levels]).exit_code == 64
