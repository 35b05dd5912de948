"""The last line of a run names the command that explains its worst episode, after the charts and the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.lab import environ_in
from tests.support import RUN_PATIENCE_S


def test_reason_comes_last_and_names_folder(tmp_path: Path) -> None:
    out = tmp_path / "elsewhere"
    words = ("--only=1", "--toxic-prob=0", "--error-prob=1", "--tool-limit=1", f"--out={out}")
    done = subprocess.run(
        [sys.executable, "-m", "wirefault", "demo", "--charts", "--toxiproxy=embedded", *words],
        cwd=tmp_path,
        env=environ_in(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_PATIENCE_S,
        check=False,
    )
    *_, charts, page, why = done.stdout.splitlines()
    assert charts.startswith("charts: "), done.stdout
    assert page.startswith(f"page: {out}/logs/pages/") and Path(page.removeprefix("page: ")).is_file()
    assert why.startswith("why: wirefault show ") and f"--out={out}" in why
