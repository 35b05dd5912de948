"""The manager survives failures of Toxiproxy and of its database."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from proxy_manager.loop import STEP_BOUND_S, Loop, pause
from tests.conformance.servers import embedded_server
from tests.proxy_manager.rig import ARMED, PLAN, Plane, a_plane, looping
from tests.support import until
from wirefault.core.sqlite import connect
from wirefault.state.state import State
from wirefault.toxiproxy.answers import ToxiproxyError
from wirefault.toxiproxy.client import ToxiproxyClient


@pytest.fixture
def real_time(plane: Plane) -> Plane:
    plane.clock = time.time  # type: ignore[assignment]
    plane.reconciler.close()
    return plane


def settled(loop: Loop) -> bool:
    return loop.error is None


def complete_attempt(plane: Plane, attempt: int, meanwhile=lambda: None) -> tuple[str, ...]:
    """Run one attempt through a running loop; return its disturbances."""
    attempt_id = plane.request(attempt=attempt)
    until(lambda: plane.attempt(attempt_id).state == "armed", "armed")
    meanwhile()
    plane.state.move_attempt(attempt_id, "armed", "finished", time.time())
    until(lambda: plane.attempt(attempt_id).state == "healed", "healed")
    assert plane.toxics() == []
    return plane.attempt(attempt_id).disturbed


@contextmanager
def beating(plane: Plane) -> Iterator[None]:
    """Keeps the run alive, as a runner does."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.2):
            with State(plane.state.path) as state:
                state.beat_run("run-1", time.time())

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def alive(real_time: Plane) -> Iterator[Plane]:
    """With a run that shows its signs of life."""
    real_time.run()
    with beating(real_time):
        yield real_time


@pytest.mark.parametrize(
    ("run", "changing", "quiet_s", "seconds"),
    [
        (False, False, 0.0, 0.02),
        (True, False, 0.0, 0.002),
        (True, False, 0.2, 0.01),
        (True, False, 5.0, 0.02),
        (True, True, 5.0, 0.002),
    ],
)
def test_idle_pauses_grow(run: bool, changing: bool, quiet_s: float, seconds: float) -> None:
    assert pause(run, changing, quiet_s) == pytest.approx(seconds)


def test_signal_ends_wait(real_time: Plane) -> None:
    with looping(real_time) as loop:
        until(lambda: settled(loop), "ready")
        before = signal.signal(signal.SIGUSR1, loop.end_requested.set)
        try:
            with loop.stop._cond:  # type: ignore[attr-defined] # as its main thread has it when it waits
                signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)
        until(loop.stop.is_set, "its end")


def test_manager_heals_at_start_and_end(real_time: Plane) -> None:
    real_time.proxies.ensure()
    real_time.proxies.apply(PLAN)
    with looping(real_time) as loop:
        assert loop.error == "starting" or real_time.toxics() == []
        until(lambda: settled(loop))
        assert real_time.toxics() == []
        until(lambda: (beat := real_time.state.manager_beat("lab", 0)) and not beat.not_ready)
        real_time.proxies.apply(PLAN)
    assert real_time.toxics() == []


def test_attempts_run_one_after_other(alive: Plane) -> None:
    with looping(alive):
        assert [complete_attempt(alive, number) for number in (1, 2, 3)] == [(), (), ()]


def test_stop_during_attempt_leaves_no_toxic_and_is_reported(alive: Plane) -> None:
    with looping(alive) as loop:
        until(lambda: settled(loop))
        attempt_id = alive.request()
        until(lambda: alive.attempt(attempt_id).state == "armed")
        assert alive.state.toxics.left("lab", 0) == len(PLAN)
    assert alive.toxics() == [] and alive.state.toxics.left("lab", 0) == 0


def reborn(plane: Plane, loop: Loop, stop_server) -> None:
    """Ends the server; once the manager has noticed it does not count as ready."""
    stop_server()
    until(lambda: loop.error and "Toxiproxy" in loop.error, "not ready")


