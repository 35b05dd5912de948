"""The manager's metrics, read as text, and by a real Prometheus server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import requests

from tests.gateway.lab import TOKEN
from tests.proxy_manager.rig import LATENCY, Plane, api_of, looping
from tests.report.synthetic import SyntheticRun
from tests.support import PATIENCE_S, free_port, required, until
from wirefault.history.reader import read_run

parser = pytest.importorskip("prometheus_client.parser")
PROMETHEUS = """
global: {{scrape_interval: 500ms}}
scrape_configs:
  - job_name: wirefault
    static_configs: [{{targets: ["{target}"]}}]
"""


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Values by name and labels' values, in the order of the labels' names."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def record(plane: Plane, run_id: str = "run-1") -> None:
    """Put a finished run into the lab."""
    SyntheticRun(plane.folder / "logs", run_id, prompts=6, settings={"error_prob": 0.4}).write()
    plane.state.insert_run(run_id, "lab", 0, "{}", "", 1, 2e9, status="finished")


def recorded_outcomes(plane: Plane, run_id: str = "run-1") -> Counter[str]:
    events = read_run(plane.folder / "logs", run_id)
    return Counter(event.outcome for event in events if event.event == "episode_judged")


def test_metrics_count_runs_of_this_lab(plane: Plane) -> None:
    plane.state.insert_run("old", "lab", 0, "{}", "", 1, 1.0, status="finished")
    plane.state.insert_run("other", "another-lab", 0, "{}", "", 1, 2e9, status="finished")
    with looping(plane) as loop, api_of(plane, loop) as api:
        before = samples(api.get("/metrics").text)
        assert not [name for name in before if name[0].endswith("_total")]
        record(plane)
        answer = api.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        values = samples(answer.text)
        assert values["wirefault_runs_total", "completed"] == 1
        outcomes = recorded_outcomes(plane)
        assert {name[1]: values[name] for name in values if name[0] == "wirefault_episodes_total"} == outcomes
        events = read_run(plane.folder / "logs", "run-1")
        exchanges = [event for event in events if event.event == "exchange"]
        statuses = Counter((event.link, str(event.status or "none")) for event in exchanges)
        assert {n[1:]: values[n] for n in values if n[0] == "wirefault_requests_total"} == statuses
        again = samples(api.get("/metrics").text)
        assert {n: again[n] for n in again if n[0].endswith("_total")} == {
            n: values[n] for n in values if n[0].endswith("_total")
        }  # each event counts once


def test_toxics_in_force_are_read_back(plane: Plane) -> None:
    with looping(plane) as loop, api_of(plane, loop) as api:
        plane.request([LATENCY])
        name = ("wirefault_toxics_in_force", "latency", "search")
        until(lambda: samples(api.get("/metrics").text).get(name) == 1, interval=0.05)
        values = samples(api.get("/metrics").text)
        assert values["wirefault_run_in_progress",] == 1 and values["wirefault_ready",] == 1


def test_altered_history_leaves_other_runs(plane: Plane, caplog: pytest.LogCaptureFixture) -> None:
    record(plane)
    folder = plane.folder / "logs" / "runs" / "broken"
    folder.mkdir()
    (folder / "agent-0.jsonl").write_text("nonsense\n", encoding="utf-8")
    plane.state.insert_run("broken", "lab", 0, "{}", "", 1, 2e9, status="finished")
    with looping(plane) as loop, api_of(plane, loop) as api:
        assert samples(api.get("/metrics").text)["wirefault_runs_total", "completed"] == 1
    assert "no metrics of run broken" in caplog.text


def test_pages_of_other_sites_read_no_metrics(plane: Plane) -> None:
    with looping(plane) as loop, api_of(plane, loop) as api:
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            assert api.send("GET", "/metrics", headers=headers).status_code == 403
        assert TOKEN not in api.get("/metrics").text


def test_missing_package_is_named(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with looping(plane) as loop, api_of(plane, loop) as api:
        answer = api.get("/metrics")
    assert answer.status_code == 501 and "wirefault[prometheus]" in answer.json()["error"]["message"]


@pytest.mark.slow
def test_prometheus_receives_what_the_run_shows(plane: Plane, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        assert not required("prometheus"), "no prometheus on PATH; .ci/prometheus.sh installs it"
        pytest.skip("no prometheus on PATH")
    record(plane)
    folder = tmp_path / "prometheus"
    folder.mkdir()
    port = free_port()
    with looping(plane) as loop, api_of(plane, loop) as api:
        target = api.url.removeprefix("http://")
        (folder / "prometheus.yml").write_text(PROMETHEUS.format(target=target), encoding="utf-8")
        options = [
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        process = subprocess.Popen([program, *options], stderr=subprocess.DEVNULL)

        def results(query: str) -> list[dict[str, object]]:
            url = f"http://127.0.0.1:{port}/api/v1/query"
            try:
                answer = requests.get(url, params={"query": query}, timeout=PATIENCE_S)
            except requests.ConnectionError:
                return []
            return json.loads(answer.text)["data"]["result"] if answer.ok else []

        try:
            rows = until(lambda: results("wirefault_episodes_total"), "a scrape", interval=0.1)
            outcomes = {row["metric"]["outcome"]: float(row["value"][1]) for row in rows}
            assert outcomes == recorded_outcomes(plane)
            [up] = results("up{job='wirefault'}")
            assert up["value"][1] == "1"
            [requests_total] = results("sum(wirefault_requests_total)")
            events = read_run(plane.folder / "logs", "run-1")
            assert float(requests_total["value"][1]) == sum(event.event == "exchange" for event in events)
        finally:
            process.terminate()
            process.wait()
