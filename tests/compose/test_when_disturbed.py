"""Whatever is done to a run's containers: no toxic survives, nothing recorded is lost, the next run works."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.engine import PATIENCE_S, docker
from tests.compose.recorded import recorded
from tests.compose.rig import SELDOM, Lab
from tests.support import until

pytestmark = pytest.mark.compose

PARIS = "What is the temperature in Paris right now?"
WRITE = 'Send Bob a message saying "The report is ready".'
SLOW = {"TOXIC_PROB": "1", "TOXICS": "latency:700", "ERROR_PROB": "0", "SEED": "1"}
CALM = "-e TOXIC_PROB=0 -e ERROR_PROB=0"


@pytest.fixture
def flying(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """In the midst of a run under toxics; afterwards nothing is left or lost, and the next run works."""
    before = recorded(lab)
    lab.prompts(WRITE, *[PARIS] * getattr(request, "param", 8))
    lab.compose("up -d", **SLOW)
    lab.wait_until_toxics_bite()
    yield lab
    lab.prompts(WRITE)
    lab.compose(f"run --rm {CALM} agent")
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


def test_stop_in_the_midst_of_a_run_and_while_the_lab_starts_again(flying: Lab) -> None:
    run = flying.runs()[-1]
    flying.compose("stop")
    assert flying.container("agent")["State"]["ExitCode"] == 130  # interrupted
    assert any("interrupted" in line for line in flying.log("agent"))
    assert flying.rows("SELECT status FROM runs WHERE run_id = ?", run) == [("finished",)]
    with flying.typed("docker compose up", flying.folder / "said"):
        until(lambda: "gateway" in flying.alive(), "the start of a service", **SELDOM)
        flying.compose("stop --timeout 3")
    flying.up()
    assert flying.toxics() == {}


def test_restart_toxiproxy_in_the_midst_of_a_run(flying: Lab) -> None:
    run = flying.runs()[-1]
    flying.compose("restart --timeout 1 toxiproxy")
    assert flying.container("agent")["State"]["Running"]  # it was in the midst
    assert flying.wait() == 0
    summary = flying.last_run()
    assert summary.completed
    assert summary.run_id == run
    # none, if it was between two attempts that the old one ended and the new one was ready
    assert summary.outcomes.get("invalid", 0) <= 3
    assert summary.episodes[-1].outcome != "invalid"


def test_kill_agent(flying: Lab) -> None:
    run = flying.runs()[-1]
    flying.compose("kill agent")
    flying.healed()
    until(
        lambda: flying.rows("SELECT status FROM runs WHERE run_id = ?", run) == [("expired",)],
        "the lane",
        **SELDOM,
    )


@pytest.mark.parametrize("flying", [400], ids=["long"], indirect=True)
def test_a_second_up_leaves_the_run_alone_and_another_agent_waits_and_says_so(
    flying: Lab, tmp_path: Path
) -> None:
    run, agent, said = flying.runs()[-1], flying.container("agent")["Id"], tmp_path / "said"
    flying.compose("up -d", **SLOW)
    assert flying.container("agent")["Id"] == agent
    flying.prompts(WRITE)
    with flying.typed(f"docker compose run --rm {CALM} agent", said) as other:
        until(lambda: "waiting" in said.read_text(), "the other agent to say that it waits", **SELDOM)
        docker("kill", "--signal", "INT", agent)  # the run is so long that it has not ended by itself
        assert flying.wait() == 130
        assert other.wait(PATIENCE_S) == 0
    runs = (run, flying.runs()[-1])
    assert runs[0] != runs[1]
    for flown in runs:
        assert flying.rows("SELECT status FROM runs WHERE run_id = ?", flown) == [("finished",)]
        assert invalid(flying, flown) == 0


def test_kill_proxy_mgr(flying: Lab, record_property) -> None:
    flying.compose("kill proxy_mgr")
    start = time.monotonic()
    assert flying.wait() == 70
    record_property("from kill proxy_mgr to the end of the run, s", round(time.monotonic() - start, 1))
    errors = [line for line in flying.log("agent") if line.startswith("error:")]
    assert "manager" in errors[-1]  # the container may have flown before
    assert "proxy_mgr" not in flying.alive()
    assert flying.container("proxy_mgr")["RestartCount"] == 0
    assert flying.toxics() != {}
    flying.compose("up -d proxy_mgr")
    until(lambda: flying.health("proxy_mgr") == "healthy", "a healthy manager", **SELDOM)
    assert flying.toxics() == {}
