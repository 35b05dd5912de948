"""Numbered configurations in state.db, and the token next to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.state.test_state import LATENCY, a_run, an_attempt
from wirefault.core.sqlite import connect
from wirefault.state.state import State
from wirefault.state.tables import PlannedToxics


@pytest.fixture
def state(tmp_path):
    with State(tmp_path / "state.db") as state:
        yield state


def test_configurations_are_numbered_per_lane_and_lab(state):
    add = state.configurations.add
    assert [add("a", 0, "x", "", 1.0), add("a", 0, "y", "", 2.0), add("a", 1, "z", "", 2.0)] == [1, 2, 1]
    assert state.configurations.latest("a", 0).faults == "y"
    assert state.configurations.latest("b", 0) is None


def test_runs_since_time_are_listed(state):
    state.configurations.add("a", 0, "x", "", 1.0)
    assert state.configurations.latest("a", 0, since=1.0).number == 1
    assert state.configurations.latest("a", 0, since=1.5) is None


def test_refused_configuration_keeps_previous(state):
    one, two = (state.configurations.add("a", 0, text, "", 1.0) for text in "xy")
    state.configurations.refuse(state.configurations.latest("a", 0), "no")
    assert state.configurations.latest("a", 0).number == one
    assert state.configurations.get("a", 0, two).refused == "no"
    assert state.configurations.add("a", 0, "z", "", 1.0) == 3


def test_configuration_numbers_are_unique(tmp_path, state):
    def add(_: int) -> int:
        with State(tmp_path / "state.db") as mine:
            return mine.configurations.add("a", 0, "", "", 1.0)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(add, range(24))) == list(range(1, 25))


def steps(database: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Number of SQLite virtual machine steps of a statement."""
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    database.set_progress_handler(count, 1)
    work()
    database.set_progress_handler(None, 1)
    return counted


def test_finished_attempts_are_not_checked_again(tmp_path: Path) -> None:
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
