"""``wirefault mcp --config``: the printed configuration works with a lab of the written wiring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.lab import in_folder
from tests.mcp.shim_lab import HANDED, SERVER
from tests.shared_imports import shared_imports
from tests.support import PATIENCE_S, ROOT
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.wiring import load_wiring

pytestmark = pytest.mark.slow

HTTP = "http://127.0.0.1:9/mcp"


def wrap(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wirefault", "mcp", "--config", str(folder / "mcp.json"), *arguments]
    environ = os.environ | {"XDG_STATE_HOME": str(folder / "private")}
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_wrapped_servers_are_reached_through_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = {
        "My files": {"command": SERVER[0], "args": SERVER[1:], "env": {"MARK": "kept"}},
        "web": {"url": HTTP},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    first = wrap(tmp_path, "--wiring", str(tmp_path / "mcp.yaml"))
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["mcpServers"]["web"] == {"url": HTTP}
    assert (
        "left as it is: web: its address in a lab is unknown until a lab with its link is up" in first.stderr
    )
    assert f"next: wirefault lab up --wiring {tmp_path / 'mcp.yaml'}, then" in first.stderr

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    configuration = load_configuration(os.environ, wiring=load_wiring(tmp_path / "mcp.yaml"))
    with shared_imports(), Lab(in_folder(configuration, tmp_path), Choice("embedded")) as lab:
        second = wrap(tmp_path)
        assert second.returncode == 0, second.stderr
        result = json.loads(second.stdout)["mcpServers"]
        assert result["web"]["url"] == f"{lab.topology.proxies['web'].url}/mcp"
        assert "behind the lab: My files, web" in second.stderr
        files = result["My files"]
        environ = {name: os.environ[name] for name in HANDED if name in os.environ} | files["env"]
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "env", "arguments": {"name": "MARK"}},
        }
        done = subprocess.run(
            [files["command"], *files["args"]],
            env=environ | {"XDG_STATE_HOME": str(tmp_path / "private")},
            input=json.dumps(call) + "\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert '"kept"' in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--link", "a"], "--config wraps every server of FILE: leave out --link and COMMAND"),
        (["--", "npx"], "--config wraps every server of FILE: leave out --link and COMMAND"),
        (["--wiring", "{folder}/mcp.json"], "mcp.json: this file exists; name a new one"),
        (["--wiring", "{folder}/no/mcp.yaml"], "cannot be written: No such file or directory"),
    ],
)
def test_invalid_wrap_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    done = wrap(tmp_path, *(word.format(folder=tmp_path) for word in arguments))
    assert (done.returncode, done.stdout) == (64, "")
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_missing_file_is_one_line(tmp_path: Path) -> None:
    done = wrap(tmp_path)
    assert done.returncode == 64
    assert done.stderr == f"Error: {tmp_path / 'mcp.json'}: cannot be read: No such file or directory\n"
