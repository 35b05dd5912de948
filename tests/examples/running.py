"""``wirefault run``, called in the test's process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.commands import wirefault
from tests.lab.demos import environ_in
from tests.support import ROOT


def run_wiring(
    folder: Path, wiring: Path, *words: str, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run the wiring and return the summary; ``folder`` gets its state and logs."""
    words = (str(wiring), "--out", str(folder), *words)
    arguments = ("run", "--no-charts", "--json", "--toxiproxy", "embedded", "--fail-on", "none", *words)
    done = wirefault(ROOT, environ_in(folder, **(environ or {})), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary
