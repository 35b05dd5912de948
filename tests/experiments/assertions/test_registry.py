"""The syntax of assertions: each error suggests the correct form, before any run."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.experiments.assertions.own import speaks_of_rome
from tests.support import ROOT
from wirefault.cli.main import main
from wirefault.core.errors import InputError
from wirefault.core.plain_data import read_yaml
from wirefault.core.plugins import load_function
from wirefault.experiments.assertions.calls import ToolWasCalled
from wirefault.experiments.assertions.registry import AssertionEntry, names_of, parse_assertion, statement_of
from wirefault.experiments.assertions.statement import Statement
from wirefault.experiments.checks import check_of
from wirefault.experiments.experiment import Arm, Experiment
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.wiring.links import Links
from wirefault.wiring.wiring import Wiring, lab_wiring


@pytest.mark.parametrize(
    "source",
    [
        "def polite(e): ...",
        "if 1:\n    from json import loads as polite",
        "polite = print",
        "from json import *",
    ],
)
def test_plan_finds_functions_without_running_them(tmp_path: Path, source: str, monkeypatch) -> None:
    """Reading a stranger's experiment is safe, whatever its Python does when it is imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pack").mkdir()
    for path in ("here.py", "pack/__init__.py", "pack/judge.py"):
        (tmp_path / path).write_text(f"open('ran', 'w')\n{source}\n")
    file = written(tmp_path, "    - callable: here.py:polite\n    - callable: pack.judge:polite\n")
    asking = [
        {"id": "x", "prompt": "x", "next_turn": "pack.judge:polite"},
        {"id": "y", "prompt": "y", "next_turn": "here.py:polite"},
    ]
    file.write_text(file.read_text() + f"prompts: {asking}\n")
    for command in (["plan", "e.yaml"], ["run", "--dry-run", "e.yaml"]):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
    assert not (tmp_path / "ran").exists() and str(tmp_path) not in sys.path
    (tmp_path / "here.py").write_text("raise SystemExit")
    (tmp_path / "pack" / "judge.py").write_text(f"{source}\nraise SystemExit")
    assert "polite" in CliRunner().invoke(main, ["run", "e.yaml"]).output


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("complets", "unknown assertion complets; did you mean 'completes'?"),
        ({"completes": {}, "no_loop": {}}, "must be one assertion"),
        (7, "must be one assertion"),
        ("seconds <= soon", "statement: text: unknown measure soon"),
        ("secnds <= 5", "statement: text: unknown measure secnds; did you mean 'seconds'?"),
        ("tokens <= ", "statement: text: cannot be read"),
        ({"retry_spacing": "5 %"}, "retry_spacing: at_least: must be a number"),
        ({"retry_spacing": -1}, "at_least: Input should be greater than or equal to 0"),
        ({"completes": 3}, "completes: takes a mapping of parameters, not 3"),
        ("tool_called", "tool_called: tool is missing"),
        ({"tool_called": {"tool": "a", "tims": 1}}, "no such parameter tims; did you mean 'times'?"),
        ({"tool_called": {"tool": "a", "times": 1, "at_most": 2}}, "times: cannot be combined with"),
        ({"answer_matches": "(?=x)"}, "answer_matches: pattern: is not an RE2 pattern"),
        ({"statement": {"text": "model_calls <= 1", "turn": 0}}, "turn: user turns count from 1"),
        ({"statement": {"text": "model_calls <= 1", "turn": 1, "over": "arm"}}, "over: arm is one figure"),
        ({"statement": {"text": "call_tokens <= 1", "over": "arm"}}, "over: arm sums, and call_tokens is"),
        ({"statement": {"text": "tokens <= 1", "link": "shop"}}, "link: restricts failed_calls and"),
        ({"statement": {"text": "tokens <= 1", "kind": "x"}}, "kind: restricts faults_delivered only"),
        ({"no_loop": {"episodes": "0 %"}}, "episodes: Input should be greater than 0"),
        ({"retry_spacing": {}}, "needs at_least, at_most or growing"),
        ({"fallback_used": {"from": "a"}}, "to: must name the link"),
        (
            {"statement": {"text": "faults_delivered > 0", "turn": 1}},
            "turn: faults are counted in whole",
        ),
        ({"callable": "polite"}, "callable: function: must be module:function or file.py:function"),
        ({"callable": {"function": "a:b", "over": "arm", "turn": 1}}, "over: arm runs once"),
    ],
)
def test_invalid_assertion_names_problem(entry: Any, problem: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_assertion(entry)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "statement"),
    [
        ("no_loop", "no_loop"),
        ({"no_loop": None}, "no_loop"),
        ("seconds <= 30s", "seconds <= 30s"),
        ({"statement": {"text": "tokens <= 9", "turn": 1}}, "tokens <= 9, turn 1"),
        ({"tools_in_order": ["a", "b"]}, "tools_in_order: a, b"),
        ({"tool_called": {"tool": "a", "times": 1}}, "tool_called: tool a, times 1"),
        ({"callable": "/opt/agent/checks.py:polite"}, "callable: checks.py:polite"),
        (
            {"callable": {"function": "/opt/checks.py:polite", "over": "arm"}},
            "callable: function checks.py:polite, over arm",
        ),
        ({"callable": "checks:polite"}, "callable: checks:polite"),
    ],
)
def test_statement_is_printed_as_written(entry: AssertionEntry, statement: str) -> None:
    assert statement_of(entry) == statement


