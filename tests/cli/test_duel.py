"""The duel at the end of ``wirefault demo``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import RUN_PATIENCE_S
from wirefault.cli.duel import id_before

CALM = ("--toxic-prob", "0", "--error-prob", "0", "--no-charts", "--seed", "1")


def wirefault(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "wirefault", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_careless_agent_writes_twice_and_claims_falsely(tmp_path: Path) -> None:
    lines = wirefault(tmp_path, "demo", *CALM, "--duel").splitlines()
    assert lines[-3].split("agent")[1].strip() == "wrote twice in 0 of 4, claimed falsely in 0 of 4"
    assert "wrote twice in 2 of 4, claimed falsely in 2 of 4" in lines[-2]
    twice, false = re.findall(r"wirefault (show [^;#]*[^;# ])", lines[-1])
    assert wirefault(tmp_path, *twice.split()).startswith("duplicate")
    assert wirefault(tmp_path, *false.split()).startswith("false_success")
    demo = wirefault(tmp_path, "report", "latest", "--md", "-")
    assert "29 prompts" in demo  # the duel does not become the latest run


def test_id_sorts_directly_before_a_run() -> None:
    assert id_before("20260301-000000-ab12cd") == "20260228-235959-ab12cd"
