"""``--offline`` seen from outside: a network in which every packet that leaves this machine is counted."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.demos import environ_in
from tests.support import RUN_PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("namespaces"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network with interfaces of its own"),
]

# That network leads nowhere, so that nothing answers; what is sent there is counted all the same.
NETWORK = """
set -e
ip link set lo up
ip route add 10.9.9.0/24 dev lo
nft 'table inet t { chain o { type filter hook output priority 0; ip daddr 10.9.9.77 counter; }; }'
"""
CALL = "curl -s --max-time 2 http://10.9.9.77/ https://10.9.9.77/; true"


def packets(folder: Path, tap: str, *options: str) -> int:
    """How many packets to there left the machine while ``exec`` ran a command that calls it."""
    flight = [sys.executable, "-m", "windtunnel", "exec", "--tap", tap, "--out", str(folder), *options]
    flown = shlex.join([*flight, "--", "sh", "-c", CALL])
    script = f"{NETWORK}\n{flown} >&2 || true\nnft list table inet t"
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script],
        env=environ_in(folder, PATH=os.environ["PATH"]),
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
        check=True,
    )
    counted = re.search(r"counter packets (\d+)", done.stdout)
    assert counted and ("10.9.9.77:80" in done.stderr or "10_9_9_77" in done.stderr), done.stderr
    return int(counted[1])


@pytest.mark.parametrize("tap", ["namespace", "proxy"])
def test_offline_nothing_outside_is_dialled(tmp_path: Path, tap: str) -> None:
    assert packets(tmp_path / "calls", tap) > 0
    assert packets(tmp_path / "none", tap, "--offline") == 0
