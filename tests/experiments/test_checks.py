"""``checks``, and its other names: what is about each episode, what about the arm, and claims about rates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.assertions.test_verdict_of_assertions import episode_events
from tests.experiments.test_arm_history import write
from tests.experiments.test_verdict import AFTER, CONTROL
from tests.judging.oracle.histories import run_finished, run_started
from wirefault.core.errors import InputError
from wirefault.experiments.checks import statements_in
from wirefault.experiments.experiment import Arm, Experiment
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.expression import exactly
from wirefault.experiments.measure import Measure
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.saved import SavedExperiment, save
from wirefault.experiments.verdict import Judged, judge_experiment
from wirefault.report.experiment_plan import undecidable_lines

BOTH = ["completes", "seconds <= 30"]
SPELLINGS: dict[str, dict[str, Any]] = {
    "checks": {"checks": BOTH},
    "assertions": {"assertions": BOTH},
    "hypothesis": {"hypothesis": BOTH},
    "mixed": {"hypothesis": BOTH[1:], "assertions": BOTH[:1]},
    "joined": {"hypothesis": ["no crash and seconds <= 30"], "checks": BOTH[:1]},
    "of the arm": {"method": {"faults": "lost-replies", "checks": BOTH}},
}


def saved_with(folder: Path, episodes: int, **checks: Any) -> SavedExperiment:
    """An experiment with these checks, each episode of its method answered; odd ones with Rome."""
    prompts = [{"prompt": str(number), "id": f"e{number}"} for number in range(episodes)]
    data = {"title": "x", "prompts": prompts, "method": {"faults": "lost-replies"}, **checks}
    file = folder / "e.yaml"
    file.write_text(f"{data}\n")
    saved = save(plan_experiment(load_experiment(file), {"LOGS_DIR": str(folder / "logs")}), "e1")
    events = [
        event
        for number in range(episodes)
        for event in episode_events(f"e{number}", "Rome" if number % 2 else "Paris")
    ]
    [run_id] = saved.next_run_ids(saved.plan.arms[1], 1)
    write(saved.plan.configuration.logs, run_id, [run_started(episodes), *events, run_finished()])
    return saved


def judged(saved: SavedExperiment) -> Judged:
    method = saved.arm_result(saved.plan.arms[1])
    measures = {**method.measures, "faults_delivered": Measure(exactly(1))}
    return judge_experiment([CONTROL, replace(method, measures=measures), AFTER])


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_holds_in_one_episode(spelling: str, tmp_path: Path) -> None:
    """No claim about a mean, which one episode could not decide: the figure is of each episode."""
    saved = saved_with(tmp_path, 1, **SPELLINGS[spelling])
    assert set(saved.plan.arms[1].assertions) == {*BOTH}
    of_method = {check.statement: check for check in judged(saved).checks if check.arm == "method"}
    assert {of_method[text].verdict for text in BOTH} == {"held"}
    assert {of_method[text].kind for text in BOTH} == {"check"}


@pytest.mark.parametrize("key", ["checks", "assertions"])
def test_checks_are_enough_without_faults(key: str) -> None:
    plain = Experiment(**{key: BOTH})
    assert not plain.has_faults and plain.title == "completes; seconds <= 30"


@pytest.mark.parametrize(
    ("episodes", "claim", "verdict"),
    [
        (1, "rate(completes) >= 0.9", "unknown"),
        (30, "rate(completes) >= 0.9", "held"),
        (30, "rate(seconds <= 1 ms) >= 0.5", "deviated"),
        (30, "rate(answer_contains: Rome) >= 0.9", "deviated"),
        (30, "rate(answer_contains: Rome) >= 0.2 and rate(no_loop) > 80 %", "held"),
        (30, "rate(crash) <= 10 %", "held"),
        (1, "mean(seconds) <= 30", "unknown"),
        (30, "sum(findings) <= 0", "held"),
    ],
)
def test_form_of_claim_says_what_it_is_about(episodes: int, claim: str, verdict: str, tmp_path: Path) -> None:
    saved = saved_with(tmp_path, episodes, checks=[claim])
    stated = [check for check in judged(saved).checks if check.statement in claim]
    assert stated and {check.verdict for check in stated} == {verdict}
    assert {check.kind for check in stated} == {"check" if claim.startswith("sum") else "claim"}


def test_rate_that_plan_cannot_decide_is_reported(tmp_path: Path) -> None:
    saved = saved_with(tmp_path, 4, checks=["rate(completes) >= 0.9"])
    [line] = undecidable_lines(saved.plan)
    assert line.startswith("rate(completes) >= 0.9 needs at least 29 episodes, this plan has 4")
    assert line.endswith("or completes")


def test_only_mixed_parts_are_separated() -> None:
    texts = ["tokens <= 9 and seconds <= 9", "success == all and no crash", "tokens <= 9 and no crash"]
    assert statements_in(Arm(checks=texts)) == [texts[1], "no crash"]


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ("complets", "unknown assertion complets; did you mean 'completes'?"),
        ("model_cals <= 4", "model_cals is not a measure; did you mean 'model_calls'?"),
        ("rate(complets) >= 0.9", "unknown assertion complets; did you mean 'completes'?"),
        ("rate(completes >= 0.9", "a closing parenthesis is missing"),
        ("rate(tool_called: serch_web) >= 0.9", "unknown tool serch_web; did you mean 'search_web'?"),
        ("rate(completes) >= 90", "rate(completes) is at most 1, not 90; did you mean 90 %?"),
        ("mean(duplicate) <= 1", "mean(duplicate): duplicate is not a mean per episode"),
        ("model_calls <= 4 or no crash", "model_calls is of one episode: state it alone"),
        ({"statement": "mean(tokens) <= 5"}, "mean(tokens) is of an arm: state it in `checks`"),
        ("rate(callable: a.py:f) >= 0.9", "a function has no rate here"),
    ],
)
@pytest.mark.parametrize("key", ["checks", "hypothesis", "assertions"])
def test_wrong_check_names_file_key_and_line(key: str, check: Any, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    head = f"title: x\nmethod: {{faults: lost-replies}}\n{key}:\n  - no crash\n"
    file.write_text(f"{head}  - {json.dumps(check)}\n")
    with pytest.raises(InputError) as refused:
        plan_experiment(load_experiment(file), {"LOGS_DIR": str(tmp_path)})
    assert f"e.yaml:5: {key}[2]: " in str(refused.value) and problem in str(refused.value)


def test_rate_with_colon_needs_quotes(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text("checks:\n  - rate(answer_contains: Rome) >= 0.9\n")
    with pytest.raises(InputError, match=r"e.yaml:2: checks\[1\]: .*put the text in quotes"):
        load_experiment(file)