@pytest.mark.slow
def test_restarted_toxiproxy_gets_proxies_on_same_ports(tmp_path: Path) -> None:
    server = embedded_server()
    url = server.__enter__()
    port = int(url.rpartition(":")[2])
    with a_plane(tmp_path, url) as plane:
        plane.clock = time.time  # type: ignore[assignment]
        plane.reconciler.close()
        plane.run()
        with beating(plane), looping(plane) as loop:
            until(lambda: settled(loop))
            before = dict(loop.addresses)

            def restart() -> None:
                nonlocal server
                reborn(plane, loop, lambda: server.__exit__(None, None, None))
                server = embedded_server(port)
                server.__enter__()
                until(lambda: settled(loop), "ready again")

            restart()  # while idle
            assert {k: p.listen for k, p in plane.proxies.observe().items()} == {
                link: str(address) for link, address in before.items()
            }
            assert complete_attempt(plane, 1) == ()
            [reason] = complete_attempt(plane, 2, restart)
            assert "had to start over during the attempt" in reason and "Toxiproxy" in reason
            assert complete_attempt(plane, 3) == () and loop.addresses == before
    server.__exit__(None, None, None)


def test_quick_restart_is_noticed_by_traces(alive: Plane) -> None:
    with looping(alive) as loop:
        until(lambda: settled(loop))
        before = dict(loop.addresses)

        def lose_all() -> None:
            for link in alive.topology.services:
                alive.client.delete_proxy(alive.name(link))
            until(lambda: len(alive.proxies.observe()) == 8)

        assert "its proxy is gone" in complete_attempt(alive, 1, lose_all)[0]
        assert complete_attempt(alive, 2) == () and loop.addresses == before


def test_manager_without_toxiproxy_is_not_ready_with_reason(real_time: Plane, monkeypatch) -> None:
    def unreachable(_: object) -> None:
        raise ToxiproxyError("no Toxiproxy listens there; start it")

    with monkeypatch.context() as patch:
        patch.setattr(ToxiproxyClient, "proxies", unreachable)
        with looping(real_time) as loop:
            until(lambda: loop.error == "no Toxiproxy listens there; start it")
            until(lambda: (beat := real_time.state.manager_beat("lab", 0)) and beat.not_ready == loop.error)
            patch.undo()
            until(lambda: settled(loop))


def test_deleted_database_is_recreated(real_time: Plane) -> None:
    with looping(real_time) as loop:
        until(lambda: settled(loop))
        path = real_time.state.path
        path.unlink()
        until(path.exists, "a new database")
        until(lambda: settled(loop))
        with State(path) as new:
            until(lambda: new.manager_beat("lab", 0))
            new.insert_run("run-2", "lab", 0, "{}", "hash", 1, time.time())
            until(lambda: new.run("run-2").status == "leased")


def test_locked_database_is_awaited(real_time: Plane) -> None:
    with looping(real_time, busy_timeout_ms=20) as loop:
        until(lambda: settled(loop))
        with closing(connect(real_time.state.path)) as other:
            other.execute("BEGIN EXCLUSIVE")
            until(lambda: loop.error == f"{real_time.state.path}: database is locked")
            other.execute("COMMIT")
        until(lambda: settled(loop))


def test_invalid_database_prevents_ready(real_time: Plane) -> None:
    with looping(real_time) as loop:
        until(lambda: settled(loop))
        real_time.state.path.unlink()
        real_time.state.path.write_bytes(b"no database at all, but long enough to be looked at" * 99)
        until(lambda: loop.error and "not a database" in loop.error)
        real_time.state.path.unlink()
        until(lambda: settled(loop))


def test_loop_without_progress_is_reported_stuck(real_time: Plane) -> None:
    with looping(real_time) as loop:
        until(lambda: settled(loop))
    loop._progress = time.monotonic() - STEP_BOUND_S - 1
    assert loop.error == "the control loop is stuck"
    assert loop.reconciler
    loop.reconciler.settling_s = 60
    assert loop.error is None


def test_lane_of_dead_run_is_healed_and_freed(real_time: Plane) -> None:
    with looping(real_time) as loop:
        until(lambda: settled(loop))
        with beating(real_time):  # it does not die before the manager, however busy, has come to arm it
            attempt_id = real_time.request()
            until(lambda: real_time.attempt(attempt_id).state == "armed")
        assert real_time.toxics() == ARMED
        until(lambda: real_time.state.run("run-1").status == "expired", "expired")
        until(lambda: real_time.attempt(attempt_id).state == "abandoned")
        assert real_time.toxics() == []
