"""Two runs of one experiment differ only in times, with any number of workers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from tests.commands import wirefault
from tests.lab.demos import environ_in
from tests.support import only_where_required
from wirefault.experiments.effects import effects_in
from wirefault.experiments.run_experiment import ExperimentResult, judged_again, obstacles_in
from wirefault.experiments.saved import load_saved

# in small, tests/e2e/test_experiments.py
pytestmark = [pytest.mark.slow, only_where_required("workers")]

# Faults of the gateway with chances, in the tools and in the model, toxics drawn by both settings and set.
# The prompts 24 and 26 have the agent call two tools at once. Calls without a fault never time out.
EXPERIMENT = """
title: Workers change nothing
only: ["14", "17", "19", "20", "21", "22", "24", "26"]
seed: 5
settings:
  {prompt_limit: 2, tool_limit: 3, tool_timeout: 20, model_timeout: 60, attempt_time: 300, arm_timeout: 60,
   settle_bound: 30}
method:
  settings: {toxic_prob: 0.3, toxics: "latency:200,reset_peer:0", error_prob: 0.2}
  faults:
    faults:
      - {fault: unavailable, links: tools, when: {probability: 0.3}}
      - {fault: truncate, links: tools, when: {probability: 0.2}}
      - {fault: wrong_value, links: tools, when: {probability: 0.2}}
      - {fault: rate_limit, links: model, when: {probability: 0.1}}
    toxics:
      - {toxic: latency, links: [weather], with: {latency: 100}, when: {probability: 0.5}}
