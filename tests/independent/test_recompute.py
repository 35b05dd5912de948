"""Kinds of experiments, recomputed from their histories by a script that imports nothing of Wirefault."""

from __future__ import annotations

import ast
import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.recorded_runs import write
from tests.independent import recompute
from tests.judging.oracle.histories import (
    ended,
    episode,
    exchange,
    fault_met,
    judge_episode,
    run_finished,
    run_started,
    tried,
)
from tests.support import replace
from wirefault.experiments.engine import RunArm, RunControl
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.run_experiment import run_experiment
from wirefault.experiments.saved import SavedExperiment, save
from wirefault.history.events import EpisodeJudged, Event
from wirefault.lab.toxiproxy import Choice
from wirefault.toxiproxy.planned import VERIFIED
from wirefault.wiring.prompts import Prompt

FAULTS = {"settings": {"error_prob": 1}}


@dataclass(frozen=True)
class Lottery:
    """An engine whose episodes end by their key: each arm, and each prompt, has its chance of success."""

    chances: dict[str, float]
    by_prompt: float = 0.0
    """How much the chance differs by prompt."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of each run."""

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        def run_arm(saved: SavedExperiment, arm: PlannedArm, left: Sequence[Prompt]) -> int:
            [run_id] = saved.next_run_ids(arm, 1)
            events = [event for prompt in left for event in self._episode(arm, prompt)]
            write(
                saved.logs,
                run_id,
                [run_started(len(left), **self.settings), *events, replace(run_finished(), toxics_left=0)],
            )
            return 0

        code = run_arms(run_arm)
        saved.note_end(rollback=VERIFIED)
        return code

    def _episode(self, arm: PlannedArm, prompt: Prompt) -> list[Event]:
        draws = random.Random(f"{arm.name} {prompt.key}")
        chance = self.chances.get(arm.name, 0.97)
        chance += self.by_prompt * (random.Random(recompute.prompt_of(prompt.key)).random() - 0.5)
        requests = [
            exchange(
                "model",
                dialect="openai_chat",
                tokens_in=int(draws.expovariate(0.01)),
                tokens_out=20,
                model="m",
            )
            for _ in range(draws.randint(1, 4))
        ]
        struck = (
            []
            if arm.is_calm
            else [tried(error="server_error", status=503), exchange(status=503, fault=fault_met())]
        )
        status = "done" if draws.random() < chance else "failed"
        end = ended(status=status, ms=1000 * draws.lognormvariate(0, 0.6))
        events = [replace(e, episode=prompt.key) for e in episode(*requests, *struck, end, expect={})]
        judged = replace(judge_episode(events), t=1.0)
        assert isinstance(judged, EpisodeJudged)
        return [*events, judged]


def run(folder: Path, engine: Lottery, **more: Any) -> tuple[Path, str]:
    """The logs and the id of an experiment that this engine ran."""
    data = {"title": "On paper", "seed": 3, "method": FAULTS, **more}
    data = {key: value for key, value in data.items() if value is not None}
    (folder / "exp.json").write_text(json.dumps(data), encoding="utf-8")
    plan = plan_experiment(load_experiment(folder / "exp.json"), {"LOGS_DIR": str(folder / "logs")})
    saved = save(plan, "e1")
    run_experiment(saved, RunControl(Choice("embedded"), lambda _: None), engine)
    return saved.logs, saved.experiment_id


def prompts(count: int) -> list[dict[str, str]]:
    return [{"id": f"q{place}", "prompt": f"What is {place} + 1?"} for place in range(count)]


