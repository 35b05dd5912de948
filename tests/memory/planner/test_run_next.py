"""A search for the next experiments in a real lab, its page, and its proposals as files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.report.page.test_figures import check
from tests.upstream import Upstream, requests_of
from wirefault.cli.main import main
from wirefault.core.errors import InputError
from wirefault.experiments.saved import save
from wirefault.experiments.search.chain import Chain, Risk, Step
from wirefault.experiments.search.trials import Trials
from wirefault.memory.planner.choose import Terms
from wirefault.memory.planner.run_next import NextSteps, faults_in
from wirefault.memory.planner.source import agent_source, plan_next

BLIND = """
import json, os, urllib.request

def ask(prompt):
    # orders again, whatever went wrong
    for _ in range(2):
        request = urllib.request.Request(os.environ["SHOP_URL"] + "/orders", b'{"item": 1}', method="POST")
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return reply.read().decode()
        except OSError:
            pass
    return "0"
"""
HOOKS = """
def mine(planner):
    planner.add_custom_risk_factor("night", lambda proposal: 0.25)
    planner.add_custom_enhancement("quick", quicker)

def quicker(experiment):
    return {**experiment, "checks": [*experiment["checks"], "seconds <= 0"]}
"""
EXPERIMENT = {
    "title": "Orders",
    "wiring": {"links": {"shop": {"env": "SHOP_URL"}}, "subject": {"python": "blind:ask"}},
    "prompts": [{"id": "n", "prompt": "How many?", "expect": {"values": [{"number": 7}]}}],
    "seed": 5,
    "checks": ["success == all"],
}


@pytest.fixture
def shop() -> Iterator[str]:
    def serve(connection: Any) -> None:
        for _ in requests_of(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7")

    with Upstream(serve) as upstream:
        yield upstream.address.url


@pytest.mark.slow
def test_search_runs_proposals_and_then_writes_others(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blind.py").write_text(BLIND, encoding="utf-8")
    (tmp_path / "hooks.py").write_text(HOOKS, encoding="utf-8")
    experiment = json.loads(json.dumps(EXPERIMENT))
    experiment["wiring"]["links"]["shop"]["upstream"] = shop
    (tmp_path / "exp.json").write_text(json.dumps(experiment), encoding="utf-8")

    def run(words: str) -> Any:
        result = CliRunner().invoke(main, words.split())
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if "--json" in words else result.output

    document = run("search next exp.json --run --budget 6 --toxiproxy embedded --hooks hooks.py:mine --json")
    chain = document["answer"]
    first = chain["steps"][0]
    assert (first["reason"], first["result"]) == ("unasked question", "writes twice in 1 of 1")
    assert chain["weaknesses"][0]["steps"][0] == "step-1" and chain["state"] == "budget"
    assert 0 < first["risk"]["value"] < 1
    assert "prevent_write_repeated" in chain["steps"][1]["checks"]
    assert "enhancement 1" in first["failed_checks"] and first["risk"]["scores"]["night"] == 0.25
    assert "writes twice" in run("report latest")
    proposals = run("search next exp.json --count 1 --hooks hooks.py:mine --json")["proposals"]
    assert proposals[0]["reason"] == "regression" and proposals[0]["risk"]["scores"]["night"] == 0.25
    assert "reply lost" in run(f"plan {Path(proposals[0]['file']).name}")
    assert ": regression" in run("search next exp.json --run --budget 5 --toxiproxy embedded")
    run("memory rebuild")
    remembered = run("memory show --html memory.html --json")
    check(Path("memory.html").read_text(encoding="utf-8"), remembered, 60)
    assert [len(each["steps"]) > 0 for each in remembered["chains"]] == [True, True]
    assert remembered["chains"][0]["steps"][0]["because"] == first["because"]


class _Paper(Trials):
    """The steps' trials: their arms were run before."""

    def episodes(self, name: str) -> list[Any]:
        """Of the control alone: episodes of finished steps are not read again."""
        assert name == "control"
        return []


