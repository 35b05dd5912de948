"""``charts.py`` of a checkout in an environment that has matplotlib alone, from the logs of real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.package.installing import CALM, TWO, empty_environment, install, run
from tests.support import ROOT

pytestmark = pytest.mark.slow


def test_matplotlib_suffices(index: None, tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    demo = ("demo", *CALM, *TWO, "--charts", "--no-duel", "--toxiproxy", "embedded")
    assert wirefault(tmp_path, environ, *demo).returncode == 0
    logs = tmp_path / ".wirefault" / "logs"
    [drawn] = (logs / "charts").iterdir()
    environment = empty_environment(tmp_path / "environment")
    install(environment, "matplotlib")
    for wanted, folder in (("latest", "alone"), ("all", "all")):
        words = ("--run", wanted, "--logs", str(logs), "--out", str(tmp_path / folder))
        done = run([environment.python, str(ROOT / "charts.py"), *words], tmp_path)
        assert done.returncode == 0 and "not checked" in done.stderr, done.stderr
        same = [(tmp_path / folder / path.name).read_bytes() == path.read_bytes() for path in drawn.iterdir()]
        assert len(same) == 7 and all(same)