Case = tuple[Lottery, dict[str, Any], Sequence[str]]
SINGLE_RATE: Case = (
    Lottery({"method": 0.95}),
    {
        "prompts": prompts(50),
        "repeats": 2,
        "hypothesis": ["success_rate >= 0.85", "success_rate <= 0.9", "no crash"],
    },
    ("held", "deviated"),
)
KINDS: dict[str, Case] = {
    "difference to the control": (
        Lottery({"control": 0.95, "method": 0.8}),
        {
            "prompts": prompts(60),
            "repeats": 2,
            "hypothesis": [f"degradation <= {n} %" for n in (0, 5, 15, 40)],
        },
        ("held", "unknown", "deviated"),
    ),
    "mean and percentile": (
        Lottery({"method": 0.9}),
        {
            "prompts": prompts(80),
            "hypothesis": [
                "mean(seconds) <= 2",
                "added_seconds <= 1",
                "added_seconds <= 0.05",
                "added_model_requests >= 3",
                "mean(tokens) <= 600",
                "mean(tokens) <= 320",
                "mean(tokens) <= 100",
                "p95 <= 9s",
                "p50 <= 0.5s",
                "p99 <= 20s",
            ],
        },
        ("held", "unknown", "deviated"),
    ),
    "several claims that share the error": (
        Lottery({"a": 0.8, "b": 0.83, "c": 0.7, "d": 0.97}),
        {
            "prompts": prompts(60),
            "method": None,
            "variants": dict.fromkeys("abcd", FAULTS),
            "hypothesis": ["success_rate >= 0.9", "success_rate >= 0.5"],
        },
        ("held", "unknown", "deviated"),
    ),
    "clusters of prompts": (
        Lottery({"method": 0.6}, by_prompt=0.6),
        {
            "prompts": prompts(60),
            "repeats": 3,
            "population": "like_these",
            "confidence": "95 %",
            "hypothesis": [
                "success_rate >= 0.4",
                "success_rate >= 0.8",
                "degradation <= 20 %",
                "degradation <= 60 %",
            ],
        },
        ("held", "deviated"),
    ),
    "repeats of perturbed prompts": (
        Lottery({"method": 0.95, "method.padding": 0.7, "method.case": 0.9}, by_prompt=0.2),
        {
            "prompts": [{**each, "prompt": f"{each['prompt']} Say it in words."} for each in prompts(12)],
            "repeats": 12,
            "perturb": ["padding", "order"],
            "hypothesis": ["pass^3 >= 0.45", "pass^2 >= 0.9", "pass@2 >= 0.7", "consistency >= 0.7"],
        },
        ("held", "unknown", "deviated"),
    ),
    "repeats of prompts like these": (
        Lottery({"method": 0.9}, by_prompt=0.3),
        {
            "prompts": prompts(40),
            "repeats": 4,
            "population": "like_these",
            "hypothesis": ["pass^3 >= 0.5", "pass^1 >= 0.97", "pass@2 >= 0.8", "consistency <= 0.6"],
        },
        ("held", "unknown", "deviated"),
    ),
    "until decided": (
        Lottery({"method": 0.8}),
        {
            "prompts": prompts(4),
            "until_decided": True,
            "limits": {"episodes": 160},
            "hypothesis": ["success_rate >= 0.6", "success_rate >= 0.95", "success_rate >= 0.79", "no crash"],
        },
        ("held", "unknown", "deviated"),
    ),
}


@pytest.fixture(scope="module")
def single_rate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    engine, experiment, _ = SINGLE_RATE
    return run(tmp_path_factory.mktemp("single"), engine, **experiment)


@pytest.mark.parametrize("kind", KINDS)
def test_recomputed_figures_and_verdicts_do_not_differ(kind: str, tmp_path: Path) -> None:
    engine, experiment, _ = KINDS[kind]
    check(*run(tmp_path, engine, **experiment), KINDS[kind])


def test_recomputed_figures_of_single_rate_do_not_differ(single_rate: tuple[Path, str]) -> None:
    check(*single_rate, SINGLE_RATE)


def check(logs: Path, experiment_id: str, case: Case) -> None:
    _, experiment, verdicts = case
    problems, rows = recompute.differences(logs, experiment_id)
    assert problems == []
    of_hypothesis = {row["verdict"] for row in rows if row["statement"] in str(experiment["hypothesis"])}
    assert of_hypothesis >= set(verdicts)


def test_changed_figure_is_a_difference(single_rate: tuple[Path, str], tmp_path: Path) -> None:
    logs, experiment_id = tmp_path / "logs", single_rate[1]
    shutil.copytree(single_rate[0], logs)
    path = logs / "experiments" / experiment_id / "verdict.json"
    document = json.loads(path.read_text())
    claim = next(check["claim"] for check in document["checks"] if check["claim"])
    claim["low"] += 1e-5
    document["arms"][1]["measures"]["p95"]["estimate"] += 0.01
    path.write_text(json.dumps(document))
    (of_arm, of_claim), _ = recompute.differences(logs, experiment_id)
    assert of_arm.startswith("method: p95: estimate ") and "low" in of_claim


def test_script_imports_numpy_and_scipy_alone() -> None:
    tree = ast.parse(Path(recompute.__file__).read_text())
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    allowed = {
        "functools",
        "json",
        "math",
        "random",
        "re",
        "sys",
        "collections.abc",
        "dataclasses",
        "fractions",
        "pathlib",
    }
    assert names - allowed == {"__future__", "typing", "numpy", "scipy"}
