"""The README's first line in a fresh clone; its result is compared with the native lab."""

from __future__ import annotations

import json
import os
import time
import urllib.request

import pytest

from tests.commands import wirefault
from tests.compose.conftest import FirstUp, readme_lines
from tests.compose.engine import ROOT, docker
from tests.compose.rig import LONG_LIVED, Lab
from wirefault.history.events import EpisodeStarted
from wirefault.history.reader import read_run
from wirefault.wiring.prompts import text_key

pytestmark = pytest.mark.compose
SAMPLES = json.loads((ROOT / "agent" / "prompts.json").read_text(encoding="utf-8"))


def test_readme_up_line_runs_alone() -> None:
    assert readme_lines()[0] == "docker compose up"


def test_run_prints_summary_and_lab_stays_up(first: FirstUp) -> None:
    assert first.code == 0
    assert "success" in first.output and "duel " not in first.output
    assert first.still_up == {*LONG_LIVED, "init"}


def test_agent_log_is_readable(clone: Lab, first: FirstUp) -> None:
    log = clone.log("agent")
    assert len(log) < 2 * len(SAMPLES) + 40
    assert "\x1b" not in "".join(log)
    assert any(line.startswith("SEED=") and line.endswith("docker compose up") for line in log)


def test_each_prompt_is_in_logs_and_in_history(clone: Lab, first: FirstUp) -> None:
    [run] = clone.runs()
    events = read_run(clone.logs, run)
    assert [event.prompt for event in events if isinstance(event, EpisodeStarted)] == [
        entry["prompt"] for entry in SAMPLES
    ]
    agent, info = (
        [json.loads(line) for line in (clone.logs / name).read_text().splitlines()]
        for name in ("agent.log", "info.log")
    )
    assert {line["episode"] for line in agent} == {text_key(entry["prompt"]) for entry in SAMPLES}
    assert info[-1]["event"] == "summary"


def test_finished_state_has_no_toxic(clone: Lab, first: FirstUp) -> None:
    assert clone.rows("SELECT DISTINCT status FROM runs") == [("finished",)]
    assert clone.rows("SELECT DISTINCT state FROM attempts") == [("healed",)]
    assert clone.rows("SELECT COUNT(*) FROM toxics WHERE removed_at IS NULL") == [(0,)]
    assert clone.rows("SELECT COUNT(*) > 0 FROM effects", file="effects.db") == [(1,)]
    assert clone.toxics() == {}
    assert clone.last_run().toxics_left == 0


def test_charts_are_drawn_on_host_and_in_container_of_which_nothing_is_left(
    clone: Lab, first: FirstUp
) -> None:
    before = set(clone.containers())  # `down` removes these
    picture = clone.logs / "charts" / clone.runs()[-1] / "overview.png"
    for line in ("python charts.py", "docker compose run --rm charts"):
        picture.unlink(missing_ok=True)
        done = clone.play(line)
        assert done.returncode == 0, done.stdout + done.stderr
        assert picture.stat().st_size > 10_000
    assert set(clone.containers()) == before


def test_manager_status_is_on_loopback(clone: Lab, first: FirstUp) -> None:
    assert clone.manager().host == "127.0.0.1"
    with urllib.request.urlopen(f"{clone.manager().url}/ready", timeout=10) as answer:
        assert json.load(answer) == {"ready": True}


def test_manager_has_metrics_of_runs(clone: Lab, first: FirstUp) -> None:
    with urllib.request.urlopen(f"{clone.manager().url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    episodes = sum(float(line.split()[-1]) for line in lines if line.startswith("wirefault_episodes_total{"))
    assert episodes == len(SAMPLES) and 'wirefault_runs_total{end="completed"} 1.0' in lines


def test_host_commands_locate_lab(clone: Lab, first: FirstUp) -> None:
    for words in ("set light", "status", "clear"):
        done = clone.play(f"wirefault faults {words}")
        assert done.returncode == 0, done.stdout + done.stderr


def test_native_lab_gives_same_outcomes(clone: Lab, first: FirstUp) -> None:
    there = clone.last_run()
    settings = {name.upper(): str(value) for name, value in there.settings.items() if value != ""}
    words = ("demo", "--no-charts", "--json", "--out", str(clone.folder / "native"))
    done = wirefault(ROOT, os.environ | settings, *words)
    here = json.loads(done.stdout.splitlines()[-1])
    assert [episode["outcome"] for episode in here["episodes"]] == [
        episode.outcome for episode in there.episodes
    ]
    assert "invalid" not in there.outcomes


def test_project_image_layers_are_small(clone: Lab, first: FirstUp, record_property) -> None:
    ours = clone.size_above_base()
    record_property("layers above the base image, MB", round(ours / 1e6))
    assert ours < 360e6


def test_rebuild_after_source_change(clone: Lab, first: FirstUp, record_property) -> None:
    image = clone.environ["WIREFAULT_IMAGE"] + "-changed"
    source = clone.folder / "agent" / "__init__.py"
    source.write_text(source.read_text() + f"# {time.time()}\n")
    start = time.monotonic()
    clone.compose("build", WIREFAULT_IMAGE=image)
    record_property("build after a changed source, s", round(time.monotonic() - start, 1))
    assert docker("run", "--rm", image, "tail", "-n", "1", "agent/__init__.py").startswith("# ")
    docker("rmi", image)
