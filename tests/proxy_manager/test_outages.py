"""Toxics that start, rise and end inside their attempt, as planned."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.conformance.conftest import real_or_skip
from tests.conformance.servers import embedded_server, real_server
from tests.proxy_manager.rig import DOWN, LATENCY, TIMEOUT, Plane, looping
from tests.proxy_manager.test_loop import beating
from tests.proxy_manager.test_proxies import add
from tests.support import replace, until
from wirefault.core.spans import Span
from wirefault.state.tables import HeldCall
from wirefault.toxiproxy.planned import PlannedToxic

SHORT, LONGER = replace(TIMEOUT, seconds=0.5), replace(DOWN, seconds=2.0)
PLAN = (LATENCY, SHORT, LONGER)


@pytest.fixture(scope="module", params=["embedded", "real"])
def toxiproxy(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each of the servers: a dose is changed in place, and read back."""
    with embedded_server() if request.param == "embedded" else real_server(real_or_skip()) as url:
        yield url


@pytest.fixture
def armed(ready: Plane) -> int:
    return ready.arm(PLAN)


def pass_seconds(plane: Plane, seconds: float) -> None:
    plane.clock.now += seconds
    plane.state.beat_run("run-1", plane.clock())
    plane.reconciler.step()
    plane.reconciler.watch()


def test_each_outage_ends_at_its_time(ready: Plane, armed: int) -> None:
    pass_seconds(ready, 0.49)
    assert ready.toxics() == [("movie", "timeout"), ("search", "latency"), ("weather", "down")]
    pass_seconds(ready, 0.01)
    assert ready.toxics() == [("search", "latency"), ("weather", "down")]
    pass_seconds(ready, 1.5)
    assert ready.toxics() == [("search", "latency")]
    pass_seconds(ready, 60)
    assert ready.toxics() == [("search", "latency")]


def test_step_is_due_once(ready: Plane, armed: int) -> None:
    assert not ready.reconciler.due
    ready.clock.now += 0.5
    assert ready.reconciler.due
    ready.reconciler.step()
    assert not ready.reconciler.due


def test_planned_end_is_recorded_without_disturbance(ready: Plane, armed: int) -> None:
    for _ in range(2):
        pass_seconds(ready, 1.0)
    row = ready.finish(armed)
    assert (row.state, row.disturbed) == ("healed", ())
    events = ready.history()
    assert [event.action for event in events] == ["armed", "ended", "ended", "healed"]
    assert [event.ended for event in events] == [[], [SHORT], [LONGER], []]
    assert [len(event.toxics) for event in events] == [3, 2, 1, 0]
    assert [(event.begun, event.t) for event in events[1:3]] == [(1001.0, 1001.0), (1002.0, 1002.0)]


def test_status_stops_asking_for_ended_toxic(ready: Plane, armed: int) -> None:
    pass_seconds(ready, 0.5)
    status = ready.reconciler.status
    for rows in (status.desired, status.observed):
        assert rows and [row["link"] for row in rows] == ["search", "weather"]


def test_attempt_ending_before_toxic_has_no_toxic_end_event(ready: Plane, armed: int) -> None:
    ready.finish(armed)
    ready.clock.now += 60
    assert not ready.reconciler.due
    again = ready.arm([LATENCY], attempt=2)
    pass_seconds(ready, 1.0)
    assert ready.toxics() == [("search", "latency")] and ready.attempt(again).disturbed == ()


def test_foreign_change_undone_at_outage_end_still_disturbs(ready: Plane, armed: int) -> None:
    add(ready, "message")
    pass_seconds(ready, 0.5)
    assert ready.toxics() == [("search", "latency"), ("weather", "down")]
    assert len(ready.finish(armed).disturbed) == 1


def test_toxic_restored_by_hand_is_removed(ready: Plane, armed: int) -> None:
    pass_seconds(ready, 0.5)
    name = ready.name("movie")
    ready.client.add_toxic(name, SHORT.name, SHORT.kind, SHORT.stream, SHORT.attributes)
    ready.reconciler.watch()
    assert ready.toxics() == [("search", "latency"), ("weather", "down")]
    [reason] = ready.finish(armed).disturbed
    assert "movie: timeout downstream is not planned" in reason


def test_successor_heals_outage_of_killed_manager(ready: Plane, armed: int) -> None:
    ready.clock.now += 0.2
    ready.reconciler.close()
    ready.reconciler = ready.make(ready.state)
    ready.reconciler.take_over("the proxy manager started anew")
    assert ready.toxics() == []
    pass_seconds(ready, 1.0)
    assert ready.toxics() == []
    assert ready.finish(armed).disturbed == ("the proxy manager started anew",)
    assert [event.action for event in ready.history()] == ["armed", "disturbed", "healed"]


def test_loop_ends_outage_without_state_change(plane: Plane) -> None:
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


@pytest.mark.parametrize(
    ("plan", "changing"), [([], False), ([LATENCY], False), ([LATENCY, SHORT], True)], ids=str
)
def test_outages_inside_attempt_are_known(ready: Plane, plan: list[PlannedToxic], changing: bool) -> None:
    ready.arm(plan)
    assert ready.reconciler.changing == changing


RISING = replace(LATENCY, attributes={"latency": 400, "jitter": 0}, during=Span(1.0, 4.0, ramp=3.0))


