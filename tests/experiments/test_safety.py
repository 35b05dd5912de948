"""Blast radius, targets and abort conditions: what is refused before any run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirefault.core.errors import InputError
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.settings.episode_faults import is_outside_radius

STRUCK = {"faults": [{"fault": "rate_limit", "links": ["weather"], "id": "busy"}]}


def planned(folder: Path, **more: Any) -> ExperimentPlan:
    data = {"title": "x", "seed": 1, "method": {"faults": STRUCK}, "hypothesis": ["no crash"], **more}
    (folder / "exp.json").write_text(json.dumps(data), encoding="utf-8")
    return plan_experiment(load_experiment(folder / "exp.json"), {})


def refused(folder: Path, **more: Any) -> str:
    with pytest.raises(InputError) as error:
        planned(folder, **more)
    return str(error.value)


@pytest.mark.parametrize(
    "radius", [{}, None, {"links": []}, {"calls": 0}, {"episodes": 0}, {"episodes": "0 %"}, {"episodes": 1.5}]
)
def test_empty_radius_is_error(tmp_path: Path, radius: Any) -> None:
    assert "safety.blast_radius" in refused(tmp_path, safety={"blast_radius": radius})


def test_faults_outside_radius_are_named(tmp_path: Path) -> None:
    radius = {"safety": {"blast_radius": {"links": ["search", "model"]}}}
    message = refused(tmp_path, **radius)
    assert "method: the fault busy affects weather, outside of safety.blast_radius.links" in message
    toxic = {"faults": {"toxics": [{"toxic": "latency", "links": "tools", "id": "slow"}]}}
    assert "variants.a: the toxic slow affects weather" in refused(
        tmp_path, method=None, variants={"a": toxic}, **radius
    )
    chance = {"settings": {"error_prob": 1}}
    assert "method: error_prob affects weather" in refused(tmp_path, method=chance, **radius)
    assert planned(tmp_path, safety={"blast_radius": {"links": ["tools"]}}).arms


def test_unknown_link_in_radius_is_error(tmp_path: Path) -> None:
    message = refused(tmp_path, safety={"blast_radius": {"links": ["wether"]}})
    assert "unknown link wether; did you mean 'weather'?" in message


def test_radius_may_name_a_link_that_is_found_later(tmp_path: Path) -> None:
    wiring = {"intercept": {}, "subject": {"command": ["true"]}, "links": {}}
    (tmp_path / "wirefault.yaml").write_text(json.dumps(wiring), encoding="utf-8")
    named = {"faults": {"faults": [{"fault": "rate_limit", "links": "port_9000"}]}}
    more: dict[str, Any] = {"wiring": "wirefault.yaml", "method": named, "prompts": [{"prompt": "x"}]}
    assert planned(tmp_path, safety={"blast_radius": {"links": ["port_9000"]}}, **more).arms
    message = refused(tmp_path, safety={"blast_radius": {"links": ["port_9001"]}}, **more)
    assert "affects port_9000, outside of safety.blast_radius.links" in message
    assert "unknown link tool" in refused(tmp_path, safety={"blast_radius": {"links": ["tool"]}}, **more)


def test_blast_radius_limits_share_of_faulted_episodes(tmp_path: Path) -> None:
    plan = planned(tmp_path, repeats=5, safety={"blast_radius": {"episodes": "25 %"}})
    outside = [is_outside_radius(plan.arms[1].settings, prompt.key) for prompt in plan.prompts]
    assert outside.count(False) == len(outside) // 4
    assert not any(is_outside_radius(plan.arms[0].settings, prompt.key) for prompt in plan.prompts)


def test_empty_share_is_error(tmp_path: Path) -> None:
    message = refused(tmp_path, only=["1", "2"], safety={"blast_radius": {"episodes": 0.25}})
    assert "0.25 of 2 episodes is less than one" in message


def test_radius_counts_only_fault_calls(tmp_path: Path) -> None:
    radius = {"safety": {"blast_radius": {"calls": 3}}}
    assert planned(tmp_path, **radius).arms[1].settings.fault_calls == 3
    toxic = {"faults": {"toxics": [{"toxic": "latency", "id": "slow"}]}}
    assert "the toxic slow affects every call" in refused(tmp_path, method=toxic, **radius)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("error_rat > 1", "error_rat is not watched; did you mean 'error_rate'?"),
        ("1 > 2", "has no condition that can be watched"),
        ("cost", "has no comparison"),
    ],
)
def test_unmeasurable_condition_is_error(tmp_path: Path, condition: str, message: str) -> None:
    assert message in refused(tmp_path, safety={"abort": [condition]})


@pytest.mark.parametrize("limits", [{"time": 0}, {"time": "soon"}, {"cost": 0}, {"tim": 1}])
def test_invalid_limit_is_error(tmp_path: Path, limits: dict[str, Any]) -> None:
    assert "limits" in refused(tmp_path, limits=limits)


def test_target_must_be_local_or_listed(tmp_path: Path) -> None:
    links = {
        "shop": {"upstream": "http://127.0.0.1:9000", "env": "SHOP_URL"},
        "maps": {"upstream": "https://api.example.com", "env": "MAPS_URL"},
    }
    wiring = {"links": links, "allow": ["api.example.com"], "subject": {"command": ["true", "{prompt}"]}}
    (tmp_path / "w.json").write_text(json.dumps(wiring), encoding="utf-8")
    arms = {
        "wiring": "w.json",
        "prompts": [{"prompt": "Hello"}],
        "method": {"settings": {"error_prob": 1}},
    }
    message = refused(tmp_path, **arms, safety={"targets": []})
    assert "safety.targets: the link maps leads to api.example.com, which is neither this machine" in message
    assert planned(tmp_path, **arms, safety={"targets": ["API.example.com"]}).arms
    assert planned(tmp_path, **arms).arms
