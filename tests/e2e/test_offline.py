"""``--offline`` seen from outside: a network in which every packet that leaves this machine is counted."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.lab.demos import environ_in
from tests.support import ROOT, RUN_PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network with interfaces of its own"),
]

# That network has no route, so nothing answers, but packets to it are counted.
NETWORK = """
set -e
ip link set lo up
ip route add 10.9.9.0/24 dev lo
nft 'table inet t { chain o { type filter hook output priority 0; ip daddr 10.9.9.77 counter; }; }'
"""
CALL = ("sh", "-c", "curl -s --max-time 1 http://10.9.9.77/ https://10.9.9.77/; true")
# by tap and with or without --offline: packets sent so far, and the output
CALLS = f"""
import json, os, subprocess, sys
from pathlib import Path
from tests.commands import wirefault

told, table = [], ["nft", "list", "table", "inet", "t"]
for tap in ("namespace", "proxy"):
    for option in ((), ("--offline",)):
        folder = Path(sys.argv[1], tap + "".join(option))
        folder.mkdir()
        words = ("exec", "--tap", tap, "--out", str(folder), *option, "--", *{CALL!r})
        done = wirefault(folder, dict(os.environ), *words)
        said = done.stdout + done.stderr
        counted = subprocess.run(table, capture_output=True, text=True, check=True).stdout
        told.append([tap, bool(option), counted, said])
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def packets(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], int]:
    """How many packets to there left the machine while ``exec`` ran a command that calls it.

    By tap, and whether it was offline.
    """
    calls = shlex.join([sys.executable, "-c", CALLS, str(tmp_path_factory.mktemp("calls"))])
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", f"{NETWORK}\nexec {calls}"],
        cwd=ROOT,
        env=environ_in(ROOT, PATH=os.environ["PATH"]),
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    requests, before = {}, 0
    for tap, offline, table, message in json.loads(done.stdout):
        counted = re.search(r"counter packets (\d+)", table)
        assert counted and ("10.9.9.77:80" in message or "10_9_9_77" in message), message
        requests[tap, offline] = int(counted[1]) - before
        before = int(counted[1])
    return requests


@pytest.mark.parametrize("tap", ["namespace", "proxy"])
def test_offline_dials_no_outside_host(packets: dict[tuple[str, bool], int], tap: str) -> None:
    assert packets[tap, False] > 0
    assert packets[tap, True] == 0
