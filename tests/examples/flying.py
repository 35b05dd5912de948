"""``windtunnel fly`` as a person types it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.demos import environ_in
from tests.support import RUN_PATIENCE_S


def fly(folder: Path, wiring: Path, *words: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The summary of a flight; ``folder`` takes its state and its logs."""
    command = [sys.executable, "-m", "windtunnel", "fly", "--wiring", str(wiring), "--out", str(folder)]
    done = subprocess.run(
        [*command, "--no-charts", "--json", "--toxiproxy", "embedded", *words],
        env=environ_in(folder, **(environ or {})),
        capture_output=True,
        text=True,
        timeout=RUN_PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary
