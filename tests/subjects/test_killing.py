"""Kills of a subject's processes by the runner; the gateway's side is rows of ``state.db``."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, until
from wirefault.core.identity import Identity
from wirefault.history.events import Event, SubjectKilled, SubjectResumed
from wirefault.state.state import State
from wirefault.state.tables import KillOrder, KillState
from wirefault.subjects.killing import LabFailed, SubjectKills, Watch

ORDER = KillOrder("run", "tea", 1, 1, "shop", "crash", "before_reply", "term", 0.5, 0)


class FakeTree:
    """A process tree that ends when it is killed, or never."""

    def __init__(self, exit_code: int | None = None, *, survives: bool = False) -> None:
        self.exit_code = exit_code
        self.grace_s: float | None = None
        self._survives = survives
        self._killed = threading.Event()

    def kill(self, *, grace_s: float | None) -> bool:
        self.grace_s = grace_s
        self._killed.set()
        return not self._survives

    def wait_for_kill(self) -> None:
        assert self._killed.wait(PATIENCE_S)


class Ordered:
    """One attempt whose gateway orders a kill."""

    def __init__(self, folder: Path) -> None:
        self.open: Callable[[], State] = partial(State, folder / "state.db")
        self.events: list[Event] = []
        self.now = 0.0
        with self.open() as state:
            state.kills.add(ORDER)

    @property
    def kills(self) -> SubjectKills:
        identity = Identity("run", "tea", 1)
        return SubjectKills(self.open, identity, self.events.append, self._sleep, lambda: self.now)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds * 100

    def row(self) -> tuple[KillState, str]:
        with self.open() as state:
            row = state.kills.last("run", "tea", 1)
        assert row is not None
        return row.state, row.why

    def watch(self, tree: FakeTree) -> Watch:
        with self.kills.watching(tree) as watch:
            if tree.exit_code is None:
                tree.wait_for_kill()
            else:
                until(lambda: self.row()[0] == "gone", "the order of an ended process")
        return watch


@pytest.fixture
def ordered(tmp_path: Path) -> Ordered:
    return Ordered(tmp_path)


def test_dead_tree_is_reported_and_resumed_once_gateway_has_closed(ordered: Ordered) -> None:
    tree = FakeTree()
    watch = ordered.watch(tree)
    assert (tree.grace_s, ordered.row()) == (0.5, ("dead", ""))
    assert watch.order is not None
    with ordered.open() as state:
        assert state.kills.move(watch.order, "closed")
    ordered.kills.resumed(watch.order, "python agent.py")
    assert [type(event) for event in ordered.events] == [SubjectKilled, SubjectResumed]
    assert ordered.kills.failure() == ""


def test_tree_that_survives_is_failure_of_lab(ordered: Ordered) -> None:
    with pytest.raises(LabFailed, match="kill_subject: processes of the subject are still alive"):
        ordered.watch(FakeTree(survives=True))
    assert ordered.row()[0] == "failed"
    assert [event.dead for event in ordered.events if isinstance(event, SubjectKilled)] == [False]
    assert "still alive" in ordered.kills.failure()


def test_gateway_that_does_not_close_is_failure_of_lab(ordered: Ordered) -> None:
    """The subject is not resumed while a request of its dead processes may still arrive."""
    watch = ordered.watch(FakeTree())
    assert watch.order is not None
    with pytest.raises(LabFailed, match="has not closed the killed subject's connections"):
        ordered.kills.resumed(watch.order, "python agent.py")
    assert not any(isinstance(event, SubjectResumed) for event in ordered.events)


def test_subject_that_ended_before_its_kill_is_not_resumed(ordered: Ordered) -> None:
    watch = ordered.watch(FakeTree(exit_code=0))
    assert (watch.order, ordered.events, ordered.kills.failure()) == (None, [], "")


def test_unreadable_state_is_failure_of_lab(ordered: Ordered) -> None:
    def fails() -> State:
        raise sqlite3.OperationalError("disk I/O error")

    ordered.open = fails
    with pytest.raises(LabFailed, match="kill_subject: disk I/O error"), ordered.kills.watching(FakeTree()):
        pass
    assert ordered.kills.failure() == "kill_subject: disk I/O error"


def test_kill_that_gateway_gave_up_is_failure_at_end(ordered: Ordered) -> None:
    with ordered.open() as state:
        state.kills.move(ORDER, "failed", "no runner has killed the subject in time")
    assert ordered.kills.failure() == "kill_subject: no runner has killed the subject in time"
