"""A lab whose subject is code of this process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.examples.serving import Recorded, served
from wirefault.history.events import RunFinished
from wirefault.lab.toxiproxy import Choice
from wirefault.runner.in_process import BlockSubject, InProcessLab
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.wiring.prompts import Prompt
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring

PROXY = "import os; print(os.environ['HTTP_PROXY'])"
pytestmark = pytest.mark.slow

REFUSED = '{"faults": [{"fault": "unavailable", "links": "tools", "when": {"nth": "1", "of": "try"}}]}'


def _answer(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [b"{}"]


@pytest.fixture(scope="module")
def server() -> Iterator[Recorded]:
    with served(_answer) as recorded:
        yield recorded


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    folder = tmp_path_factory.mktemp("lab")
    files = {"LOGS_DIR": "logs", "STATE_DB": "state/state.db", "EFFECTS_DB": "state/effects.db"}
    environ = {**os.environ, **{name: str(folder / file) for name, file in files.items()}}
    wiring = build_wiring(SpecFile("test", {"intercept": {"tap": "proxy"}}), Path())
    settings = {"seed": 1, "faults": REFUSED, "model": "scripted"}
    return load_configuration(environ, settings, wiring, from_surroundings=False)


@pytest.fixture(scope="module")
def lab(configuration: Configuration) -> Iterator[InProcessLab]:
    with InProcessLab(configuration, Choice("embedded")) as lab:
        yield lab


def test_client_of_this_process_meets_fault_in_its_own_thread(
    lab: InProcessLab, configuration: Configuration, server: Recorded
) -> None:
    here = threading.get_ident()
    with lab.tap.active(), lab.episode(Prompt("one", "one"), configuration.settings) as episode:
        statuses = [httpx.get(f"{server.url}/{path}").status_code for path in ("a", "a")]
        assert threading.get_ident() == here
    assert statuses == [503, 200]
    [row] = episode.run.summary.faults
    assert (row.met, row.injected) == (1, 1)


def test_block_stays_in_its_task(lab: InProcessLab, configuration: Configuration, server: Recorded) -> None:
    async def agent() -> tuple[int, BlockSubject]:
        with lab.tap.active(), lab.episode(Prompt("task", "task"), configuration.settings) as episode:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"{server.url}/b")).status_code, episode

    status, episode = asyncio.run(agent())
    assert status == 503
    assert episode.run.summary.completed


def test_environment_is_restored(lab: InProcessLab) -> None:
    before = dict(os.environ)
    with lab.tap.active():
        assert os.environ["WIREFAULT_FUNCTIONS"]
        assert "HTTP_PROXY" not in os.environ  # a client that outlives the lab would keep it
        printed = subprocess.run([sys.executable, "-c", PROXY], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == lab.tap.variables["HTTP_PROXY"]
    assert dict(os.environ) == before


def test_exception_of_block_is_its_crash(lab: InProcessLab, configuration: Configuration) -> None:
    episodes = []
    with (
        pytest.raises(ZeroDivisionError),
        lab.episode(Prompt("crash", "crash"), configuration.settings) as episode,
    ):
        episodes.append(episode)
        raise ZeroDivisionError("no orders")
    [judged] = episodes[0].run.summary.episodes
    assert judged.outcome == "crash"


def test_interrupted_block_ends_its_run_healed(lab: InProcessLab, configuration: Configuration) -> None:
    episodes = []
    with (
        pytest.raises(KeyboardInterrupt),
        lab.episode(Prompt("stop", "stop"), configuration.settings) as episode,
    ):
        episodes.append(episode)
        raise KeyboardInterrupt
    record = episodes[0].run.record
    assert record.interrupted
    [end] = [event for event in record.events if isinstance(event, RunFinished)]
    assert end.toxics_left == 0
