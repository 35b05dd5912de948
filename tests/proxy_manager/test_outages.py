"""Toxics that end before their attempt does, as planned."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.proxy_manager.rig import DOWN, LATENCY, TIMEOUT, Plane, looping
from tests.proxy_manager.test_loop import beating
from tests.proxy_manager.test_proxies import add
from tests.support import until

SHORT, LONGER = replace(TIMEOUT, seconds=0.5), replace(DOWN, seconds=2.0)
PLAN = (LATENCY, SHORT, LONGER)


@pytest.fixture
def armed(ready: Plane) -> int:
    return ready.arm(PLAN)


def pass_seconds(plane: Plane, seconds: float) -> None:
    plane.clock.now += seconds
    plane.state.beat_run("run-1", plane.clock())
    plane.reconciler.step()
    plane.reconciler.watch()


def test_each_ends_when_its_own_time_is_over(ready: Plane, armed: int) -> None:
    pass_seconds(ready, 0.49)
    assert ready.toxics() == [("movie", "timeout"), ("search", "latency"), ("weather", "down")]
    pass_seconds(ready, 0.01)
    assert ready.toxics() == [("search", "latency"), ("weather", "down")]
    pass_seconds(ready, 1.5)
    assert ready.toxics() == [("search", "latency")]
    pass_seconds(ready, 60)
    assert ready.toxics() == [("search", "latency")]


def test_the_step_is_due_at_that_moment_and_not_again(ready: Plane, armed: int) -> None:
    assert not ready.reconciler.due
    ready.clock.now += 0.5
    assert ready.reconciler.due
    ready.reconciler.step()
    assert not ready.reconciler.due


def test_it_is_recorded_and_is_no_disturbance(ready: Plane, armed: int) -> None:
    for _ in range(2):
        pass_seconds(ready, 1.0)
    row = ready.finish(armed)
    assert (row.state, row.disturbed) == ("healed", ())
    events = ready.history()
    assert [event.action for event in events] == ["armed", "ended", "ended", "healed"]
    assert [event.ended for event in events] == [[], [SHORT], [LONGER], []]
    assert [len(event.toxics) for event in events] == [3, 2, 1, 0]
    assert [(event.begun, event.t) for event in events[1:3]] == [(1001.0, 1001.0), (1002.0, 1002.0)]


def test_the_status_no_longer_asks_for_it(ready: Plane, armed: int) -> None:
    pass_seconds(ready, 0.5)
    status = ready.reconciler.status
    for rows in (status.desired, status.observed):
        assert rows and [row["link"] for row in rows] == ["search", "weather"]


def test_it_counts_as_gone(ready: Plane, armed: int) -> None:
    pass_seconds(ready, 0.5)
    assert ready.state.toxics.left("lab", 0) == 2
    assert ready.state.toxics.desired(armed) == [LATENCY, LONGER]


def test_an_attempt_that_is_over_before_has_none_to_end(ready: Plane, armed: int) -> None:
    ready.finish(armed)
    ready.clock.now += 60
    assert not ready.reconciler.due
    again = ready.arm([LATENCY], attempt=2)
    pass_seconds(ready, 1.0)
    assert ready.toxics() == [("search", "latency")] and ready.attempt(again).disturbed == ()


def test_a_foreign_change_is_still_a_disturbance_when_it_is_undone_at_that_moment(
    ready: Plane, armed: int
) -> None:
    add(ready, "message")
    pass_seconds(ready, 0.5)
    assert ready.toxics() == [("search", "latency"), ("weather", "down")]
    assert len(ready.finish(armed).disturbed) == 1


def test_one_that_someone_puts_back_after_its_end_is_repaired(ready: Plane, armed: int) -> None:
    pass_seconds(ready, 0.5)
    name = ready.name("movie")
    ready.client.add_toxic(name, SHORT.name, SHORT.kind, SHORT.stream, SHORT.attributes)
    ready.reconciler.watch()
    assert ready.toxics() == [("search", "latency"), ("weather", "down")]
    [reason] = ready.finish(armed).disturbed
    assert "movie: timeout downstream is there unasked" in reason


def test_the_successor_of_a_manager_that_was_killed_in_an_outage_heals_it(ready: Plane, armed: int) -> None:
    ready.clock.now += 0.2
    ready.reconciler.close()
    ready.reconciler = ready.make(ready.state)
    ready.reconciler.take_over("the proxy manager started anew")
    assert ready.toxics() == []
    pass_seconds(ready, 1.0)
    assert ready.toxics() == []
    assert ready.finish(armed).disturbed == ("the proxy manager started anew",)
    assert [event.action for event in ready.history()] == ["armed", "disturbed", "healed"]


def test_the_loop_ends_it_while_nobody_writes(plane: Plane) -> None:
    plane.clock = time.time  # type: ignore[assignment]
    plane.reconciler.close()
    plane.run()
    with beating(plane), looping(plane) as loop:
        until(lambda: loop.error is None)
        attempt_id = plane.request([replace(SHORT, seconds=0.05)])
        until(lambda: plane.attempt(attempt_id).state == "armed")
        until(lambda: plane.toxics() == [])
        assert plane.attempt(attempt_id).state == "armed"
        plane.state.move_attempt(attempt_id, "armed", "finished", time.time())
        until(lambda: plane.attempt(attempt_id).state == "healed")
    assert plane.attempt(attempt_id).disturbed == ()
    assert [event.action for event in plane.history()] == ["armed", "ended", "healed"]
