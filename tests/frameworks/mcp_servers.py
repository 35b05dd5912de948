"""The reference server ``everything`` over HTTP, where the example's mcp.json has it, and its own record."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.findings.environments import InstalledAgent
from tests.support import until
from wirefault.core.sockets import LOOPBACK

PORT = 3001
LINK = f"port_{PORT}"
_RECORDER = Path(__file__).with_name("record_requests.cjs")


@dataclass(frozen=True)
class Everything:
    """``file`` is the server's own record."""

    file: Path

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Method and path of each request that came whole."""
        return [(method, path) for method, path, _ in self._lines()]

    @property
    def calls(self) -> list[str]:
        """The tools that were called."""
        messages = [json.loads(body) for method, _, body in self._lines() if method == "POST"]
        return [each["params"]["name"] for each in messages if each["method"] == "tools/call"]

    def _lines(self) -> list[tuple[str, str, str]]:
        return [tuple(json.loads(line)) for line in self.file.read_text(encoding="utf-8").splitlines()]

    def forget(self) -> None:
        """Clear the record."""
        self.file.write_text("", encoding="utf-8")


@contextmanager
def everything(agent: InstalledAgent, folder: Path) -> Iterator[Everything]:
    """The server, once it listens, of that agent's environment; its record is in the folder."""
    program = shutil.which("mcp-server-everything", path=agent.path)
    assert program
    server = Everything(folder / "everything.jsonl")
    server.forget()
    own = {"PATH": agent.path, "PORT": str(PORT), "RECORDED_REQUESTS": str(server.file)}
    environ = {**os.environ, **own, "NODE_OPTIONS": f"--require {_RECORDER}"}
    quiet = subprocess.DEVNULL
    with subprocess.Popen([program, "streamableHttp"], env=environ, stdout=quiet, stderr=quiet) as process:
        try:
            until(_listens, f"a server on port {PORT}")
            yield server
        finally:
            process.kill()


def _listens() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, PORT)) == 0