def test_search_ends_by_safety_over_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blind.py").write_text(BLIND, encoding="utf-8")
    experiment = json.loads(json.dumps(EXPERIMENT))
    experiment["wiring"]["links"]["shop"]["upstream"] = "http://127.0.0.1:9"
    experiment["safety"] = {"abort": ["error_rate > 50 %"]}
    (tmp_path / "exp.json").write_text(json.dumps(experiment), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    plan = plan_next(agent_source(Path("exp.json")).plan({}, {}), 50, Terms(), every_question=False)
    step = Step("step-1", "c", "it fails", "unasked question", "new", Risk(0.5, ""), "shop", ("hang",))

    def ended(outcomes: list[str]) -> Chain:
        done = [replace(step, name=f"step-{n}", outcomes={"n": each}) for n, each in enumerate(outcomes, 1)]
        saved = save(replace(plan, search={**plan.search, "steps": list(map(asdict, done))}), f"e{outcomes}")
        steps = NextSteps(saved)
        monkeypatch.setattr(steps, "_next", lambda *_: None)
        last = steps.next(_Paper(saved))
        assert last is not None and not last.arms
        grown = _Paper(saved.with_arms((), last.search))
        assert steps.next(grown) is None
        return steps.answer(grown)

    stopped = ended(["duplicate"] * 10)
    assert stopped.state == "safety" and stopped.why.startswith("error_rate > 50 %: error_rate 0.646 to 1")
    assert ended(["duplicate"] * 9).state == "nothing left"  # too few to say
    assert ended(["success"] * 20).state == "nothing left"


def test_arm_gives_its_settings_without_its_faults(tmp_path: Path) -> None:
    arms = {"careless": {"settings": {"recovery": "retry", "error_prob": 0.5}, "faults": "lost-replies"}}
    experiment = {**EXPERIMENT, "wiring": "lab", "settings": {"fallback": "off"}, "variants": arms}
    (tmp_path / "exp.json").write_text(json.dumps(experiment), encoding="utf-8")
    plan = agent_source(tmp_path / "exp.json", "careless").plan({}, {})
    settings = plan.configuration.settings
    assert (settings.recovery, settings.fallback) == ("retry", "off")
    assert (settings.error_prob, settings.faults) == (0, "") and len(plan.arms) == 1
    assert agent_source(tmp_path / "exp.json").plan({}, {}).configuration.settings.recovery == ""


def test_budget_must_allow_more_than_the_control(tmp_path: Path) -> None:
    (tmp_path / "exp.json").write_text(json.dumps({**EXPERIMENT, "wiring": "lab"}), encoding="utf-8")
    plan = agent_source(tmp_path / "exp.json").plan({}, {})
    with pytest.raises(InputError, match="--budget 4: the control alone runs 4 episodes"):
        plan_next(plan, 4, Terms(), every_question=False)
    assert plan_next(plan, 5, Terms(), every_question=False).search["terms"]["budget"] == 5


def test_enhancement_that_leaves_no_faults_is_refused() -> None:
    for broken in ({}, {"method": {"faults": "lost-replies"}}, {"method": {"faults": {"faults": [1]}}}):
        with pytest.raises(InputError, match="unusable method"):
            faults_in(broken)


def test_unknown_calls_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blind.py").write_text(BLIND, encoding="utf-8")
    experiment = json.loads(json.dumps(EXPERIMENT))
    experiment["wiring"]["links"]["shop"]["upstream"] = "http://127.0.0.1:9"
    (tmp_path / "exp.json").write_text(json.dumps(experiment), encoding="utf-8")
    result = CliRunner().invoke(main, ["search", "next", "exp.json"])
    assert result.exit_code == 64 and "wirefault search next --run" in result.stderr
    result = CliRunner().invoke(main, ["search", "next", "exp.json", "--arm", "careless"])
    assert result.exit_code == 64 and "--arm careless: unknown arm" in result.stderr
