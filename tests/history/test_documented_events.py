"""The page on the history lists exactly the events."""

from __future__ import annotations

import re
from typing import get_args

from tests.support import ROOT
from wirefault.history.events import Event

PAGE = ROOT / "docs" / "architecture.md"


def test_table_has_exactly_all_events():
    section = PAGE.read_text(encoding="utf-8").split("## The history")[1].split("\n## ")[0]
    rows = [row.split("|")[3] for row in section.splitlines() if row.startswith("|")][2:]
    names = {str(kind.__struct_config__.tag) for kind in get_args(Event)}
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == names
