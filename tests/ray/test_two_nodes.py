"""An experiment on a Ray cluster of two nodes, one of which is killed. ``make ray`` runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.experiments.fates import fates
from tests.lab.demos import environ_in
from tests.support import ROOT, RUN_PATIENCE_S, required, until

RAY = ROOT / ".frameworks" / "ray"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (RAY.is_dir() or required("ray")), reason="without Ray: `make ray` installs it"),
]
EXPERIMENT = """
title: Slow and busy tools
only: ["1", "2"]
seed: 1
method:
  faults:
    toxics: [{toxic: latency, links: tools, with: {latency: 700}}]
    faults: [{fault: unavailable, links: tools, when: {probability: 0.5}}]
hypothesis: [no crash]
"""


def environ_with_ray(folder: Path) -> dict[str, str]:
    return environ_in(
        folder,
        PYTHONPATH=str(RAY),
        RAY_USAGE_STATS_ENABLED="0",
        RAY_enable_metrics_collection="0",
        RAY_health_check_initial_delay_ms="500",
        RAY_health_check_period_ms="500",
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, str(Path(__file__).with_name("two_nodes.py"))]
    pipe = subprocess.PIPE
    environ = environ_with_ray(tmp_path)
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, text=True, env=environ) as nodes:
        yield nodes
        assert nodes.stdin is not None
        nodes.stdin.close()


def start(folder: Path, *words: str, **environ: str) -> subprocess.Popen[str]:
    (folder / "exp.yaml").write_text(EXPERIMENT, encoding="utf-8")
    command = [sys.executable, "-m", "wirefault", *words, "--toxiproxy", "embedded"]
    pipe = subprocess.PIPE
    settings = environ_with_ray(folder) | environ
    return subprocess.Popen(command, cwd=folder, env=settings, stdout=pipe, stderr=pipe, text=True)


def shards_in_flight(folder: Path) -> list[Path]:
    """The histories of the arm with faults that shards are writing for the experiment in that folder."""
    names = [path.name for path in folder.glob(".wirefault/logs/experiments/*")]
    runs = [f"wirefault-shard-*/logs/runs/{name}-2-method*/gateway-0.jsonl" for name in names]
    return [path for run in runs for path in Path(tempfile.gettempdir()).glob(run) if path.stat().st_size]


def test_killed_node_changes_no_outcome_or_fault(tmp_path: Path, cluster: subprocess.Popen[str]) -> None:
    assert cluster.stdout is not None and cluster.stdin is not None
    address = cluster.stdout.readline().strip()
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    words = ["run", "exp.yaml", "--engine", "ray", "--workers", "2", "--json"]
    with start(there, *words, RAY_ADDRESS=address) as running:
        until(lambda: len(shards_in_flight(there)) == 2, patience=RUN_PATIENCE_S, interval=0.1)
        cluster.stdin.write("kill\n")
        cluster.stdin.flush()
        printed, errors = running.communicate(timeout=3 * RUN_PATIENCE_S)
    with start(here, "run", "exp.yaml", "--json") as alone:
        expected = alone.communicate(timeout=3 * RUN_PATIENCE_S)[0]
    assert "lost with its machine; it is run again" in errors, errors
    assert json.loads(printed)["verdict"] == json.loads(expected)["verdict"] == "held", errors
    assert [len(arm["run_ids"]) for arm in json.loads(printed)["arms"]] == [2, 2, 2]
    assert (
        fates(there / ".wirefault" / "logs", "latest") == fates(here / ".wirefault" / "logs", "latest")
        and len(fates(here / ".wirefault" / "logs", "latest")) == 6
    )
