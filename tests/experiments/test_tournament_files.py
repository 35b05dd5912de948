"""Experiments with ``arms``: one experiment for each agent, on one seed; run on the real wire."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.examples.serving import shop
from tests.report.page.test_figures import check
from wirefault import Experiment
from wirefault.cli.main import main
from wirefault.core.errors import InputError
from wirefault.experiments.experiment_file import load_experiments, python_experiment
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.run_tournament import contests_in
from wirefault.experiments.saved import save
from wirefault.report.page.write import page_line
from wirefault.wiring.subject_spec import CommandSpec

LOST = {"fault": "lose_reply", "links": "shop", "when": {"first": 1, "of": "try"}}
AT_RANDOM = {"fault": "status", "id": "some", "links": "shop", "when": {"probability": 0.4}}
AGENT = """
import json, os, sys, urllib.request
headers = {"Content-Type": "application/json"}
if os.environ.get("KEYED"):
    headers["Idempotency-Key"] = "order"
body = json.dumps({"item": "green tea", "count": 2}).encode()
order = urllib.request.Request(os.environ["SHOP_URL"] + "/orders", body, headers)
for _ in range(1 + int(os.environ.get("RETRIES", 0))):
    try:
        urllib.request.urlopen(order, timeout=30).read()
        sys.exit(print("The order was placed."))
    except OSError:
        continue
