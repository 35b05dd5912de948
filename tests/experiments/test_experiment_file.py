"""Experiments as people write them; a mistake is one line with file, line, key and nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import ROOT
from wirefault.cli.main import main
from wirefault.core.errors import InputError
from wirefault.experiments.experiment import Arm, Experiment
from wirefault.experiments.experiment_file import files_meant, load_experiment
from wirefault.experiments.plan_experiment import plan_experiment

GOOD = """\
title: Lost replies
only: ["1"]
seed: 3
method:
  faults: lost-replies
hypothesis:
  - success_rate >= 0.9
"""


def problem_of(folder: Path, text: str) -> str:
    path = folder / "exp.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        plan_experiment(load_experiment(path), {"LOGS_DIR": str(folder)})
    return str(caught.value).removeprefix(str(folder) + "/")


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("title: Lost replies\n", "", "title is missing"),
        ("title:", "titel:", "exp.yaml:1: titel: no such key; did you mean 'title'?"),
        ("  faults:", "  fautls:", "exp.yaml:5: method.fautls: no such key; did you mean 'faults'?"),
        ("lost-replies", "lost-reply", "exp.yaml:5: method.faults: unknown fault set 'lost-reply'"),
        ("success_rate >=", "sucess_rate >=", "exp.yaml:7: hypothesis[1]: 'sucess_rate >= 0.9': sucess_rate"),
        ("success_rate >= 0.9", "success_rate", "'success_rate' has no comparison"),
        ("seed: 3", "settings: {modle: x}", "modle is not a setting; did you mean 'model'?"),
        ("seed: 3", "settings: {seed: 3}", "seed has a separate key, outside `settings`"),
        ("seed: 3", "settings: {attempt_time: -1}", "exp.yaml:3: settings.attempt_time: -1: Input should be"),
        ("seed: 3", "settings:\n  model: compatible", "exp.yaml:4: settings.model: MODEL=compatible needs"),
        ("seed: 3", "baseline:\n  settings: {persona: no}", "exp.yaml:4: baseline.settings.persona: "),
        ("  faults:", "  settings:\n    persona: no\n  faults:", "exp.yaml:6: method.settings.persona: "),
        ("seed: 3", "settings: {attempt_time: true}", "exp.yaml:3: settings"),
        ("seed: 3", "repeats: 0", "exp.yaml:3: repeats: Input should be greater than or equal to 1, not 0"),
        ("seed: 3", "prompts: nowhere.json", "exp.yaml:3: prompts: missing file"),
        ("seed: 3", "wiring: nowhere.yaml", "nowhere.yaml: cannot be read"),
        ("seed: 3", "baseline: {settings: {error_prob: 1}}", "error_prob: would affect the control"),
        (
            "seed: 3",
            "settings: {toxic_prob: 0.5}",
            "exp.yaml:3: settings: toxic_prob: would affect the control",
        ),
        ("seed: 3", "baseline: {faults: heavy}", "exp.yaml:3: baseline.faults: no such key"),
        ("seed: 3", "steady_state: [degradation < 1]", "degradation is not a measure"),
        ('["1"]', '["99"]', "unknown id"),
        ("  faults: lost-replies", '  settings: {toxic_prob: "0"}', "method: missing faults: set `faults`"),
        ("method:\n  faults: lost-replies", "method: {}", "method: missing faults: set `faults`"),
        ("method:\n  faults: lost-replies\n", "", "needs one of `method`, `variants`"),
        ("method:\n  faults:", "variants:\n  control:\n    faults:", "control: a name is"),
        ("hypothesis:\n  - success_rate >= 0.9\n", "", "method: missing hypothesis: state what must hold"),
        ("title: Lost replies", "- a list", "must be a mapping with `title` and `hypothesis`"),
    ],
)
def test_invalid_file_is_one_line(tmp_path: Path, good: str, bad: str, message: str) -> None:
    text = GOOD.replace(good, bad) if not bad.startswith("- ") else bad
    problem = problem_of(tmp_path, text)
    assert message in problem and "\n" not in problem


def test_invalid_setting_of_the_environment_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    (tmp_path / "exp.yaml").write_text(GOOD)
    environ = {"LOGS_DIR": str(tmp_path), "ATTEMPT_TIME": "-1"}
    with pytest.raises(InputError, match=r"^environment: ATTEMPT_TIME='-1': Input should be"):
        plan_experiment(load_experiment(tmp_path / "exp.yaml"), environ)


def test_invalid_prompt_is_error(tmp_path: Path) -> None:
    text = GOOD.replace('only: ["1"]', "prompts:\n  - {prompt: Hello}\n  - {promt: Hello}")
    assert "exp.yaml: prompts: entry 2 is skipped: unknown key 'promt'" in problem_of(tmp_path, text)


def test_plan_says_which_columns_of_samples_were_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cases.json").write_text('[{"input": "Capital?", "expected": "Paris", "kind": "geo"}]')
    Path("exp.yaml").write_text(GOOD.replace('only: ["1"]', "prompts: cases.json"))
    result = CliRunner().invoke(main, ["plan", "exp.yaml"])
    taken = 'prompt from "input", expected answer from "expected"; not shown to the agent: kind'
    assert taken in " ".join(result.stderr.split()), result.output


def test_folder_files_are_read_by_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "notes.txt"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    assert [path.name for path in files_meant(tmp_path)] == ["a.yml", "b.yaml"]
    with pytest.raises(InputError, match="no experiment in this folder"):
        files_meant(ROOT / "logs")


def test_python_experiment_equals_yaml() -> None:
    experiment = Experiment(title="x", method=Arm(faults="heavy"), hypothesis=["no duplicate"])
    assert list(experiment.faulted_arms) == ["method"]
    with pytest.raises(ValueError, match="is not a measure; did you mean 'duplicate'"):
        Experiment(title="x", method=Arm(faults="heavy"), hypothesis=["no duplicat"])


def more(conversation: object) -> None: ...


def test_python_function_needs_name() -> None:
    entry = {"prompt": "Hello", "id": "hello", "next_turn": more}
    experiment = Experiment(title="x", prompts=[entry], method=Arm(faults="heavy"), hypothesis=["no crash"])
    assert experiment.prompts == [{**entry, "next_turn": f"{__name__}:more"}]
    with pytest.raises(ValueError, match="must be a top-level function of an importable module"):
        Experiment(title="x", prompts=[{**entry, "next_turn": lambda _: None}], method=Arm(faults="heavy"))


def test_wiring_is_named_as_such(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, "links: {shop: {upstream: 'http://127.0.0.1:9'}}\nprompts: prompts.json\n")
    assert problem.startswith("exp.yaml is a wiring, not an experiment") and "`wiring: exp.yaml`" in problem


def test_program_is_not_experiment(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text("import os\nx = {1: [}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a program is run after --: wirefault exec -- COMMAND"):
        load_experiment(program)
