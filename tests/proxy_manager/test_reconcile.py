"""An attempt's way from requested to healed, and all that may come in between."""

from __future__ import annotations

import pytest

from proxy_manager.gateway_control import GatewayControl, GatewayError
from proxy_manager.reconcile import LaneLease
from tests.gateway.lab import TOKEN, dial
from tests.proxy_manager.rig import ARMED, LATENCY, PLAN, Plane
from tests.proxy_manager.test_proxies import FOREIGN, add
from tests.support import until
from wirefault.state.state import HUNG_AFTER, STALE_AFTER, State
from wirefault.state.state_files import RunLock

READ_BACK = [
    {
        "link": "search",
        "kind": "latency",
        "stream": "upstream",
        "attributes": {"latency": 300, "jitter": 0},
    },
    {"link": "weather", "kind": "down"},
    {"link": "movie", "kind": "timeout", "stream": "downstream", "attributes": {"timeout": 400}},
]


def test_attempt_is_armed_read_back_and_acknowledged(ready: Plane) -> None:
    attempt_id = ready.arm(PLAN)
    assert ready.toxics() == ARMED
    [armed] = ready.history()
    assert (armed.action, armed.episode, armed.attempt, armed.toxics) == ("armed", "001", 1, READ_BACK)
    assert ready.attempt(attempt_id).armed_at == ready.clock()


def test_status_shows_attempt_desired_and_observed(ready: Plane) -> None:
    ready.arm([LATENCY])
    status = ready.reconciler.status
    assert (status.run, status.episode, status.attempt) == ("run-1", "001", 1)
    assert status.desired == status.observed == READ_BACK[:1]
    ready.finish(1)
    assert (status.run, status.episode, status.desired, status.observed) == ("run-1", None, [], [])


def test_gateway_has_attempt_before_acknowledgement(ready: Plane) -> None:
    ready.arm()
    lane = ready.gateway._call("GET", "/lanes/0", {}, 2)
    assert (lane["run_id"], lane["episode"], lane["attempt"]) == ("run-1", "001", 1)


def test_finished_attempt_is_healed_and_settled(ready: Plane) -> None:
    row = ready.finish(ready.arm())
    assert (row.state, row.settled, row.disturbed) == ("healed", True, ())
    assert ready.toxics() == [] and ready.state.toxics.left("lab", 0) == 0
    assert [event.action for event in ready.history()] == ["armed", "healed"]


def test_open_connection_is_not_settled(ready: Plane) -> None:
    attempt_id = ready.arm([])
    with dial(ready.topology.gateways["search"]) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        until(lambda: ready.gateway._call("GET", "/lanes/0", {}, 2)["open"])
        assert ready.finish(attempt_id).settled is False


class GivesUp(GatewayControl):
    """While the gateway gets the attempt, the runner gives up waiting."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane.topology.control, TOKEN)
        self._plane = plane

    def begin(self, attempt, settings_hash) -> None:
        super().begin(attempt, settings_hash)
        with State(self._plane.state.path) as runner:
            assert runner.move_attempt(attempt.id, "requested", "abandoned", 1.0)


def test_abandoned_attempt_is_healed(ready: Plane) -> None:
    ready.gateway.close()
    ready.gateway = GivesUp(ready)
    ready.reconciler = ready.make(ready.state)
    attempt_id = ready.request()
    ready.reconciler.step()
    assert ready.attempt(attempt_id).state == "abandoned"
    assert ready.toxics() == []
    assert ready.gateway._call("GET", "/lanes/0", {}, 2)["episode"] is None


# the lease


def test_second_run_waits_for_lane(ready: Plane) -> None:
    ready.run("first"), ready.run("second")
    ready.reconciler.step()
    assert [ready.state.run(name).status for name in ("first", "second")] == ["leased", "waiting"]
    ready.state.move_run("first", "leased", "finished")
    ready.reconciler.step()
    assert ready.state.run("second").status == "leased"


def test_request_during_step_keeps_attempt(ready: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    renew, asking_runs = LaneLease.renew, []

    def renew_just_before_it_comes(lease: LaneLease) -> object:
        leased = renew(lease)
        if not asking_runs:
            asking_runs.append(ready.request())
        return leased

    monkeypatch.setattr(LaneLease, "renew", renew_just_before_it_comes)
    ready.reconciler.step()
    ready.reconciler.step()
    assert ready.attempt(asking_runs[0]).state == "armed"


def pass_time(plane: Plane, seconds: float, *alive: str) -> None:
    """In the loop's own rhythm."""
    end = plane.clock.now + seconds
    while plane.clock.now < end:
        plane.clock.now += 0.25
        for run_id in alive:
            plane.state.beat_run(run_id, plane.clock())
        plane.reconciler.step()