print("The order failed.")
"""
WIRING: dict[str, Any] = {
    "links": {"shop": {"upstream": "http://127.0.0.1:9", "env": "SHOP_URL", "writes": ["POST /orders"]}},
    "subject": {"command": [sys.executable, "agent.py", "{prompt}"], "folder": "."},
}
ORDERED = {"requests": [{"link": "shop", "method": "POST", "path": "/orders", "times": 1}]}
BASE: dict[str, Any] = {
    "title": "Which retry is safe",
    "seed": 7,
    "wiring": WIRING,
    "prompts": [{"id": "order", "prompt": "Order 2 green tea", "expect": ORDERED}],
    "repeats": 2,
    "method": {"faults": {"faults": [LOST]}},
    "arms": {
        "none": {},
        "retry": {"env": {"RETRIES": "2"}},
        "keyed": {"env": {"RETRIES": "2", "KEYED": "yes"}},
    },
}

UNTIL_DECIDED = {"repeats": None, "until_decided": True, "limits": {"episodes": 3}}


def written(folder: Path, **changes: Any) -> Path:
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    file = folder / "t.yaml"
    data = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return file


def plans(folder: Path, **changes: Any) -> list[ExperimentPlan]:
    loaded = load_experiments(written(folder, **changes))
    return [plan_experiment(each, {"LOGS_DIR": str(folder)}) for each in loaded]


def test_arms_differ_only_in_what_they_name(tmp_path: Path) -> None:
    arms = {
        "as it is": {},
        "shell": {"command": ["sh", "-c", "{prompt}"]},
        "eager": {"env": {"RETRIES": "2"}},
        "factory": {"subject": "mine:agent"},
        "patient": {"settings": {"attempt_time": 9}},
    }
    many = plans(tmp_path, arms={name.replace(" ", "-"): arm for name, arm in arms.items()})
    specs = [plan.configuration.wiring.subject for plan in many]
    assert all(isinstance(spec, CommandSpec) for spec in specs)
    assert [spec.command[0] for spec in specs if isinstance(spec, CommandSpec)][1] == "sh"
    assert [spec.env for spec in specs if isinstance(spec, CommandSpec)][2] == {"RETRIES": "2"}
    assert [plan.subject for plan in many] == ["", "", "", "mine:agent", ""]
    assert [plan.configuration.settings.attempt_time for plan in many][4] == 9
    assert len({plan.seed for plan in many}) == 1 == len({plan.arms[1].settings.faults for plan in many})
    assert [len(contest) for contest in contests_in(many)] == [5]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"arms": {"one": {}}}, "arms: has 1; a tournament compares 2 to 40"),
        ({"arms": {"a": {}, "b": {"comand": ["x"]}}}, "did you mean 'command'"),
        ({"arms": {"a": {}, "b": {"command": ["x"], "subject": "y:z"}}}, "set `command` or `subject`"),
        ({"arms": {"a": {}, "b": {"settings": {"error_prob": 1}}}}, "would affect the control"),
        ({"arms": {"a": {}, "b c": {}}}, "a name is 1 to 40"),
        (
            {"wiring": None, "prompts": None, "method": {"faults": "light"}},
            "the lab's agent has settings instead",
        ),
        ({"method": None, "checks": ["no crash"]}, "arms: missing faults"),
        ({"subject": "x:y"}, "`subject` replaces its agent"),
    ],
)
def test_invalid_arms_name_place(tmp_path: Path, changes: Any, wrong: str) -> None:
    with pytest.raises(InputError) as caught:
        plans(tmp_path, **changes)
    assert wrong in str(caught.value) and "t.yaml" in str(caught.value)


def test_tournament_is_refused_for_single_experiment(tmp_path: Path) -> None:
    plans(tmp_path)
    experiment = Experiment(**{**BASE, "wiring": "lab", "arms": {"a": {}, "b": {}}})
    with pytest.raises(InputError, match="arms: makes 2 experiments"):
        python_experiment(experiment, tmp_path)


def test_arm_that_did_not_start_has_no_page(tmp_path: Path) -> None:
    saved = save(plans(tmp_path)[0], "20260101-000000-000000.1")
    assert page_line(saved.logs, saved.experiment_id, {}).endswith("nothing was recorded")


def test_plan_has_the_cost_of_all_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for changes, expected in (({}, "18 episodes"), (UNTIL_DECIDED, "at most 27 episodes")):
        written(tmp_path, **changes)
        result = CliRunner().invoke(main, ["plan", "t.yaml"])
        unknown = "time unknown, money unknown, it has not run here yet"
        assert f"Which retry is safe: cost: {expected}, {unknown}" in result.output, result.output


@pytest.mark.parametrize("words", [["show"], ["runs", "verify"], ["runs", "bundle"], ["compare", "latest"]])
def test_command_for_one_recording_says_what_shows_a_tournament(tmp_path: Path, words: list[str]) -> None:
    plan = plan_experiment(load_experiments(written(tmp_path))[0], {"LOGS_DIR": str(tmp_path / "logs")})
    save(plan, "20260101-000000-000000.1")
    result = CliRunner().invoke(main, [*words, "20260101-000000-000000", "--out", str(tmp_path)])
    assert result.exit_code == 64 and "wirefault report 20260101-000000-000000 shows it" in result.output


@pytest.mark.slow
def test_arms_meet_same_faults_up_to_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pair = {name: BASE["arms"][name] for name in ("retry", "keyed")}
    with shop(tmp_path / "shop.db") as record:
        links = {"shop": {**WIRING["links"]["shop"], "upstream": record.url}}
        wiring, faults = {**WIRING, "links": links}, {"faults": {"faults": [LOST, AT_RANDOM]}}
        until = UNTIL_DECIDED
        file = written(tmp_path, wiring=wiring, method=faults, arms=pair, **until)
        ran = CliRunner().invoke(main, ["run", str(file), "--json"])
    document = json.loads(ran.stdout)
    [table] = document["tables"]
    arms = {arm["arm"]: arm for arm in table["arms"]}
    assert table["schedules"]["shared_calls"] >= 6 and table["schedules"]["different"] == []
    assert arms["retry"]["more_effects"]["estimate"] > arms["keyed"]["more_effects"]["estimate"] == 0.0
    assert all(arms[name]["success_rate"]["n"] == 3 for name in arms) and not document["decided"]
    assert "cannot be told apart by success after 3 pairs" in table["advice"]
    [page] = (tmp_path / ".wirefault/logs/pages").glob(f"{document['tournament']}/page.html")
    assert "Success against cost" in page.read_text(encoding="utf-8")
    check(page.read_text(encoding="utf-8"), document, 20)
    reported = CliRunner().invoke(main, ["report", document["tournament"], "--json"])
    assert json.loads(reported.stdout)["tables"] == document["tables"]
    short = CliRunner().invoke(main, ["report", document["tournament"], "--md", "-"]).stdout
    assert short.startswith("## Wirefault: ") and "| arm | keyed | retry |" in short, short
