"""A stdio server that a fault has killed, and the client that restarts it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.lines.lines_lab import faults, stdio_lab
from tests.mcp.shim_lab import Client

pytestmark = pytest.mark.slow


def test_client_restarts_server_until_ready(tmp_path: Path) -> None:
    with stdio_lab(tmp_path) as lab:
        # no Toxiproxy here: the link's proxy is its gateway
        file = tmp_path / "lab.json"
        replace(lab.topology, proxies=lab.topology.gateways).dump(file)
        lab.begin(faults=faults({"fault": "server_death", "with": {"down": 1}}))
        for number in range(2):
            client = Client("--lab", str(file))
            client.send("pid", number)
            assert client.stdout.readline() == b""
            code, _, output = client.end()
            assert code == 137, output
            assert "a fault has killed the server" in output
        anew = Client("--lab", str(file))
        assert anew.call("pid").isdecimal()
        assert anew.end()[0] == 0
