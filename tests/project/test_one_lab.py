"""Files of tests/e2e that fly in the shared lab are flown by one worker."""

from __future__ import annotations

import re

from tests.conftest import IN_ONE_LAB
from tests.support import ROOT


def test_all_that_fly_in_the_shared_lab_are_named() -> None:
    files = (ROOT / "tests" / "e2e").glob("test_*.py")
    flying = {path for path in files if re.search(r"\bhangar: Hangar", path.read_text(encoding="utf-8"))}
    assert {f"tests/e2e/{path.name}" for path in flying} == IN_ONE_LAB.keys()
