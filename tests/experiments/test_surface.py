"""Perturbed arms from plan to surface: one real run at two fault levels, plans and saved files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.upstream import Upstream, requests_of
from wirefault.core.errors import InputError
from wirefault.experiments.engine import LocalEngine, RunControl
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.index import RunCost
from wirefault.experiments.plan import ExperimentPlan, levels_of, stressed
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.recorded import recording_of, repeated_part
from wirefault.experiments.run_experiment import ExperimentResult, judged_again, run_experiment
from wirefault.experiments.saved import load_saved, save
from wirefault.history.events import EpisodeStarted, Exchange
from wirefault.history.reader import read_run
from wirefault.lab.toxiproxy import Choice
from wirefault.report.experiment_plan import print_plan, undecidable_lines
from wirefault.report.page.write import page_content, page_html
from wirefault.report.surface import print_surface

ASKING = """
import os, re, urllib.request

def ask(prompt):
    # every item of the prompt once, whatever its words are
    seen = set()
    for item in re.findall(r"\\d+", prompt):
        try:
            with urllib.request.urlopen(f"{os.environ['SHOP_URL']}/{item}", timeout=20) as reply:
                seen.add(reply.read())
        except OSError:
            seen.add(b"")
    return "I could not read the stock." if b"" in seen else "There are 7 in stock."