hypothesis: [no crash, success >= 90 % * all]
assertions: [no_loop, {statement: {text: faults_delivered >= 3, over: arm}}]
"""
# If one of two parallel weather calls is faulted, it is the one that arrives first.
BY_ORDER = """
title: The first of two is struck
only: ["24"]
seed: 1
settings: {tool_timeout: 20}
safety: {blast_radius: {calls: 1}}
method: {faults: {faults: [{fault: unavailable, links: [weather]}]}}
hypothesis: [no crash]
"""
_TIMES = {
    "t",
    "start",
    "end",
    "ms",
    "at",
    "arming_ms",
    "delay_ms",
    "acted_ms",
    "first_token_ms",
    "request_ms",
    "opened_ms",
}
# Ids of runs and labs are of random origin. So are keys of idempotency, which are made of them, the length of
# a request that names its run, and salted digests of credentials. Effects are numbered in the order in which
# they came to the world.
_IDS = {"run", "run_id", "lab_id", "key", "idempotency_key", "request_bytes", "credential"}
# whether the agent's retries count as a storm depends on pauses that a busy machine makes longer
_BY_PAUSES = {"retry_storm", "hasty_retry"}
# how an arm is dealt out to lanes and files
_SHARES = {"lane", "prompts_source"}


@dataclass(frozen=True)
class Judged:
    """A finished run: its JSON, its printed text, and the text of ``wirefault report``."""

    document: dict[str, Any]
    stderr: str
    again: ExperimentResult

    @property
    def plan(self) -> list[str]:
        """The plan and the prompts, as they were saved."""
        return [(self.again.saved.folder / n).read_text("utf-8") for n in ("plan.json", "prompts.json")]

    @property
    def conclusions(self) -> list[tuple[Any, ...]]:
        """Verdict and reasons from both; evidence names the run, whose id differs."""
        return [_concluded(self.document), _concluded(json.loads(json.dumps(self.again.as_json())))]


def _concluded(verdict: dict[str, Any]) -> tuple[Any, ...]:
    checks = [
        (c["arm"], c["statement"], c["verdict"], c["measured"], c["episodes"]) for c in verdict["checks"]
    ]
    return verdict["verdict"], verdict["because"], checks, [arm["invalid"] for arm in verdict["arms"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


def run(folder: Path, experiment: str, workers: int) -> Judged:
    file = folder / "experiment.yaml"
    file.write_text(experiment, encoding="utf-8")
    words = [str(file), f"--workers={workers}", "--toxiproxy=embedded", "--json"]
    done = wirefault(folder, environ_in(folder), "run", *words)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    logs = folder / ".wirefault" / "logs"
    return Judged(
        verdict, done.stderr, judged_again(load_saved(logs, verdict["experiment"], {"LOGS_DIR": str(logs)}))
    )


@pytest.fixture(scope="module")
def by_one(folder: Path) -> Judged:
    return run(folder, EXPERIMENT, 1)


# three are dealt three, three and two prompts: several lanes, in each of them several episodes
@pytest.mark.parametrize("workers", [3, 8], ids=["three", "eight"])
def test_repeated_runs_differ_only_in_times(folder: Path, by_one: Judged, workers: int) -> None:
    by_others = run(folder, EXPERIMENT, workers)
    assert by_others.plan == by_one.plan
    by_several, by_single = histories(by_others), histories(by_one)
    assert by_several.keys() == by_single.keys()
    for place, events in by_several.items():
        assert events == by_single[place], place
    assert by_others.conclusions == by_one.conclusions
    assert effects_in(by_others.again.saved) == effects_in(by_one.again.saved)
    assert obstacles_in(by_others.again) == obstacles_in(by_one.again) == {}


def test_runs_include_all_fault_kinds_and_parallel_tools(by_one: Judged) -> None:
    assert {effect.fault for effect in effects_in(by_one.again.saved)} == {
        *("ERROR_PROB", "TOXIC_PROB: latency", "TOXIC_PROB: reset_peer"),
        *("unavailable", "truncate", "wrong_value", "rate_limit", "latency"),
    }
    replies = Counter(
        (place, call["attempt"], call["reply"])
        for place, events in histories(by_one).items()
        if place[1] == "tool_call"
        for call in map(json.loads, events.elements())
    )
    assert max(replies.values()) == 2


def test_run_ends_with_faults_and_reproducibility(by_one: Judged) -> None:
    effects, verdict = (
        by_one.stderr.index("success, faulted - control"),
        by_one.stderr.index("rollback: verified"),
    )
    assert effects < by_one.stderr.index("reproducible: yes") < verdict


def test_order_dependence_is_reported(folder: Path) -> None:
    """Which of two parallel calls is faulted is random for any number of workers."""
    lab_run = run(folder, BY_ORDER, 2)
    because = "one of several concurrent calls used up the blast radius: the order decides which one"
    assert obstacles_in(lab_run.again) == {"method": [because]}
    assert f"method, reproducible: no, because {because}" in " ".join(lab_run.stderr.split())


def histories(lab_run: Judged) -> dict[tuple[str, str, str], Counter[str]]:
    """Events of that kind by arm, kind and episode, without times and random ids."""
    outcomes: dict[tuple[str, str, str], Counter[str]] = {}
    for arm in lab_run.again.plan.arms:
        for event in lab_run.again.saved.history_of(arm).events:
            fields = to_builtins(event)
            place = arm.name, event.event, str(fields.get("episode", ""))
            outcomes.setdefault(place, Counter())[json.dumps(_lasting(fields), sort_keys=True)] += 1
    return outcomes


def _lasting(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_lasting(item) for item in value if not _is_by_pauses(item)]
    if not isinstance(value, dict):
        return value
    left_out = _TIMES | _IDS | _SHARES
    if value.get("event") == "model_call":
        left_out |= {"reply_digest"}  # a reply contains its time
    if value.get("error") and "explains" in value:
        left_out |= {"shows"}  # only timing shows whether an interrupted try met a latency
    if "rule" in value and "severity" in value:
        left_out |= {"text", "evidence"}  # times, and the ids of events in the file of a lane
    if "service" in value and "kind" in value:
        left_out |= {"id"}
    return {key: _lasting(item) for key, item in value.items() if key not in left_out}


def _is_by_pauses(value: Any) -> bool:
    return isinstance(value, dict) and "severity" in value and value.get("rule") in _BY_PAUSES
