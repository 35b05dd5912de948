"""Launchers on a tap's ``PATH``: programs start as without them, MCP servers by the shim."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE_S
from wirefault.subjects.stdio_shim.pipe_server import digest_of, server_name
from wirefault.subjects.taps.pipes import write_launchers

SHOW = """
import json, os, sys
print(json.dumps([sys.argv[1:], sys.executable, dict(os.environ), os.getcwd(), sys.stdin.read()]))
sys.exit(7)
"""
HELLO = '{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}\n'
_META = '{"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}'
STATELESS = f'{{"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": {_META}}}\n'
SHIM = "import sys, json; print(json.dumps(['shim', *sys.argv[1:], sys.stdin.read()]))"
INPUTS: list[dict[str, Any]] = [
    {"stdin": subprocess.DEVNULL},
    {"input": "some text"},
    {"input": '{"id": 1}\n'},
]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A small environment whose ``python3`` is a launcher; the shim only shows its words."""
    plain = {"PATH": str(Path(sys.executable).parent), "ODD.NAME": "kept", "LC_ALL": "C"}
    launchers = write_launchers(tmp_path, "lab-1", plain)
    assert launchers is not None and (launchers / "python3").exists()
    settings = tmp_path / "pipes.json"
    shim = [
        sys.executable,
        "-c",
        "import sys, json; print(json.dumps(['shim', *sys.argv[1:], sys.stdin.read()]))",
    ]
    settings.write_text(json.dumps({"lab_id": "lab-1", "shim": shim}))
    return {**plain, "PATH": f"{launchers}{os.pathsep}{plain['PATH']}"}


def run(environ: dict[str, str], stdin: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    words = ["python3", "-c", SHOW, "a b", ""]
    return subprocess.run(
        words,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
        **stdin,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("stdin", INPUTS, ids=["no input", "text", "JSON"])
def test_program_starts_as_without_launcher(environ: dict[str, str], stdin: Any, tmp_path: Path) -> None:
    ended = run(environ, stdin, cwd=tmp_path)
    assert ended.returncode == 7
    arguments, executable, variables, folder, read = json.loads(ended.stdout)
    assert (arguments, read, folder) == (["a b", ""], stdin.get("input", ""), str(tmp_path))
    assert executable == str(Path(sys.executable).with_name("python3"))
    assert {name: value for name, value in variables.items() if name != "LC_CTYPE"} == environ


@pytest.mark.slow
@pytest.mark.parametrize("line", [HELLO, STATELESS], ids=["session", "stateless"])
def test_mcp_server_starts_through_shim(environ: dict[str, str], line: str) -> None:
    words = json.loads(run(environ, {"input": line}).stdout)
    assert words[0] == "shim" and words[1].endswith("/python3") and words[-1] == line


@pytest.mark.slow
def test_client_over_sockets_is_recognised(environ: dict[str, str]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(HELLO.encode())
        ours.shutdown(socket.SHUT_WR)
        assert json.loads(run(environ, {"stdin": theirs}).stdout)[0] == "shim"


@pytest.mark.slow
def test_unknown_program_is_not_found(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "gone").hardlink_to(tmp_path / "bin" / "python3")
    ended = subprocess.run(["gone"], env=environ, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (127, "gone: command not found\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/usr/bin/npx", "-y", "@modelcontextprotocol/server-filesystem", "."], "server_filesystem"),
        (["uvx", "mcp-server-git@latest", "--repository", "x"], "mcp_server_git"),
        (["uv", "run", "shop/server.py"], "server"),
        (["python3", "-u", "server.py"], "server"),
        (["/usr/local/bin/mcp-server-memory"], "mcp_server_memory"),
        (["docker", "run", "-i", "--rm", "mcp/fetch"], "fetch"),
        (["node", "1.js"], "server_1"),
    ],
)
def test_link_is_named_after_server(words: list[str], name: str) -> None:
    assert server_name(words) == name


def test_digest_ignores_temporary_files() -> None:
    one, two = (digest_of(["/usr/bin/python3", "server.py", f"/tmp/{name}/db"]) for name in ("a1", "b2"))
    assert one == two != digest_of(["/usr/bin/python3", "other.py"])
