"""Whatever is done to a run's containers: no toxic survives, nothing recorded is lost, the next run works."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.engine import PATIENCE_S, docker
from tests.compose.recorded import recorded
from tests.compose.rig import CALM, SELDOM, Lab
from tests.support import until

pytestmark = pytest.mark.compose

PARIS = "What is the temperature in Paris right now?"
WRITE = 'Send Bob a message saying "The report is ready".'
SLOW = {"TOXIC_PROB": "1", "TOXICS": "latency:700", "ERROR_PROB": "0", "SEED": "1"}
SET_CALM = " ".join(f"-e {name}={value}" for name, value in CALM.items())


@pytest.fixture
def busy_lab(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Disturbances during a run under toxics: afterwards nothing is left or lost, and the next run works."""
    before = recorded(lab)
    lab.prompts(WRITE, *[PARIS] * getattr(request, "param", 8))
    lab.compose("up -d", **SLOW)
    lab.wait_until_toxics_bite()
    yield lab
    lab.prompts(WRITE)
    lab.compose(f"run --rm {SET_CALM} agent")
    assert [episode.outcome for episode in lab.last_run().episodes] == ["success"]
    assert lab.toxics() == {}
    assert lab.rows("SELECT COUNT(*) FROM toxics WHERE removed_at IS NULL") == [(0,)]
    assert lab.rows(
        "SELECT COUNT(*) FROM effects WHERE world LIKE ?", f"{lab.runs()[-1]}/%", file="effects.db"
    ) == [(1,)]
    after = recorded(lab)
    assert all(after[name] >= before[name] for name in before)


def invalid(lab: Lab, run: str) -> int:
    """How many attempts of the run were disturbed."""
    return len(lab.rows("SELECT id FROM attempts WHERE run_id = ? AND disturbed != '[]'", run))


def test_stop_during_run_and_during_restart(busy_lab: Lab) -> None:
    run = busy_lab.runs()[-1]
    busy_lab.compose("stop")
    assert busy_lab.container("agent")["State"]["ExitCode"] == 130  # interrupted
    assert any("interrupted" in line for line in busy_lab.log("agent"))
    assert busy_lab.rows("SELECT status FROM runs WHERE run_id = ?", run) == [("finished",)]
    with busy_lab.typed("docker compose up", busy_lab.folder / "output"):
        until(lambda: "gateway" in busy_lab.alive(), "the start of a service", **SELDOM)
        busy_lab.compose("stop --timeout 3")
    busy_lab.up()
    assert busy_lab.toxics() == {}


def test_restart_of_toxiproxy_during_run(busy_lab: Lab) -> None:
    run = busy_lab.runs()[-1]
    busy_lab.compose("restart --timeout 1 toxiproxy")
    assert busy_lab.container("agent")["State"]["Running"]  # it was running
    assert busy_lab.wait() == 0
    summary = busy_lab.last_run()
    assert summary.completed
    assert summary.run_id == run
    # None if the container changed between two attempts
    assert summary.outcomes.get("invalid", 0) <= 3
    assert summary.episodes[-1].outcome != "invalid"


def test_kill_agent(busy_lab: Lab) -> None:
    run = busy_lab.runs()[-1]
    busy_lab.compose("kill agent")
    busy_lab.healed()
    until(
        lambda: busy_lab.rows("SELECT status FROM runs WHERE run_id = ?", run) == [("expired",)],
        "the lane",
        **SELDOM,
    )


@pytest.mark.parametrize("busy_lab", [400], ids=["long"], indirect=True)
def test_second_up_keeps_run_and_second_agent_waits(busy_lab: Lab, tmp_path: Path) -> None:
    run, agent, output_file = busy_lab.runs()[-1], busy_lab.container("agent")["Id"], tmp_path / "output"
    busy_lab.compose("up -d", **SLOW)
    assert busy_lab.container("agent")["Id"] == agent
    busy_lab.prompts(WRITE)
    with busy_lab.typed(f"docker compose run --rm {SET_CALM} agent", output_file) as other:
        until(lambda: "waiting" in output_file.read_text(), "the other agent to say that it waits", **SELDOM)
        docker("kill", "--signal", "INT", agent)  # the run is too long to have ended normally
        assert busy_lab.wait() == 130
        assert other.wait(PATIENCE_S) == 0
    runs = (run, busy_lab.runs()[-1])
    assert runs[0] != runs[1]
    for run_id in runs:
        assert busy_lab.rows("SELECT status FROM runs WHERE run_id = ?", run_id) == [("finished",)]
        assert invalid(busy_lab, run_id) == 0


def test_kill_proxy_mgr(busy_lab: Lab, record_property) -> None:
    busy_lab.compose("kill proxy_mgr")
    start = time.monotonic()
    assert busy_lab.wait() == 70
    record_property("from kill proxy_mgr to the end of the run, s", round(time.monotonic() - start, 1))
    errors = [line for line in busy_lab.log("agent") if line.startswith("error:")]
    assert "manager" in errors[-1]  # an earlier run may have used the container
    assert "proxy_mgr" not in busy_lab.alive()
    assert busy_lab.container("proxy_mgr")["RestartCount"] == 0
    # it may die between two attempts, when no toxic is in force
    [(recorded_toxics,)] = busy_lab.rows("SELECT COUNT(*) FROM toxics WHERE removed_at IS NULL")
    assert bool(busy_lab.toxics()) == bool(recorded_toxics)
    busy_lab.compose("up -d proxy_mgr")
    until(lambda: busy_lab.health("proxy_mgr") == "healthy", "a healthy manager", **SELDOM)
    assert busy_lab.toxics() == {}
