"""A lab with one link to an MCP server over stdio, and ``wirefault mcp`` as a client would start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import in_folder
from tests.shared_imports import shared_imports
from tests.support import PATIENCE_S, ROOT
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring

SERVER = [sys.executable, str(Path(__file__).with_name("plain_server.py"))]
# the variables that MCP SDKs pass to a server
HANDED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


@contextmanager
def shim_lab(folder: Path, choice: Choice | None = None, command: Sequence[str] = ()) -> Iterator[Lab]:
    # away from the usual ports: a proxy that is down for a while could lose its port to another test's lab
    files = {"mcp": {"command": list(command)}, "port": 4321}
    wiring = build_wiring(SpecFile("wiring", {"links": {"files": files}}), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "private"))  # where no lab of another test is found
        configuration = in_folder(load_configuration(os.environ, wiring=wiring), folder)
        with shared_imports(), Lab(configuration, choice or Choice("embedded")) as lab:
            yield lab


class Client:
    """Start ``wirefault mcp`` with an SDK's variables, and talk to it."""

    def __init__(self, *words: str, command: Sequence[str] = SERVER, **environ: str) -> None:
        own = {name: os.environ[name] for name in HANDED if name in os.environ}
        program = str(ROOT / "wirefault" / "lab" / "program.py")
        after = ["--", *command] if command else []
        self.process = subprocess.Popen(
            [sys.executable, "-P", program, "wirefault", "mcp", *words, "--link", "files", *after],
            env={**own, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr

    def call(self, tool: str, id: int = 1, **arguments: Any) -> str:
        """The text of the tool's result."""
        self.send(tool, id, **arguments)
        line = self.stdout.readline()
        assert b'"result"' in line, line or self.end()
        return str(json.loads(line)["result"]["content"][0]["text"])

    def send(self, tool: str, id: int = 1, **arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        self.stdin.write(json.dumps(message).encode() + b"\n")

    def end(self) -> tuple[int, bytes, str]:
        """Close its input; return its exit code and the rest of both outputs."""
        out, error = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, error.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)
