"""Open episodes, effects of faults and recovery, recomputed from the histories of experiments on paper."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.independent import recompute_failures as again
from tests.independent.test_recompute import Lottery, prompts, run
from tests.judging.oracle.histories import (
    ASK_BOB,
    ended,
    episode,
    exchange,
    fault_met,
    healed,
    judge_episode,
    message_sent,
    run_started,
    world,
)
from tests.support import replace
from wirefault.experiments.plan import PlannedArm
from wirefault.history.events import BudgetSpent, EpisodeJudged, Event, Exchange, ShadowMet
from wirefault.wiring.prompts import Prompt

ERROR = 0.05
WANTED = {"values": [{"number": 4}]}
PRICE, LIMIT = (2.5, 10.0), 900
COUNTED = {
    "prices": json.dumps({"m": dict(zip(("input", "output"), PRICE, strict=True))}),
    "budgets": json.dumps({"episode": {"tokens": LIMIT}}),
}


@dataclass(frozen=True)
class Weather(Lottery):
    """Calls to a tool that fail under faults and are sent again; some never work."""

    lasting: float = 0.0
    """Chance that a failure lasts."""
    invalid: float = 0.0
    unjudged: float = 0.0

    def _episode(self, arm: PlannedArm, prompt: Prompt) -> list[Event]:
        draws = random.Random(f"{arm.name} {prompt.key}")
        shared = random.Random(prompt.key)
        struck = [shared.random() < 0.4 for _ in range(3)]
        requests: list[Event] = []
        at = 103.0
        for call, name in enumerate(("", "lost", "slow")):
            tries = [*self._failures(draws, name, struck[call] and not arm.is_calm), None]
            if len(tries) > 1 and draws.random() < self.lasting:
                tries.pop()
            for number, fault in enumerate(tries, 1):
                at += draws.uniform(0.01, 1.5)
                ms = draws.uniform(5, 400)
                shadows = [ShadowMet("method", name, "unavailable")] if struck[call] and arm.is_calm else []
                requests.append(
                    exchange(
                        "weather",
                        ms=ms,
                        status=503 if fault else 200,
                        fault=fault,
                        start=at,
                        fingerprint=f"call {call}",
                        call=call + 1,
                        try_=number,
                        shadows=shadows if name else [],
                    )
                )
                at += ms / 1000
        requests += self._more(draws, at, is_struck=any(struck) and not arm.is_calm)
        chance = self.chances.get(arm.name, 0.97)
        is_right = draws.random() < chance
        end = ended(values=[{"value": 4.0 if is_right else 5.0, "unit": None}], ms=1000 * (at - 103))
        is_invalid = (
            draws.random() < self.invalid and not arm.is_calm
        )  # else the arm with faults does not run
        heal = healed(invalid="the lab failed" if is_invalid else None)
        expect = None if draws.random() < self.unjudged else self._wanted
        ending = replace(end, start=103.0, end=at)
        events = [
            replace(each, episode=prompt.key) for each in episode(*requests, ending, heal, expect=expect)
        ]
        judged = replace(judge_episode([run_started(**self.settings), *events]), t=1.0)
        assert isinstance(judged, EpisodeJudged)
        return [*events, judged]

    @property
    def _wanted(self) -> dict[str, Any]:
        return WANTED

    def _more(self, draws: random.Random, at: float, *, is_struck: bool) -> list[Event]:
        """Further events of an episode."""
        return []

    @staticmethod
    def _failures(draws: random.Random, name: str, is_struck: bool) -> Sequence[Any]:
        return [fault_met(id=name) for _ in range(draws.randint(1, 3))] if is_struck else []


@dataclass(frozen=True)
class Trade(Weather):
    """The same with requests to a model, whose replies may be lost, and with a write."""

    _wanted = WANTED | ASK_BOB

    def _more(self, draws: random.Random, at: float, *, is_struck: bool) -> list[Event]:
        events: list[Event] = []
        for call in range(3):
            is_lost = is_struck and draws.random() < 0.5
            for number, whole in enumerate((False, True) if is_lost else (True,), 1):
                events.append(
                    exchange(
                        "model",
                        dialect="openai_chat",
                        model="m",
                        tokens_in=draws.randint(50, 300),
                        tokens_out=draws.randint(1, 90),
                        start=at + call + number / 10,
                        fingerprint=f"step {call}",
                        call=call + 9,
                        try_=number,
                        complete=(True, whole),
                    )
                )
        used = sum(each.tokens or 0 for each in events if isinstance(each, Exchange))
        spent = [BudgetSpent(at, "001", 1, "episode.tokens", used, LIMIT)] if used > LIMIT else []
        count = draws.choice((0, 1, 1, 1, 2)) if is_struck else 1
        return [*events, *spent, world(*[message_sent()] * count)]


def document_of(logs: Path, experiment: str) -> Any:
    return json.loads((logs / "experiments" / experiment / "verdict.json").read_text())


def measures_of(document: Any, arm: str) -> Any:
    return next(each["measures"] for each in document["arms"] if each["arm"] == arm)


@pytest.mark.parametrize("lasting", [0.0, 0.15, 0.6])
def test_recovery_measures_do_not_differ(tmp_path: Path, lasting: float) -> None:
    engine = Weather({"method": 0.8}, lasting=lasting)
    logs, name = run(tmp_path, engine, prompts=prompts(60), hypothesis=["mttr <= 3", "availability >= 0.5"])
    document, arms = document_of(logs, name), again.read_arms(logs, name)
    ours = dict(again.recovery_measures(arms["method"], ERROR))
    assert list(again.differing(measures_of(document, "method"), ours)) == []
    assert len(ours) == 12 and ours["recovery_correctness"]["n"] > 20
    assert (ours["mttr"]["estimate"] is None) == (lasting > 0)
    checks = {check["statement"]: check["claim"] for check in document["checks"] if check["arm"] == "method"}
    for measure, statement in (("mttr", "mttr <= 3"), ("availability", "availability >= 0.5")):
        figures = {key: value for key, value in ours[measure].items() if key != "n"}
        if checks[statement] is not None and checks[statement]["confidence"] == 0.9:
            assert list(again.differing(checks[statement], figures)) == []


@pytest.mark.parametrize(("invalid", "unjudged"), [(0.0, 0.05), (0.06, 0.0), (0.06, 0.06)])
def test_open_episodes_and_effects_do_not_differ(tmp_path: Path, invalid: float, unjudged: float) -> None:
    engine = Weather({"method": 0.6}, invalid=invalid, unjudged=unjudged)
    logs, name = run(tmp_path, engine, prompts=prompts(80), hypothesis=["degradation <= 60 %"])
    document, arms = document_of(logs, name), again.read_arms(logs, name)
    for arm in ("control", "method"):
        ours = dict(again.open_measures(arms[arm], ERROR))
        assert list(again.differing(measures_of(document, arm), ours, arm)) == []
    assert ours["success_rate"]["bounds"][0] < ours["success_rate"]["bounds"][1]
    [claim] = [check["claim"] for check in document["checks"] if check["statement"].startswith("degradation")]
    assert list(again.differing(claim, again.loss(arms["control"], arms["method"], ERROR))) == []
    rows = again.effects(arms["control"], arms["method"], "method", ERROR)
    assert list(again.differing(document["effects"], rows)) == []
    assert [row["fault"] for row in rows] == ["lost", "slow"] and all(row["open"] for row in rows)


def test_quality_costs_and_budgets_do_not_differ(tmp_path: Path) -> None:
    engine = Trade({"method": 0.8}, lasting=0.15, settings=COUNTED)
    objectives = ["availability >= 0.75", "success_rate >= 0.5"]
    logs, name = run(tmp_path, engine, prompts=prompts(60), hypothesis=objectives)
    document, arms = document_of(logs, name), again.read_arms(logs, name)
    method = measures_of(document, "method")
    ours = dict(again.recovery_measures(arms["method"], ERROR))
    ours |= dict(again.cost_measures(arms["method"], PRICE, LIMIT, ERROR))
    assert list(again.differing(method, ours)) == []
    quality = ("correctness", "completeness", "consistency")
    assert all(0.1 < ours[f"recovery_{part}"]["estimate"] < 0.95 for part in quality)
    assert ours["budget_overshoot"]["estimate"] and ours["budgets_spent"]["estimate"]
    assert ours["cost_of_faults_usd"]["low"] > 0
    control = dict(again.cost_measures(arms["control"], PRICE, LIMIT, ERROR))
    assert list(again.differing(measures_of(document, "control"), control)) == []
    [resilience] = [each["resilience"] for each in document["arms"] if each["arm"] == "method"]
    parts = {row["part"]: row for row in resilience["recovery_quality"]}
    assert (
        list(again.differing(parts["timeliness"], again.slowdown(arms["control"], arms["method"], ERROR)))
        == []
    )
    rises = dict(again.rises(arms["control"], arms["method"], PRICE, ERROR))
    added = {row["name"]: row["added"] for row in resilience["cost_of_faults"]}
    assert list(again.differing(added, rises)) == []
    budgets = [
        again.error_budget(ours["availability"], 0.75),
        again.error_budget(dict(again.open_measures(arms["method"], ERROR))["success_rate"], 0.5),
    ]
    assert list(again.differing(resilience["error_budgets"], budgets)) == []


def test_changed_number_is_a_difference() -> None:
    recorded = {"mttr": {"estimate": None, "bounds": [1.0, None]}}
    assert list(again.differing(recorded, {"mttr": {"estimate": None, "bounds": [1.0, float("inf")]}})) == []
    assert list(again.differing(recorded, {"mttr": {"bounds": [1.1, None]}})) == [
        " mttr bounds 0 1.0, not 1.1"
    ]


def test_script_imports_nothing_of_wirefault() -> None:
    tree = ast.parse(Path(again.__file__).read_text())
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert not [name for name in names if name.startswith("wirefault")]
    assert {name for name in names if name.startswith("tests")} == {"tests.independent"}
