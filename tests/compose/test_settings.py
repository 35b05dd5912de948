"""Settings reach the run from the shell, .env and -e; invalid ones are reported once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.rig import Lab, environment
from tests.support import until
from wirefault.wiring.links import lab_links

pytestmark = pytest.mark.compose

ONE_FOR_EACH_TOOL = (
    "Search the web: what is the capital of Australia?",
    "What is the temperature in Paris right now?",
    "In which year did the movie Parasite come out?",
    "What is on my calendar on 12 March 2026?",
    "What is 15% of 240?",
    'Send Bob a message saying "The report is ready".',
    'Translate "Good morning" into French.',
)
WRONG = "error: environment: TOXIC_PROB='7': Input should be less than or equal to 1"


@pytest.fixture
def dotenv(lab: Lab) -> Iterator[Path]:
    path = lab.folder / ".env"
    yield path
    path.unlink(missing_ok=True)


def said_wrong(lines: list[str]) -> list[str]:
    return [line for line in lines if "error" in line.lower()]


def test_real_server_toxics_are_delivered_on_each_tool_link(lab: Lab) -> None:
    lab.prompts(*ONE_FOR_EACH_TOOL)
    chances = ["TOXIC_PROB=1", "TOXIC_SCOPE=each", "ERROR_PROB=0"]
    settings = [*chances, "TOXICS=timeout:400,latency:300", "SEED=1"]
    lab.compose(f"run --rm {' '.join(f'-e {setting}' for setting in settings)} agent")
    run = lab.last_run()
    assert run.settings["toxic_prob"] == 1
    assert "invalid" not in run.outcomes
    faults = [fault for episode in run.episodes for fault in episode.faults]
    assert len(faults) == len(ONE_FOR_EACH_TOOL) * len(lab_links().tools)
    assert all(fault.reached("armed") for fault in faults)
    assert {fault.link for fault in faults if fault.reached("observed")} == {
        link.name for link in lab_links().tools
    }
    assert {fault.why_not for fault in faults if not fault.reached("observed")} == {"not_exercised"}


def test_dotenv_change_applies_and_e_overrides_it(lab: Lab, dotenv: Path) -> None:
    dotenv.write_text("SEED=12\nTOXIC_PROB=0\nERROR_PROB=0.5\n")  # the lab came up without one
    lab.compose("up -d")
    assert lab.wait() == 0
    settings = lab.last_run().settings
    assert (settings["seed"], settings["toxic_prob"], settings["error_prob"]) == (12, 0, 0.5)
    lab.compose("run --rm -e SEED=13 agent")
    settings = lab.last_run().settings
    assert (settings["seed"], settings["error_prob"]) == (13, 0.5)


def test_up_in_pipeline_ends_with_run(lab: Lab) -> None:
    for prob, code in (("7", 64), ("0", 0)):  # the second one starts a lab that is down
        # which implies --abort-on-container-exit
        done = lab.play("docker compose up --exit-code-from agent", TOXIC_PROB=prob)
        assert done.returncode == code, done.stdout + done.stderr
        assert not lab.alive()


def test_second_lab_needs_separate_folder(lab: Lab) -> None:
    lab.up()
    other = Lab(lab.folder, environment("other-"), lab.generation)
    try:
        done = other.play("docker compose run --rm --no-deps -T proxy_mgr")
        assert done.returncode == 1 and "another lab is up in this folder" in done.stdout + done.stderr
    finally:
        other.down()


def test_invalid_dotenv_does_not_restart_in_loop(lab: Lab, dotenv: Path) -> None:
    dotenv.write_text("TOXIC_PROB=7\n")
    lab.compose("up -d --force-recreate")  # the container of a test before may have the same settings
    assert lab.wait() == 64
    assert lab.log("agent") == [WRONG]
    assert [container["RestartCount"] for container in lab.containers().values()] == [0] * len(
        lab.containers()
    )


def test_foreign_dotenv_names_are_listed(lab: Lab, dotenv: Path) -> None:
    dotenv.write_text("TOXIC_PRB=0.5\nDATABASE_URL=secret\n")
    lab.compose("up -d --force-recreate --no-deps init")
    misspelt, foreign = until(lambda: lines if len(lines := lab.log("init")) > 1 else None)
    assert "TOXIC_PRB is ignored" in misspelt and "did you mean 'TOXIC_PROB'?" in misspelt
    assert foreign == ".env: ignored, not settings of Wirefault: DATABASE_URL"


def test_fallback_needs_its_compose_file(lab: Lab) -> None:
    faults = "-e FALLBACK=direct -e TOXIC_PROB=1 -e TOXICS=timeout:400 -e ERROR_PROB=0 -e SEED=1"
    before = lab.runs()
    alone = lab.play(f"docker compose run --rm {faults} agent")
    assert alone.returncode == 64 and lab.runs() == before
    [line] = said_wrong((alone.stdout + alone.stderr).splitlines())
    assert "compose.direct.yaml" in line
    lab.compose(f"-f docker-compose.yaml -f compose.direct.yaml run --rm {faults} agent")
    assert lab.last_run().outcomes == {"success": 1}
    assert '"fallback_used": true' in (lab.logs / "info.log").read_text()


def test_fault_set_and_faults_from_host(lab: Lab) -> None:
    lab.compose("run --rm -e FAULTS=rate-limits -e TOXIC_PROB=0 -e ERROR_PROB=0 -e SEED=1 agent")
    assert "rate_limit" in str(lab.last_run().settings["faults"])
    for words, message in (
        ("set light", "faults of light"),
        ("status", "faults of light"),
        ("clear", "no faults"),
        ("status", "no faults"),
    ):
        done = lab.play(f"wirefault faults {words}")
        assert done.returncode == 0 and message in done.stdout, done.stdout + done.stderr
