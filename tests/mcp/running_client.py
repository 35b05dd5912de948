"""Programs that play clients of an SDK, each started once: to start one costs more than what it plays."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from threading import Timer
from typing import Any

from tests.mcp.told import Told
from tests.support import PATIENCE_S


class RunningClient:
    """A running program that plays a client of its SDK as often as it is asked to."""

    def __init__(self, start: Sequence[str]) -> None:
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(start, stdin=pipe, stdout=pipe, stderr=none, text=True)

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Has it play one client; ``asked``: what its program takes as a line of its input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def told(self) -> list[Told]:
        """What it tells until it has taken all its steps, or is killed because it does not."""
        assert self.process.stdout is not None
        killer = Timer(2 * PATIENCE_S, self.process.kill)
        killer.start()
        lines: list[Told] = []
        while (line := self.process.stdout.readline()) not in ("{}\n", ""):
            lines.append(json.loads(line))
        killer.cancel()
        return lines

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def play(clients: Sequence[RunningClient], asked: Sequence[Mapping[str, Any]]) -> list[list[Told]]:
    """What each client tells, all of them side by side."""
    for client, one in zip(clients, asked, strict=True):
        client.begin(one)
    return [client.told() for client in clients]
