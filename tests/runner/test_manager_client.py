"""The runner's side of the control protocol, with a real manager's loop or without one."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.servers import embedded_server
from tests.proxy_manager.rig import ARMED, PLAN, SETTINGS, Plane, a_plane, looping
from tests.support import PATIENCE_S, until
from wirefault.core.sqlite import connect
from wirefault.runner.manager_client import ManagerClient, RunAborted
from wirefault.state.state import State
from wirefault.state.state_files import RunLock
from wirefault.subjects.subject import LabFailed

pytestmark = pytest.mark.slow  # its clients wait for their time limits


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[str]:
    with embedded_server() as url:
        yield url


@pytest.fixture
def plane(tmp_path: Path, toxiproxy: str) -> Iterator[Plane]:
    with a_plane(tmp_path, toxiproxy) as plane:
        plane.clock = time.time  # type: ignore[assignment]
        plane.reconciler.close()
        yield plane
        plane.proxies.remove()


@contextmanager
def managed(plane: Plane) -> Iterator[None]:
    with looping(plane) as loop:
        until(lambda: loop.error is None)
        yield


@pytest.fixture
def controls(plane: Plane) -> Iterator[list[ManagerClient]]:
    made = [ManagerClient(lambda: State(plane.state.path), time.time, time.sleep) for _ in range(2)]
    yield made
    for control in made:
        control.release()
        control.close()


def lease(control: ManagerClient, run_id: str = "run-1", say=lambda _: None) -> ManagerClient:
    control.lease(run_id, "lab", 0, SETTINGS, say)
    return control


def test_run_from_lease_to_release(plane: Plane, controls: list[ManagerClient]) -> None:
    with managed(plane):
        control = lease(controls[0])
        for number in (1, 2):
            armed = control.arm("001", number, PLAN, 5)
            assert armed.arming_ms and plane.toxics() == ARMED
            healed = control.finish(armed.attempt_id, SETTINGS)
            assert (healed.state, healed.settled, healed.disturbed) == ("healed", True, ())
            assert plane.toxics() == []
        assert control.release() == 0
        assert plane.state.run("run-1").status == "finished"


def test_interrupted_run_is_healed_before_release(plane: Plane, controls: list[ManagerClient]) -> None:
    with managed(plane):
        lease(controls[0]).arm("001", 1, PLAN, 5)
        assert controls[0].release() == 0
        assert plane.toxics() == []


@pytest.mark.parametrize("ends", ["release", "dies"])
def test_second_run_waits_then_continues(plane: Plane, controls: list[ManagerClient], ends: str) -> None:
    first, second = controls
    messages: list[str] = []
    with managed(plane):
        lease(first).arm("001", 1, PLAN, 5)
        waiting = threading.Thread(target=lease, args=(second, "run-2", messages.append))
        waiting.start()
        until(lambda: messages == ["lane 0 is in use by run run-1; waiting for it"])
        if ends == "release":
            first.release()
        else:
            first._stop_beating.set()
            first._lock.free()
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive() and plane.state.run("run-2").status == "leased"
        armed = second.arm("001", 1, [], 5)
        assert armed.arming_ms and plane.toxics() == []
        assert second.finish(armed.attempt_id, SETTINGS).disturbed == ()
        if ends == "dies":
            with pytest.raises(RunAborted, match="lost its lease"):
                first.arm("001", 2, [], 1)


def test_slowly_started_run_has_fresh_heartbeat_when_queued(plane: Plane) -> None:
    now = [time.time()]
    control = ManagerClient(lambda: State(plane.state.path), lambda: now[0], lambda _: None)
    control.lab_faults("lab", 0)
    now[0] += 5  # a busy machine
    with pytest.raises(RunAborted, match="no sign of life"):  # no manager runs
        lease(control)
    run = plane.state.run("run-1")
    assert run and run.heartbeat >= now[0] > run.created + 4
    control.release()
    control.close()


def test_run_holds_lock_from_queue_to_release(plane: Plane, controls: list[ManagerClient]) -> None:
    lock = RunLock(plane.state.path.parent, "run-1")
    with managed(plane):
        lease(controls[0])
        assert lock.is_held()
        controls[0].release()
        assert not lock.is_held() and list(plane.state.path.parent.glob("*.run")) == []


def test_unacknowledged_attempt_is_abandoned(plane: Plane, controls: list[ManagerClient]) -> None:
    plane.state.beat_manager("lab", 0, 1, time.time() + 60)
    plane.run()
    plane.state.move_run("run-1", "waiting", "leased")
    control = controls[0]
    control._run = plane.state.run("run-1")
    assert control.arm("001", 1, [], 0.01).arming_ms is None
    assert plane.attempt(1).state == "abandoned"


def test_run_without_manager_does_not_start(plane: Plane) -> None:
    messages: list[str] = []
    control = ManagerClient(lambda: State(plane.state.path), time.time, lambda _: None)
    with pytest.raises(RunAborted, match="no sign of life"):
        lease(control, say=messages.append)
    assert messages == ["waiting for the proxy manager"]
    control.release()
    control.close()


@pytest.mark.parametrize("recovers", [True, False])
def test_run_waits_for_manager_that_lost_toxiproxy(plane: Plane, recovers: bool) -> None:
    seconds = [0.0]

    def sleep(s: float) -> None:
        seconds[0] += s
        ready = seconds[0] < 1 or (recovers and seconds[0] > 11)
        plane.state.beat_manager("lab", 0, 1, time.time(), "" if ready else "no Toxiproxy listens there")

    plane.state.beat_manager("lab", 0, 1, time.time(), "starting")
    control = ManagerClient(lambda: State(plane.state.path), time.time, sleep)
    plane.run()
    plane.state.move_run("run-1", "waiting", "leased")
    control._run = plane.state.run("run-1")
    sleep(1)
    if recovers:
        assert control.arm("001", 1, [], 0.01).arming_ms is None  # asked for, though no manager runs here
        assert seconds[0] > 11
    else:
        with pytest.raises(RunAborted, match="did not recover: no Toxiproxy listens there"):
            control.arm("001", 1, [], 5)
    control.close()


def test_missing_manager_ends_run_with_reason(plane: Plane, controls: list[ManagerClient]) -> None:
    with managed(plane):
        armed = lease(controls[0]).arm("001", 1, [], 5)
    with pytest.raises(RunAborted, match="no sign of life"):
        controls[0].finish(armed.attempt_id, SETTINGS)
    assert controls[0].release() == 0


def test_deleted_database_is_named(plane: Plane, controls: list[ManagerClient]) -> None:
    with managed(plane):
        armed = lease(controls[0]).arm("001", 1, PLAN, 5)
        plane.state.path.unlink()
        with pytest.raises(RunAborted, match=r"state\.db was deleted or replaced"):
            controls[0].finish(armed.attempt_id, SETTINGS)
        until(lambda: plane.toxics() == [])


def test_database_locked_beyond_lease_does_not_end_run(plane: Plane, controls: list[ManagerClient]) -> None:
    with managed(plane):
        lease(controls[0])
        with closing(connect(plane.state.path)) as other:
            other.execute("BEGIN EXCLUSIVE")
            locked = time.monotonic()
            until(lambda: time.monotonic() - locked > 3)
            other.execute("COMMIT")
        armed = controls[0].arm("001", 1, PLAN, 5)
        assert armed.arming_ms
        assert controls[0].finish(armed.attempt_id, SETTINGS).disturbed == ()


def test_failed_release_does_not_raise(plane: Plane, controls: list[ManagerClient]) -> None:
    with managed(plane):
        lease(controls[0])
        plane.state._database.execute("DROP TABLE toxics")
        assert controls[0].release() is None
        plane.state._database.execute("DROP TABLE runs")
        with pytest.raises(sqlite3.Error):
            controls[0].arm("001", 1, [], 1)


def test_turn_starts_when_armed(plane: Plane, controls: list[ManagerClient]) -> None:
    with managed(plane):
        control = lease(controls[0])
        attempt_id = control.arm("001", 1, [replace(PLAN[2], turn=(2, None))], PATIENCE_S).attempt_id
        assert plane.toxics() == []
        control.begin_turn(attempt_id, 2, PATIENCE_S)
        assert plane.toxics() == [("weather", "down")]
        assert control.finish(attempt_id, SETTINGS).disturbed == ()


def test_unarmed_turn_is_lab_failure(plane: Plane, controls: list[ManagerClient]) -> None:
    with managed(plane):
        control = lease(controls[0])
        attempt_id = control.arm("001", 1, [], PATIENCE_S).attempt_id
    with pytest.raises(LabFailed, match="turn 2 was not armed within "):
        control.begin_turn(attempt_id, 2, 0.01)
