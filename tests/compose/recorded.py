"""The recorded files of a lab, none of which may be lost."""

from __future__ import annotations

import sqlite3
from contextlib import suppress

from tests.compose.rig import Lab


def recorded(lab: Lab) -> dict[str, set[object]]:
    """All that the lab has written down so far."""
    return {
        "agent.log": set((lab.logs / "agent.log").read_text().splitlines()),
        "runs": set(lab.runs()),
        "rows": set(lab.rows("SELECT run_id, seed, settings FROM runs")),
        "side effects": side_effects(lab),
    }


def side_effects(lab: Lab) -> set[object]:
    """None where no tool has written since the files were deleted."""
    with suppress(sqlite3.OperationalError):
        return set(lab.rows("SELECT * FROM effects", file="effects.db"))
    return set()
