"""Signals at random moments to random processes; ``python -m bench.signals`` does it a hundred times."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from bench.signals import MODES, SIGNALS, Trial, carry_out, upstreams

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

TRIALS = [
    Trial(number, mode, SIGNALS[number % len(SIGNALS)].name, 1.0 + number * 0.4)
    for number, mode in enumerate(MODES)
    if mode in ("demo, shared Toxiproxy", "exec, proxy", "run --lab")
]


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[str, str]]:
    with upstreams() as urls:
        yield urls


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.mode)
def test_signal_leaves_no_process_or_file(trial: Trial, servers: tuple[str, str]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="s-"))  # short: part of a Unix socket's path
    try:
        done = carry_out(replace(trial), folder / "t", *servers)
        assert done.left == [], (folder / "t" / "output.txt").read_text()
    finally:
        rmtree(folder, ignore_errors=True)
