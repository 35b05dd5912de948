"""Faults for some episodes of an experiment: an unknown prompt name is refused before the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan_experiment import plan_experiment

PROMPTS = [{"prompt": "Hello", "id": "hello"}, {"prompt": "Bye", "id": "bye"}]


def planned(folder: Path, episodes: str | list[str]) -> dict[str, int]:
    toxic = {"toxic": "latency", "links": "search", "only": {"episodes": episodes}}
    experiment = {
        "title": "Some",
        "prompts": PROMPTS,
        "seed": 1,
        "repeats": 3,
        "hypothesis": ["success_rate >= 0.9"],
        "method": {"faults": {"toxics": [toxic]}},
    }
    file = folder / "some.yaml"
    file.write_text(json.dumps(experiment), encoding="utf-8")
    plan = plan_experiment(load_experiment(file), {})
    return plan.toxics_drawn(plan.arms[1])


@pytest.mark.parametrize(("episodes", "times"), [("hello", 3), (["bye", "h*"], 6)])
def test_named_episodes_cover_all_repetitions(tmp_path: Path, episodes: str | list[str], times: int) -> None:
    assert planned(tmp_path, episodes) == {"latency on search": times}


def test_unknown_name_suggests_nearest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown prompt 'helo'; did you mean 'hello'\?") as error:
        planned(tmp_path, ["bye", "helo"])
    assert "some.yaml" in str(error.value)
