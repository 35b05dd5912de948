"""Experiments that are stopped during a run: nothing is left broken, and the reason is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_experiments import run, wirefault

pytestmark = pytest.mark.slow

TITLE = {"title": "Slow tools", "only": ["1", "2"], "seed": 1, "hypothesis": ["no crash"]}
# on a tool that only the first prompt needs; much longer than the limit, since a busy machine is late
SLOW = {"toxic": "latency", "links": ["weather"], "with": {"latency": 9000}, "id": "slow"}


def run_experiment(folder: Path, experiment: dict[str, Any]) -> dict[str, Any]:
    (folder / "exp.json").write_text(json.dumps(experiment), encoding="utf-8")
    done = run(folder, "exp.json", "--json")
    verdict = json.loads(done.stdout)
    assert isinstance(verdict, dict)
    return {**verdict, "code": done.returncode, "episodes": len(list(judged(folder)))}


def judged(folder: Path) -> list[str]:
    """The lines of the method's episodes that were judged."""
    files = folder.glob(".wirefault/logs/runs/*-2-method*/agent-0.jsonl")
    return [line for file in files for line in file.read_text().splitlines() if "episode_judged" in line]


def test_limit_stops_new_episodes_and_run_resumes(tmp_path: Path) -> None:
    method = {"faults": {"toxics": [SLOW]}}
    verdict = run_experiment(
        tmp_path,
        TITLE
        | {"only": ["1", "4"], "settings": {"tool_timeout": 20}, "method": method, "limits": {"time": 4}},
    )
    assert (verdict["code"], verdict["verdict"], verdict["rollback"]) == (2, "unknown", "verified")
    assert verdict["because"].startswith("the limit of time, 4 s, was reached") and verdict["episodes"] < 2
    for _ in range(30):  # a busy machine runs few of them in that time
        done = wirefault(tmp_path, "run", "--resume", "latest", "--toxiproxy", "embedded")
        if done.returncode == 0:
            break
    assert done.returncode == 0 and len(judged(tmp_path)) == 2, done.stdout
    assert json.loads(wirefault(tmp_path, "report", "latest", "--json").stdout)["verdict"] == "held"


@pytest.fixture(scope="module")
def limited_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and output of a run whose faults have a blast radius; the verdict is in a file."""
    folder = tmp_path_factory.mktemp("spared")
    faults = {"faults": [{"fault": "rate_limit", "links": "tools"}]}
    radius = {"blast_radius": {"links": ["tools"], "episodes": "50 %", "calls": 1}}
    experiment = TITLE | {"repeats": 2, "method": {"faults": faults}, "safety": radius}
    (folder / "exp.json").write_text(json.dumps(experiment), encoding="utf-8")
    done = run(folder, "exp.json", "--output", "verdict.json")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_faults_stay_inside_blast_radius(limited_run: tuple[Path, str]) -> None:
    folder, _ = limited_run
    verdict = json.loads((folder / "verdict.json").read_text())
    [method] = [arm for arm in verdict["arms"] if arm["arm"] == "method"]
    assert verdict["verdict"] == "held" and method["measures"]["faults_delivered"]["estimate"] == 2
    [gateway] = folder.glob(".wirefault/logs/runs/*-2-method/gateway-0.jsonl")
    assert '"why_not":"outside_radius"' in gateway.read_text().replace(" ", "")


def test_verdict_file_is_written(limited_run: tuple[Path, str]) -> None:
    folder, printed = limited_run
    assert "held: all of" in printed
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == "held"
    planned = wirefault(folder, "plan", "exp.json").stdout
    assert "cost: 12 episodes, about" in planned and "where 12 episodes took" in planned.replace("\n", " ")
    assert run(folder, "exp.json", "--output", "nowhere/v.json").returncode == 64
