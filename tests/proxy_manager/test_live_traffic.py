"""Traffic outside any run: faulted by the lab's faults, and recorded as one run of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from proxy_manager.live_traffic import live_counts
from tests.proxy_manager.rig import Plane, a_plane
from tests.support import latest_run, until
from wirefault.history.events import Exchange
from wirefault.history.reader import read_history
from wirefault.judging.judge import judge_run

FAULTS = '{"faults": [{"fault": "unavailable", "id": "down", "links": ["weather"]}]}'
TOXICS = '{"toxics": [{"toxic": "latency", "id": "slow", "links": ["search"], "with": {"latency": 1}}]}'


@pytest.fixture
def plane(tmp_path: Path, toxiproxy: str) -> Iterator[Plane]:
    with a_plane(tmp_path, toxiproxy) as plane:
        plane.proxies.ensure()
        plane.reconciler.step()
        yield plane


def configure(plane: Plane, faults: str) -> None:
    plane.state.configurations.add("lab", 0, faults, "test", plane.clock())
    plane.reconciler.step()


def status_of(plane: Plane, link: str) -> int:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(plane.topology.gateways[link].url + "/", timeout=30).status_code


def statuses(plane: Plane) -> list[int | None]:
    """The gateway's records of live traffic; its last lines may still be on their way."""
    events = read_history(plane.folder / "logs", "live-lab").events()
    return [event.status for event in events if isinstance(event, Exchange)]


def test_nothing_is_recorded_before_faults_are_set(plane: Plane) -> None:
    status_of(plane, "weather")
    assert plane.reconciler.status.live is None and not (plane.folder / "logs" / "runs").exists()


def test_faults_apply_to_any_caller(plane: Plane) -> None:
    configure(plane, FAULTS)
    assert status_of(plane, "weather") == 503
    until(lambda: statuses(plane) == [503])
    summary = live_counts(plane.folder / "logs", "live-lab", 0)
    assert plane.reconciler.status.live == "live-lab"
    assert summary["requests"] == {"weather": 1}
    assert summary["faults"] == [{"fault": "down", "link": "weather", "met": 1, "injected": 1}]
    configure(plane, "")
    assert status_of(plane, "weather") != 503


def test_toxics_of_set_are_armed(plane: Plane) -> None:
    configure(plane, TOXICS)
    assert plane.toxics() == [("search", "latency")]
    configure(plane, FAULTS)
    assert plane.toxics() == []


@pytest.mark.parametrize("part", [{"during": {"start": "2s"}}, {"duration": 2}, {"when": {"turn": 2}}])
def test_toxics_for_part_of_attempt_wait_for_run(plane: Plane, part: dict[str, object]) -> None:
    configure(plane, json.dumps({"toxics": [{"toxic": "latency", "links": ["search"], **part}]}))
    assert plane.toxics() == []


def test_run_acquires_and_releases_lane(plane: Plane) -> None:
    configure(plane, FAULTS)
    status_of(plane, "weather")
    attempt = plane.arm([])
    assert plane.reconciler.status.live is None
    status_of(plane, "weather")
    plane.finish(attempt)
    plane.state.move_run("run-1", "leased", "finished")
    plane.reconciler.step()
    assert status_of(plane, "weather") == 503
    until(lambda: statuses(plane) == [503, 503])
    assert latest_run(plane.folder / "logs") == "run-1"


def test_live_run_is_not_judged(plane: Plane) -> None:
    configure(plane, FAULTS)
    status_of(plane, "weather")
    until(lambda: statuses(plane) == [503])
    [episode] = judge_run(read_history(plane.folder / "logs", "live-lab").events()).episodes
    assert (episode.outcome, [fault.kind for fault in episode.faults]) == ("unjudged", ["unavailable"])
