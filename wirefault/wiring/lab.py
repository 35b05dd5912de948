"""The links of the lab that ships, for all who need nothing else of its wiring."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from wirefault.wiring.link import Link
from wirefault.wiring.links import Links

LAB_WIRING = Path(__file__).with_name("lab.json")


@lru_cache(maxsize=1)  # a file of this package, which does not change
def lab_links() -> Links:
    """The same as those of ``lab_wiring``, which checks the file too: that takes many times as long."""
    entries = json.loads(LAB_WIRING.read_text(encoding="utf-8"))["links"]
    return Links(Link.of_entry(name, entry) for name, entry in entries.items())