def test_python_gives_objects_and_functions() -> None:
    experiment = Experiment(
        title="x",
        method=Arm(faults="lost-replies"),
        assertions=[
            Statement(text="seconds <= 30"),
            ToolWasCalled(tool="a", times=1),
            speaks_of_rome,
            "no_loop",
        ],
    )
    own = "tests.experiments.assertions.own:speaks_of_rome"
    assert experiment.assertions == [
        {"statement": "seconds <= 30"},
        {"tool_called": {"tool": "a", "times": 1}},
        {"callable": own},
        "no_loop",
    ]
    assert Experiment.model_validate(experiment.model_dump(exclude_unset=True)) == experiment
    [here] = Arm(assertions=[lambda episode: True]).assertions
    assert load_function(here["callable"])(None) is True


def written(folder: Path, assertions: str) -> Path:
    text = "title: x\nmethod:\n  faults: lost-replies\n  assertions:\n" + assertions
    path = folder / "e.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("assertions", "problem"),
    [
        ("    - completes\n    - no_lop\n", "e.yaml:6: method.assertions[2]: unknown assertion no_lop"),
        ("    - callable: own.py:polite\n", "e.yaml:5: method.assertions[1]: "),
        ("    - callable: here.py:rude\n", "here.py:rude: unknown function"),
    ],
)
def test_error_in_file_names_line(tmp_path: Path, assertions: str, problem: str) -> None:
    (tmp_path / "here.py").write_text("def polite(episode):\n    return True\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        plan_experiment(load_experiment(written(tmp_path, assertions)), {})
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            "tool_called: serch_web",
            "tool_called: tool: unknown tool serch_web; did you mean 'search_web'?",
        ),
        ("tools_in_order: [get_weather, send_mesage]", "tools: unknown tool send_mesage; did you mean"),
        (
            "statement: {text: failed_calls <= 1, link: wether}",
            "link: unknown link wether; did you mean 'weather'?",
        ),
        ("recovered_after_failure: {link: wether}", "recovered_after_failure: link: unknown link wether"),
        ("fallback_used: {from: movi, to: search}", "fallback_used: from: unknown link movi"),
        ("retry_spacing: {at_least: 1s, link: tools}", "retry_spacing: link: unknown link tools"),
        ("statement: {text: faults_delivered > 0, link: serch}", "statement: link: unknown link serch"),
    ],
)
def test_impossible_name_suggests_nearest(tmp_path: Path, entry: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        plan_experiment(load_experiment(written(tmp_path, f"    - completes\n    - {entry}\n")), {})
    assert "e.yaml:6: method.assertions[2]: " in str(refused.value) and problem in str(refused.value)


@pytest.mark.parametrize("subject", ["", "subject: checks:agent\n"])
def test_foreign_agent_tools_are_not_checked(tmp_path: Path, subject: str) -> None:
    file = written(tmp_path, "    - tool_called: serch_web\n")
    if not subject:
        (tmp_path / "w.yaml").write_text(
            "links: {shop: {upstream: 'http://127.0.0.1:9000', env: SHOP}}\nsubject: {command: [agent]}\n"
            "prompts: p.json\n"
        )
        (tmp_path / "p.json").write_text('[{"prompt": "Hello"}]')
        subject = "wiring: w.yaml\n"
    file.write_text(subject + file.read_text(encoding="utf-8"), encoding="utf-8")
    plan = plan_experiment(load_experiment(file), {})
    assert plan.arms[1].assertions == ({"tool_called": "serch_web"},)


def test_links_found_during_run_are_unknown_before() -> None:
    links = Links([], grows=True)
    assert names_of(Wiring(links), "").links is None and names_of(lab_wiring(), "").links is not None


def test_function_file_is_relative_to_experiment(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("def polite(episode):\n    return True\n", encoding="utf-8")
    plan = plan_experiment(load_experiment(written(tmp_path, "    - callable: here.py:polite\n")), {})
    assert plan.arms[1].assertions == ({"callable": f"{tmp_path / 'here.py'}:polite"},)
    assert [arm.assertions for arm in (plan.arms[0], plan.arms[2])] == [(), ()]


def test_plan_lists_assertions(tmp_path: Path) -> None:
    file = written(tmp_path, "    - seconds <= 30s\n    - no_loop\n")
    plan_result = CliRunner().invoke(main, ["plan", str(file)])
    assert plan_result.exit_code == 0 and "seconds <= 30s; no_loop" in plan_result.output


def test_page_example_is_valid() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```yml\n(checks:.*?)```", page, re.DOTALL)
    [program] = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    entries = read_yaml(example, "the page")["checks"]
    assert [check_of(entry) for entry in entries] == entries
    assert entries[-1]["callable"].rpartition(":")[2] in program
