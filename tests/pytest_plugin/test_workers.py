"""Workers of pytest-xdist, and sessions that are interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.lab.demos import processes
from tests.pytest_plugin.suites import COMMAND, NAMED, run_suite, write_suite
from tests.support import PATIENCE_S, until

pytestmark = pytest.mark.slow

PARALLEL = """
import httpx
import pytest

@pytest.mark.wirefault("unavailable")
@pytest.mark.parametrize("number", range(8))
def test_item(shop, wirefault, record_property, number):
    record_property("proxy", wirefault.proxy)
    assert httpx.get(shop + "/items").status_code == 503

@pytest.mark.wirefault("lose_reply", allow="no_time_limit")
def test_order(shop):
    for _ in range(2):
        try:
            httpx.post(shop + "/orders", json={"item": "mug"})
        except httpx.TransportError:
            pass
"""


def test_each_of_four_workers_has_its_own_lab(tmp_path: Path) -> None:
    write_suite(tmp_path, PARALLEL, conftest=NAMED)
    session = run_suite(tmp_path, "-n4", "--dist=load")
    items = {name: case for name, case in session.cases.items() if name.startswith("test_item")}
    assert {case.result for case in items.values()} == {"passed"}, session.output
    assert len({case.properties["proxy"] for case in items.values()}) == 4
    seeds = {case.properties["wirefault_seed"] for case in session.cases.values()}
    assert len(seeds) == 1
    assert f"wirefault, seed {seeds.pop()}" in session.output
    assert "write_repeated (harmful): POST /orders was sent again" in session.output
    assert "9 episodes: 1 failed, 8 passed" in session.output
    assert not processes(tmp_path)


INTERRUPTED = """
import pathlib
import time

import pytest

@pytest.mark.wirefault("unavailable")
def test_waits():
    pathlib.Path("waits").touch()
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_end_of_pytest_ends_the_lab(tmp_path: Path, number: signal.Signals) -> None:
    write_suite(tmp_path, INTERRUPTED)
    with subprocess.Popen(
        COMMAND, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pytest_process:
        try:
            until((tmp_path / "waits").exists, "the test begins", patience=PATIENCE_S * 2)
            assert {"gateway", "manager"} <= processes(tmp_path).keys()
            os.kill(pytest_process.pid, number)
            output, _ = pytest_process.communicate(timeout=PATIENCE_S)
        finally:
            pytest_process.kill()
    if number == signal.SIGINT:
        assert pytest_process.returncode == pytest.ExitCode.INTERRUPTED, output
        assert "KeyboardInterrupt" in output
        assert not processes(tmp_path)
    until(lambda: not processes(tmp_path), "the lab ends")
