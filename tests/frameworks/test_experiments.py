"""The experiments on frameworks and on MCP that ship, each run by a user's command to its verdict."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.commands import wirefault
from tests.experiments.fates import fates
from tests.frameworks.exec_runs import ATTEMPT_S, installed, shop_on_its_port
from tests.support import ROOT
from wirefault.cli.main import main

EXPERIMENTS = ROOT / "experiments"


@dataclass(frozen=True)
class Shows:
    """The result of an experiment; ``arms``: the faulted ones, with outcome and fault of each."""

    verdict: str
    because: str
    arms: Mapping[str, tuple[str, str]]

    @property
    def code(self) -> int:
        return {"held": 0, "deviated": 1}[self.verdict]


SHOWN = {
    "frameworks/vercel-ai": Shows(
        "deviated", "method: no duplicate: duplicate 1 of 1", {"method": ("duplicate", "lose_reply")}
    ),
    "frameworks/pydantic-ai": Shows(
        "held",
        "all of 11 statements held",
        {"lost-reply": ("crash", "lose_reply"), "busy-model": ("success", "rate_limit")},
    ),
    "mcp/executed-tool-error": Shows(
        "deviated", "method: no duplicate: duplicate 1 of 1", {"method": ("duplicate", "tool_error")}
    ),
}


def experiment_json(folder: Path, experiment: str) -> dict[str, Any]:
    """The printed verdict. The experiment works in any folder, since its wiring locates the agent."""
    # a compiled module is cached, else every run compiles its framework
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = ["--json", "--toxiproxy", "embedded", "--set", f"attempt_time={ATTEMPT_S}"]
    done = wirefault(folder, environ, "run", str(EXPERIMENTS / f"{experiment}.yaml"), *words)
    assert done.returncode == SHOWN[experiment].code, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def check(folder: Path, experiment: str) -> None:
    """Its verdict and why, and in each arm the outcome and the one fault that arrived."""
    summary, expected = experiment_json(folder, experiment), SHOWN[experiment]
    assert summary["verdict"] == expected.verdict and summary["because"].startswith(expected.because), summary
    fates_by_arm = fates(folder / ".wirefault" / "logs", summary["experiment"])
    calm: dict[str, tuple[str, list[str]]] = {arm: ("success", []) for arm in ("control", "control-after")}
    expected_faults = {arm: (outcome, [fault]) for arm, (outcome, fault) in expected.arms.items()}
    assert {
        arm: (fate[0], [fault for fault, _ in fate[1]]) for (arm, _), fate in fates_by_arm.items()
    } == calm | expected_faults
    delivered = {arm["arm"]: arm["measures"]["faults_delivered"]["estimate"] for arm in summary["arms"]}
    assert delivered == dict.fromkeys(calm, 0) | dict.fromkeys(expected_faults, 1)


def test_framework_returning_errors_to_model_orders_twice(tmp_path: Path) -> None:
    installed("vercel_ai")
    with shop_on_its_port(tmp_path) as shop:
        check(tmp_path, "frameworks/vercel-ai")
        assert shop.orders() == 4  # one in each control, two under the fault


def test_framework_raising_errors_orders_once(tmp_path: Path) -> None:
    installed("pydantic_ai")
    with shop_on_its_port(tmp_path) as shop:
        check(tmp_path, "frameworks/pydantic-ai")
        assert shop.orders() == 4  # one in each arm


def test_trusted_mcp_error_acts_twice(tmp_path: Path) -> None:
    installed("openai_agents")
    check(tmp_path, "mcp/executed-tool-error")


def test_plan_without_installed_agent() -> None:
    folders = [EXPERIMENTS / "frameworks", EXPERIMENTS / "mcp"]
    assert {f"{path.parent.name}/{path.stem}" for folder in folders for path in folder.glob("*.*")} == {
        *SHOWN
    }
    planned = CliRunner().invoke(main, ["plan", *map(str, folders)])
    assert planned.exit_code == 0, planned.output
    for expected in SHOWN.values():
        assert all(f"{arm} " in planned.output for arm in expected.arms)