def test_lane_of_run_without_heartbeat_is_healed_and_freed(ready: Plane) -> None:
    attempt_id = ready.arm()
    ready.run("second")
    pass_time(ready, STALE_AFTER, "second")
    assert ready.state.run("run-1").status == "leased"
    pass_time(ready, 0.25, "second")
    assert [ready.state.run(name).status for name in ("run-1", "second")] == ["expired", "leased"]
    assert ready.attempt(attempt_id).state == "abandoned"
    assert ready.toxics() == [] and ready.state.toxics.left("lab", 0) == 0


def test_dead_queued_run_is_skipped(ready: Plane) -> None:
    ready.run("first"), ready.run("dead"), ready.run("third")
    pass_time(ready, 3, "first", "third")
    ready.state.move_run("first", "leased", "finished")
    pass_time(ready, 0.25, "third")
    assert [ready.state.run(name).status for name in ("dead", "third")] == ["expired", "leased"]


def test_manager_delay_does_not_expire_lease(ready: Plane) -> None:
    ready.arm()
    ready.clock.now += 60  # a computer that slept
    ready.reconciler.step()
    pass_time(ready, 1)
    ready.state.beat_run("run-1", ready.clock())
    pass_time(ready, 1.5)
    assert ready.state.run("run-1").status == "leased"


def test_busy_machine_does_not_expire_lease(ready: Plane) -> None:
    ready.arm()
    for _ in range(6):  # the manager itself gets to work about once a second, and the run not at all
        ready.clock.now += 0.9
        ready.reconciler.step()
    assert ready.state.run("run-1").status == "leased"
    pass_time(ready, 1)
    assert ready.state.run("run-1").status == "expired"


def test_starved_run_keeps_lease_while_process_lives(ready: Plane) -> None:
    lock = RunLock(ready.folder, "run-1")
    lock.take()
    ready.arm()
    pass_time(ready, HUNG_AFTER)
    assert ready.state.run("run-1").status == "leased"
    pass_time(ready, 0.25)  # it hangs or was stopped
    assert ready.state.run("run-1").status == "expired"
    lock.free()


def test_dead_process_loses_lease_at_stale_heartbeat(ready: Plane) -> None:
    lock = RunLock(ready.folder, "run-1")
    lock.take()
    ready.arm()
    pass_time(ready, STALE_AFTER + 1)
    lock.free()
    pass_time(ready, 0.25)
    assert ready.state.run("run-1").status == "expired"


def test_run_ending_with_open_attempt_is_healed(ready: Plane) -> None:
    attempt_id = ready.arm()
    ready.state.move_run("run-1", "leased", "finished")
    ready.reconciler.step()
    assert ready.attempt(attempt_id).state == "abandoned" and ready.toxics() == []


def test_rows_of_other_labs_are_ignored(ready: Plane) -> None:
    ready.run("theirs", lab_id="other")
    attempt_id = ready.request(run_id="theirs")
    ready.reconciler.step()
    assert (ready.state.run("theirs").status, ready.attempt(attempt_id).state) == ("waiting", "requested")
    assert ready.state.toxics.left("other", 0) == len(PLAN)


# changes by others


