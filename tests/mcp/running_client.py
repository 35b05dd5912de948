"""SDK clients in programs that are started once, since a start costs more than a client's run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from threading import Timer
from typing import Any

from tests.mcp.step_results import StepResult
from tests.support import PATIENCE_S


class RunningClient:
    """A program that runs its SDK's client once for each line of its input."""

    def __init__(self, start: Sequence[str]) -> None:
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(start, stdin=pipe, stdout=pipe, stderr=none, text=True)

    def begin(self, request: Mapping[str, Any]) -> None:
        """Start one client; ``request`` is one line of the program's input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def results(self) -> list[StepResult]:
        """Return the results of all steps; kill the program if they take too long."""
        assert self.process.stdout is not None
        killer = Timer(2 * PATIENCE_S, self.process.kill)
        killer.start()
        lines: list[StepResult] = []
        while (line := self.process.stdout.readline()) not in ("{}\n", ""):
            lines.append(json.loads(line))
        killer.cancel()
        return lines

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def play(clients: Sequence[RunningClient], requests: Sequence[Mapping[str, Any]]) -> list[list[StepResult]]:
    """Return each client's results; the clients run side by side."""
    for client, one in zip(clients, requests, strict=True):
        client.begin(one)
    return [client.results() for client in clients]