"""
PROMPT = {
    "id": "stock",
    "prompt": "Please read the stock of items 11, 12, 13, 14, 15 and 16. Then tell me how many there are.",
    "expect": {"values": [{"number": 7}]},
    "paraphrases": ["How many do we have of each of 11, 12, 13, 14, 15 and 16?"],
}
EXPERIMENT: dict[str, Any] = {
    "title": "Stock is read whatever the words",
    "wiring": "wirefault.json",
    "prompts": [PROMPT],
    "seed": 5,
    "repeats": 2,
    "perturb": ["order"],
    "method": {
        "faults": {"faults": [{"fault": "server_error", "links": ["shop"], "when": {"probability": 0.3}}]}
    },
    "hypothesis": ["no crash", "pass^2 >= 0.9"],
}


def planned(folder: Path, shop: str = "http://127.0.0.1:9", **changes: Any) -> ExperimentPlan:
    wiring = {
        "links": {"shop": {"upstream": shop, "env": "SHOP_URL"}},
        "subject": {"python": "asking:ask"},
    }
    (folder / "wirefault.json").write_text(json.dumps(wiring), encoding="utf-8")
    (folder / "exp.json").write_text(json.dumps({**EXPERIMENT, **changes}), encoding="utf-8")
    return plan_experiment(load_experiment(folder / "exp.json"), environ(folder))


def environ(folder: Path) -> dict[str, str]:
    state = folder / "state"
    return {
        "LOGS_DIR": str(folder / "logs"),
        "STATE_DB": str(state / "state.db"),
        "EFFECTS_DB": str(state / "effects.db"),
    }


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExperimentResult]:
    """The experiment at the levels 0.25 and 2."""

    def serve(connection: Any) -> None:
        for _ in requests_of(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7")

    folder = tmp_path_factory.mktemp("surface")
    (folder / "asking.py").write_text(ASKING, encoding="utf-8")
    with Upstream(serve) as shop:
        plan = planned(folder, shop.address.url)
        saved = save(stressed(plan, levels_of(plan, [0.25, 2])), "e1")
        complete = run_experiment(saved, RunControl(Choice("embedded"), lambda _: None), LocalEngine())
        assert complete.is_whole, complete.as_json()["because"]
        yield complete


def events_of(result: ExperimentResult, arm: str) -> list[Any]:
    saved = result.saved
    [run_id] = next(saved.run_ids(each) for each in result.plan.arms if each.name == arm)
    return read_run(saved.logs, run_id)


def faulted_calls(result: ExperimentResult, arm: str) -> Sequence[object]:
    """Each request at the gateway with the faults that were injected into it."""
    return [
        (event.episode, event.target, event.call, event.try_, [fault.id for fault in event.faults])
        for event in events_of(result, arm)
        if isinstance(event, Exchange)
    ]


@pytest.mark.slow
def test_perturbed_episodes_meet_faults_of_their_originals(result: ExperimentResult) -> None:
    for level in ("0.25", "2"):
        original, perturbed = (faulted_calls(result, f"method-x{level}{end}") for end in ("", ".order"))
        assert original == perturbed and len(perturbed) == 12
    assert sum(len(faults) for *_, faults in faulted_calls(result, "method-x2.order")) == 7


@pytest.mark.slow
def test_perturbed_episodes_are_their_own(result: ExperimentResult) -> None:
    started = [event for event in events_of(result, "method-x2.order") if isinstance(event, EpisodeStarted)]
    assert [event.episode for event in started] == ["stock", "stock.r2"]
    assert all(event.prompt.startswith("Then tell me") for event in started)
    assert all(event.metadata == {"perturbation": "order"} for event in started)
    assert all(event.expect == PROMPT["expect"] for event in started)
    recording = recording_of(result.saved)
    assert recording.arm("control.order").summary.episodes[0].outcome == "success"


@pytest.mark.slow
def test_surface_and_levels_are_saved_and_printed(result: ExperimentResult) -> None:
    document = json.loads((result.saved.folder / "verdict.json").read_text())
    cells = {(each["perturbation"], each["level"], each["k"]): each for each in document["surface"]}
    assert set(cells) == {
        (name, level, k) for name in ("", "order") for level in (0, 0.25, 2) for k in (1, 2)
    }
    calm = cells["order", 0, 2]
    assert (calm["arm"], calm["value"], calm["n"], calm["prompts"]) == ("control.order", 1.0, 2, 1)
    assert calm["low"] == pytest.approx(0.05) and calm["high"] == 1  # two of two, squared
    assert cells["", 2, 1]["value"] < 1
    assert [row["arm"] for row in document["levels"]] == ["method", "method", "method.order", "method.order"]
    assert [each["arm"] for each in document["level_answers"]] == ["method", "method.order"]
    assert judged_again(result.saved).as_json()["surface"] == document["surface"]
    console = Console(width=200, record=True)
    print_surface(console, result)
    text = console.export_text()
    assert "order       pass^2   100 % [" in text and "no faults" in text and "level 0.25" in text
    answer = "the hypothesis held at none of these levels and first deviated at level 2; unknown at 0.25"
    assert f"method: {answer}" in text and f"method.order: {answer}" in text
    page = page_html(page_content(recording_of(result.saved)))
    assert "100 % [5 %, 100 %] n=2" in page and answer in page


def test_arms_are_perturbed_and_saved(tmp_path: Path) -> None:
    plan = planned(tmp_path, perturb=["typos", "paraphrases"])
    names = [arm.name for arm in plan.arms]
    others = ["typos", "paraphrases"]
    assert names == [
        *("control", *(f"control.{name}" for name in others)),
        *("method", *(f"method.{name}" for name in others)),
        "control-after",
    ]
    arms = dict(zip(names, plan.arms, strict=True))
    assert arms["control.typos"].hypothesis == () and arms["method.typos"].hypothesis != ()
    shadows = {name: json.loads(arm.settings.shadow) for name, arm in arms.items() if arm.settings.shadow}
    assert {name: list(each) for name, each in shadows.items()} == {
        "control": ["method"],
        "control.typos": ["method.typos"],
        "control.paraphrases": ["method.paraphrases"],
    }
    assert {prompt.text for prompt in plan.prompts_of(arms["method.paraphrases"])} == {
        PROMPT["paraphrases"][0]
    }
    saved = save(plan, "e2")
    loaded = load_saved(saved.logs, "e2", environ(tmp_path)).plan
    assert loaded.arms == plan.arms
    texts = {name: [each.text for each in prompts] for name, prompts in plan.perturbed.items()}
    assert {name: [each.text for each in prompts] for name, prompts in loaded.perturbed.items()} == texts


def test_prompt_that_cannot_change_is_left_out_and_named(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, prompts=[PROMPT, {"id": "short", "prompt": "Item 9"}], hypothesis=["success >= 3"]
    )
    assert [len(plan.prompts_of(arm)) for arm in plan.arms] == [4, 2, 4, 2, 4] and plan.episodes == 16
    console = Console(width=200, record=True)
    print_plan(console, plan, None)
    text = console.export_text()
    assert "order leaves out prompts that it cannot change: short" in text
    assert "5 arms of 2 to 4 episodes each: 16 episodes" in text
    assert "method.order: success >= 3: cannot hold, since the arm has 2 episodes" in text


def test_plan_refuses_undecidable_claims_and_prices_all_arms(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    [line] = undecidable_lines(plan)
    assert line.startswith("pass^2 >= 0.9 needs at least 57 episodes, this plan has 2: use repeats: 57")
    last = RunCost("e0", 10.0, 10, 1, {"control": {"cost": 0.25}, "method": {"cost": 0.5}})
    console = Console(width=200, record=True)
    print_plan(console, plan, last)
    # three arms without faults, two with; two episodes each
    assert "cost: 10 episodes, about 10.0 s, about 3.5 USD, as in e0" in console.export_text()
    assert math.isclose(3.5, 2 * (3 * 0.25 + 2 * 0.5))


def test_perturbed_arm_runs_again_with_its_controls(tmp_path: Path) -> None:
    plan = planned(tmp_path, perturb=["order", "typos"])
    part = repeated_part(plan, ["stock"], ["method.order"])
    assert [arm.name for arm in part.arms] == ["control", "control.order", "method.order", "control-after"]
    assert all([each.key for each in part.prompts_of(arm)] == ["stock"] for arm in part.arms)


def test_checks_alone_are_made_of_perturbed_arms_too(tmp_path: Path) -> None:
    plan = planned(tmp_path, method=None, hypothesis=[], checks=["no crash"])
    assert [(arm.name, arm.hypothesis) for arm in plan.arms] == [
        ("checks", ("no crash",)),
        ("checks.order", ("no crash",)),
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"perturb": ["typo"]}, "perturb"),
        ({"perturb": ["order", "order"]}, "names a perturbation twice"),
        ({"prompts": ["Hi"], "perturb": ["paraphrases"]}, "paraphrases: none has `paraphrases`"),
        (
            {"prompts": [PROMPT, "Item 9"], "until_decided": True, "hypothesis": ["success_rate >= 0.5"]},
            "order: with until_decided it must change all prompts",
        ),
        (
            {"method": None, "variants": {"a.order": {"faults": "light"}}},
            "must not end as those of perturbed",
        ),
        ({"prompts": [{**PROMPT, "paraphrases": "x"}]}, '"paraphrases" must be a list'),
        ({"prompts": [{**PROMPT, "paraphrases": [""]}]}, '"paraphrases": number 1 must be a text'),
        (
            {"prompts": [{"turns": ["A", "B"], "paraphrases": [["A"]]}]},
            '"paraphrases": number 1 must be a list of 2 turns',
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as error:
        planned(tmp_path, **changes)
    assert problem in str(error.value)
