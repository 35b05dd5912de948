"""Experiments drawn at random: each can be planned, and the same is drawn for the same seed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wirefault.cli.main import main
from wirefault.core.identity import draw
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.fuzz import SPACES, drawn_experiment, drawn_parameters, options_of
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.faults.registry import REGISTRY
from wirefault.wiring.links import Link, Links
from wirefault.wiring.wiring import lab_wiring

LINKS = lab_wiring().links


def fuzz(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["faults", "draw", str(folder), *words])


@pytest.mark.parametrize("space", SPACES)
def test_fuzzed_file_can_be_planned_and_has_faults(tmp_path: Path, space: str) -> None:
    assert fuzz(tmp_path, "--n=6", "--seed=7", f"--space={space}", "--only=1").exit_code == 0
    files = sorted(tmp_path.glob("*.yaml"))
    assert len(files) == 6
    for file in files:
        plan = plan_experiment(load_experiment(file), {"LOGS_DIR": str(tmp_path)})
        assert len(plan.prompts) == 1 and plan.arms[1].settings.faults
        assert f"--seed 7 --space {space}" in plan.experiment.description


def test_same_seed_writes_same_bytes(tmp_path: Path) -> None:
    for folder, count in (("a", "3"), ("b", "5")):
        fuzz(tmp_path / folder, f"--n={count}", "--seed=7")
    first, second = ({f.name: f.read_bytes() for f in (tmp_path / folder).iterdir()} for folder in "ab")
    assert first.items() < second.items() and len(second) == 5


def test_seed_changes_fuzz() -> None:
    drawn = [str(drawn_experiment(seed, 1, "default", LINKS)["method"]) for seed in range(20)]
    assert len(set(drawn)) > 15


def test_each_space_draws_its_faults() -> None:
    def kinds(space: str) -> set[str]:
        sets = [drawn_experiment(3, number, space, LINKS)["method"]["faults"] for number in range(120)]
        return {entry.get("fault") or entry["toxic"] for one in sets for key in one for entry in one[key]}

    streams = {"stream_cut", "stream_hang", "slow_first_token", "slow_tokens", "early_end", "stream_error"}
    assert kinds("stream") <= streams | {"duplicate_event", "corrupt_event", "swap_events"}
    assert "latency" in kinds("network") and "rate_limit" not in kinds("network")
    assert {"latency", "wrong_value"} <= kinds("stress") and "wrong_value" not in kinds("llm")


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_parameters_are_drawn_inside_declared_range(name: str) -> None:
    fault = REGISTRY[name]
    declared = fault.model_json_schema()["properties"]
    seen: dict[str, set[str]] = {key: set() for key in declared}
    for number in range(200):
        drawn = drawn_parameters(fault, partial(draw, 1, str(number), 0, "", "", 0, 0))
        assert fault.model_validate(drawn)
        for key, value in drawn.items():
            seen[key].add(str(value))
    for key, of_key in declared.items():
        options = {str(option) for option in options_of(key, of_key) if option is not None}
        assert len(seen[key]) > 1 if options else not seen[key]
        assert seen[key] <= options
        assert options or not {"minimum", "maximum", "enum"} & of_key.keys()


def test_long_faults_get_seconds() -> None:
    hour = {"type": "number", "minimum": 0, "maximum": 3600_000}
    assert max(options_of("ms", hour)) == 2000 and max(options_of("items", hour)) == 3600_000
    least = {"type": "integer", "exclusiveMinimum": 0, "maximum": 5}
    assert options_of("items", least) == [1, 2, 3, 4, 5]


def test_mcp_fault_is_drawn_for_mcp_wiring() -> None:
    of_mcp = Links((*LINKS, Link("files", "http://127.0.0.1:9000", dialect="mcp", env=("FILES_URL",))))
    for links, expected in ((LINKS, False), (of_mcp, True)):
        sets = [drawn_experiment(3, number, "tools", links)["method"]["faults"] for number in range(60)]
        names = {fault["fault"] for one in sets for fault in one["faults"]}
        assert any(REGISTRY[name].where == "mcp" for name in names) is expected
        assert not any(REGISTRY[name].lab_only for name in names)


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "fuzz-default-1-0002.yaml").write_text("mine")
    result = fuzz(tmp_path, "--n=3")
    assert result.exit_code == 64 and "already exists" in result.output
    assert (tmp_path / "fuzz-default-1-0002.yaml").read_text() == "mine"


def test_unreadable_input_is_reported(tmp_path: Path) -> None:
    assert "nowhere.yaml" in fuzz(tmp_path, "--wiring", "nowhere.yaml").output
    assert fuzz(tmp_path, "--space=chaos").exit_code == 64


@pytest.mark.parametrize("space", SPACES)
def test_faults_of_websockets_are_not_drawn(space: str) -> None:
    chosen = {name for name, fault in REGISTRY.items() if SPACES[space].holds(name, fault)}
    assert not {name for name in chosen if REGISTRY[name].family == "websocket"}