def latencies(plane: Plane) -> list[int]:
    """As they are read back from Toxiproxy."""
    proxy = plane.client.proxy(plane.name("search"))
    return [toxic.attributes["latency"] for toxic in proxy.toxics]


def test_later_outage_starts_and_ends_on_time(ready: Plane) -> None:
    attempt_id = ready.arm([replace(DOWN, during=Span(1.0, 2.0))])
    seen = []
    for seconds in (0.0, 0.5, 0.5, 1.9, 0.1):
        pass_seconds(ready, seconds)
        seen.append(ready.toxics())
    assert seen == [[], [], [("weather", "down")], [("weather", "down")], []]
    assert ready.finish(attempt_id).disturbed == ()
    events = ready.history()
    assert [event.action for event in events] == ["armed", "started", "ended", "healed"]
    assert [len(event.started) for event in events] == [0, 1, 0, 0]


def test_consecutive_outages_repeat_toxic(ready: Plane) -> None:
    ready.arm([replace(DOWN, during=Span(1.0, 1.0)), replace(DOWN, during=Span(3.0, 1.0))])
    seen = []
    for _ in range(5):
        seen.append(bool(ready.toxics()))
        pass_seconds(ready, 1.0)
    assert seen == [False, True, False, True, False]


def test_dose_increases_in_verified_steps(ready: Plane) -> None:
    attempt_id = ready.arm([RISING])
    seen = []
    for _ in range(6):
        seen += latencies(ready) or [0]
        pass_seconds(ready, 1.0)
    assert seen == [0, 100, 200, 300, 400, 0]
    assert ready.finish(attempt_id).disturbed == ()
    doses = [toxic.attributes["latency"] for event in ready.history() for toxic in event.started]
    assert doses == [100, 200, 300, 400]


def test_outage_after_attempt_end_is_never_armed(ready: Plane) -> None:
    attempt_id = ready.arm([replace(DOWN, during=Span(60.0))])
    pass_seconds(ready, 1.0)
    assert ready.finish(attempt_id).disturbed == ()
    assert [event.action for event in ready.history()] == ["armed", "healed"]


def test_foreign_change_between_two_outages_is_disturbance(ready: Plane) -> None:
    attempt_id = ready.arm([replace(DOWN, during=Span(1.0, 1.0))])
    add(ready, "weather")
    pass_seconds(ready, 1.0)
    assert ready.toxics() == [("weather", "down")]
    assert len(ready.finish(attempt_id).disturbed) == 1


def test_successor_heals_and_starts_no_later_outage(ready: Plane) -> None:
    attempt_id = ready.arm([RISING])
    pass_seconds(ready, 2.0)
    assert latencies(ready) == [200]
    ready.reconciler.close()
    ready.reconciler = ready.make(ready.state)
    ready.reconciler.take_over("the proxy manager started anew")
    for _ in range(4):
        assert ready.toxics() == []
        pass_seconds(ready, 1.0)
    assert ready.finish(attempt_id).disturbed == ("the proxy manager started anew",)


def come(plane: Plane, call: int, link: str) -> None:
    """The gateway holds that call."""
    plane.state.held_calls.add(HeldCall("run-1", "001", 1, link, call))
    plane.reconciler.step()


def test_outage_in_calls_covers_calls_of_its_link(ready: Plane) -> None:
    attempt_id = ready.arm([replace(LATENCY, during=Span(3.0, 2.0, unit="calls"))])
    seen = []
    for call in (3, 5):
        seen.append(ready.toxics())
        come(ready, call, "search")
        assert ready.state.held_calls.of("run-1", "001", 1) == []
    assert [*seen, ready.toxics()] == [[], [("search", "latency")], []]
    assert ready.finish(attempt_id).disturbed == ()


def test_call_based_dose_increases_with_each_call(ready: Plane) -> None:
    ready.arm([replace(RISING, during=Span(2.0, ramp=2.0, unit="calls"))])
    seen = [latencies(ready)]
    for call in (2, 3):
        come(ready, call, "search")
        seen.append(latencies(ready))
    assert seen == [[], [200], [400]]


def test_outage_of_turn_covers_that_turn(ready: Plane) -> None:
    attempt_id = ready.arm([replace(DOWN, turn=(2, 2))])
    seen = [ready.toxics()]
    for turn in (2, 3):
        ready.state.request_turn(attempt_id, turn)
        ready.reconciler.step()
        assert ready.attempt(attempt_id).armed_turn == turn
        seen.append(ready.toxics())
    assert seen == [[], [("weather", "down")], []]
    assert ready.finish(attempt_id).disturbed == ()


def test_successor_releases_held_call(ready: Plane) -> None:
    attempt_id = ready.arm([replace(TIMEOUT, during=Span(2.0, unit="calls"))])
    ready.state.held_calls.add(HeldCall("run-1", "001", 1, "movie", 2))
    ready.reconciler.close()
    ready.reconciler = ready.make(ready.state)
    ready.reconciler.take_over("the proxy manager started anew")
    ready.reconciler.step()
    assert ready.state.held_calls.of("run-1", "001", 1) == ready.toxics() == []
    assert ready.finish(attempt_id).disturbed == ("the proxy manager started anew",)
