"""The toxics of attempts: what a long flight has behind it costs the next attempt nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.state.test_state import LATENCY, a_run, an_attempt
from wirefault.core.sqlite import connect
from wirefault.state.planned_toxics import PlannedToxics
from wirefault.state.state import State


def steps(database: sqlite3.Connection, work: Callable[[], object]) -> int:
    """How many steps of its virtual machine SQLite takes for it."""
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    database.set_progress_handler(count, 1)
    work()
    database.set_progress_handler(None, 1)
    return counted


def test_attempts_that_are_over_are_not_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    taken = []
    with State(path) as state, closing(connect(path)) as database:
        run, toxics = a_run(state), PlannedToxics(database)
        for episode in range(100):
            attempt = an_attempt(state, run, f"{episode}-1", plan=[LATENCY])
            toxics.mark_armed(attempt, 12.0)
            assert toxics.left("lab", 0) == 1 and toxics.left("lab", 1) == toxics.left("other", 0) == 0
            left = steps(database, lambda: toxics.left("lab", 0))
            taken.append(left + steps(database, lambda: toxics.mark_removed("lab", 0, 13.0)))
            assert toxics.left("lab", 0) == 0
    assert taken[-1] == taken[1]