@pytest.mark.parametrize(("change", "words"), FOREIGN, ids=[change.__name__ for change, _ in FOREIGN])
def test_foreign_change_makes_attempt_invalid(ready: Plane, change, words: str) -> None:
    attempt_id = ready.arm([LATENCY])
    change(ready, "search")
    row = ready.finish(attempt_id)
    assert row.state == "healed" and words in row.disturbed[0]
    assert [event.action for event in ready.history()] == ["armed", "disturbed", "healed"]
    assert words in ready.history()[1].detail and ready.toxics() == []
    assert ready.finish(ready.arm(PLAN, attempt=2)).disturbed == ()


def test_foreign_change_is_repaired_during_attempt(ready: Plane) -> None:
    attempt_id = ready.arm([LATENCY])
    add(ready, "search")
    ready.reconciler.watch()
    assert ready.toxics() == [("search", "latency")]
    ready.reconciler.watch()
    assert len(ready.finish(attempt_id).disturbed) == 1
    assert [event.action for event in ready.history()] == ["armed", "repaired", "healed"]


def test_manual_toxic_stays_until_attempt_is_armed(ready: Plane) -> None:
    add(ready, "search")
    ready.reconciler.watch()
    ready.reconciler.step()
    assert ready.toxics() == [("search", "latency")]
    ready.arm([])
    assert ready.toxics() == []


@pytest.mark.parametrize("state", ["requested", "finished"])
def test_watch_skips_changing_attempt(ready: Plane, state: str) -> None:
    if state == "finished":
        attempt_id = ready.arm()
        ready.state.move_attempt(attempt_id, "armed", "finished", 1.0)
    else:
        attempt_id = ready.request()
    ready.reconciler.watch()
    ready.reconciler.step()
    assert ready.attempt(attempt_id).disturbed == ()


# a manager's successor


@pytest.mark.parametrize("state", ["armed", "finished"])
def test_attempt_after_manager_restart_is_disturbed(ready: Plane, state: str) -> None:
    attempt_id = ready.arm()
    if state == "finished":
        ready.state.move_attempt(attempt_id, "armed", "finished", 1.0)
    ready.reconciler.close()
    ready.reconciler = ready.make(ready.state)
    ready.reconciler.take_over("the manager started anew")
    assert ready.toxics() == []
    ready.reconciler.step()
    ready.reconciler.watch()
    assert ready.toxics() == []  # it is not armed again
    ready.state.move_attempt(attempt_id, "armed", "finished", 1.0)
    ready.reconciler.step()
    row = ready.attempt(attempt_id)
    assert (row.state, row.disturbed) == ("healed", ("the manager started anew",))
    assert ready.toxics() == []


def test_successor_heals_toxics_of_dead_run(ready: Plane) -> None:
    attempt_id = ready.arm()
    ready.state.move_run("run-1", "leased", "finished")
    successor = ready.make(ready.state)
    successor.take_over("the manager started anew")
    successor.step()
    assert ready.attempt(attempt_id).state == "abandoned" and ready.toxics() == []
    successor.close()


def test_held_request_may_leave_once_armed(ready: Plane) -> None:
    ready.request()
    ready.reconciler.take_over("the manager started anew")
    ready.reconciler.step()
    assert ready.toxics() == ARMED
    assert ready.state.toxics.left("lab", 0) == len(PLAN)


def test_gateway_refusal_is_error_with_reason(ready: Plane) -> None:
    ready.run()
    ready.request()
    ready.state._database.execute("UPDATE runs SET settings_hash = 'another'")
    with pytest.raises(GatewayError, match="refused PUT /lanes/0"):
        # the gateway reads the row itself; the reconciler passes on the row that it read before
        ready.gateway.begin(ready.attempt(1), "what the manager read")
    assert ready.attempt(1).state == "requested"


def test_closed_idle_gateway_connection_is_retried(ready: Plane) -> None:
    ready.run()
    ready.request()
    calls = []
    original = ready.gateway._session.request

    def breaks_once(*arguments, **options):
        import requests

        calls.append(arguments)
        if len(calls) == 1:
            raise requests.ConnectionError("closed")
        return original(*arguments, **options)

    ready.gateway._session.request = breaks_once
    ready.reconciler.step()
    assert ready.attempt(1).state == "armed" and len(calls) == 2
