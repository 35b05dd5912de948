"""Messages between runner and manager through one file."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from wirefault.core.spans import Span
from wirefault.core.sqlite import connect
from wirefault.state.state import State
from wirefault.toxiproxy.planned import PlannedToxic

LATENCY = PlannedToxic("search", "latency", "upstream", {"latency": 300, "jitter": 0})
TIMEOUT = PlannedToxic("movie", "timeout", "downstream", {"timeout": 400})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "state.db"


@pytest.fixture
def state(path):
    with State(path) as opened:
        yield opened


@pytest.fixture
def other(path, state):
    with State(path) as opened:
        yield opened


def a_run(state, run_id="run-1", lab_id="lab", lane=0, now=10.0):
    state.insert_run(run_id, lab_id, lane, "{}", "hash", 7, now)
    return state.run(run_id)


def an_attempt(state, run=None, episode="1-1", attempt=1, plan=()):
    return state.request_attempt(run or state.run("run-1") or a_run(state), episode, attempt, plan, 11.0)


def test_run_waits_with_its_settings(state, other):
    run = a_run(state)
    assert (run.status, run.seed, run.settings, run.settings_hash) == ("waiting", 7, "{}", "hash")
    assert (run.created, run.heartbeat) == (10.0, 10.0)
    assert other.run("run-1") == run
    assert other.run("run-2") is None


def test_run_id_is_used_once(state):
    a_run(state)
    with pytest.raises(sqlite3.IntegrityError):
        a_run(state)


def test_waiting_runs_queue_per_lane(state):
    for run_id, lab_id, lane, now in [
        ("c", "lab", 0, 2.0),
        ("b", "lab", 0, 1.0),
        ("x", "lab", 1, 0),
        ("y", "l", 0, 0),
    ]:
        a_run(state, run_id, lab_id, lane, now)
    assert [run.run_id for run in state.runs("lab", 0, "waiting")] == ["b", "c"]
    assert state.runs("lab", 0, "leased") == []


def test_lease_is_taken_renewed_and_ended(state, other):
    a_run(state)
    assert other.move_run("run-1", "waiting", "leased")
    state.beat_run("run-1", 12.5)
    assert (other.run("run-1").status, other.run("run-1").heartbeat) == ("leased", 12.5)
    assert other.move_run("run-1", "leased", "expired")
    assert not state.move_run("run-1", "leased", "finished")
    assert state.run("run-1").status == "expired"


def test_attempt_request_has_plan(state, other):
    attempt_id = an_attempt(state, plan=[LATENCY, TIMEOUT])
    row = other.attempt(attempt_id)
    assert (row.run_id, row.lab_id, row.lane, row.episode, row.attempt) == ("run-1", "lab", 0, "1-1", 1)
    assert (row.state, row.requested_at, row.settled, row.disturbed) == ("requested", 11.0, None, ())
    assert other.toxics.planned(attempt_id) == [LATENCY, TIMEOUT]


def test_second_attempt_request_fails_without_trace(state):
    an_attempt(state, plan=[LATENCY])
    with pytest.raises(sqlite3.IntegrityError):
        an_attempt(state, plan=[TIMEOUT])
    assert state.toxics.left("lab", 0) == 1
    an_attempt(state, attempt=2)  # the connection is still usable


def test_each_state_has_timestamp(state):
    attempt_id = an_attempt(state, plan=[LATENCY])
    for old, new, now in [("requested", "armed", 12.0), ("armed", "finished", 13.0)]:
        assert state.move_attempt(attempt_id, old, new, now)
    assert state.move_attempt(attempt_id, "finished", "healed", 14.0, settled=False)
    row = state.attempt(attempt_id)
    assert (row.state, row.armed_at, row.finished_at, row.healed_at) == ("healed", 12.0, 13.0, 14.0)
    assert row.settled is False


def test_settled_flag_is_stored(state):
    attempt_id = an_attempt(state)
    state.move_attempt(attempt_id, "requested", "finished", 12.0, settled=False)
    state.move_attempt(attempt_id, "finished", "healed", 13.0)
    assert state.attempt(attempt_id).settled is False


def test_change_from_earlier_state_is_ignored(state, other):
    attempt_id = an_attempt(state)
    assert state.move_attempt(attempt_id, "requested", "abandoned", 12.0)
    before = state.attempt(attempt_id)
    assert not other.move_attempt(attempt_id, "requested", "armed", 13.0, settled=True)
    assert other.attempt(attempt_id) == before
    assert not other.move_attempt(999, "requested", "armed", 13.0)


def test_open_attempts_need_manager(state):
    ids = [an_attempt(state, attempt=number) for number in range(1, 6)]
    state.move_attempt(ids[1], "requested", "armed", 1.0)
    state.move_attempt(ids[2], "requested", "finished", 1.0)
    state.move_attempt(ids[3], "requested", "abandoned", 1.0)
    state.move_attempt(ids[4], "requested", "healed", 1.0)
    assert [row.id for row in state.open_attempts("lab", 0)] == ids[:3]
    assert state.open_attempts("lab", 1) == state.open_attempts("other", 0) == []


def test_planned_toxic_survives_round_trip(state, other):
    plan = [
        LATENCY,
        replace(TIMEOUT, seconds=0.5),
        replace(TIMEOUT, link="weather", during=Span(2.0, 1.5, 0.5), turn=(2, None)),
        replace(LATENCY, link="movie", during=Span(3.0, 2.0, unit="calls")),
    ]
    assert other.toxics.planned(an_attempt(state, plan=plan)) == plan


def test_toxics_remain_until_lane_is_verified_clean(state):
    an_attempt(state, plan=[LATENCY, TIMEOUT])
    an_attempt(state, a_run(state, "run-2", lane=1), plan=[LATENCY])
    assert (state.toxics.left("lab", 0), state.toxics.left("lab", 1)) == (2, 1)
    state.toxics.mark_removed("lab", 0, 15.0)
    assert (state.toxics.left("lab", 0), state.toxics.left("lab", 1)) == (0, 1)
    assert state.toxics.left("other", 0) == 0


def test_every_disturbance_is_stored(state, other):
    attempt_id = an_attempt(state)
    state.disturb(attempt_id, "toxiproxy restarted")
    other.disturb(attempt_id, 'somebody said "é"')
    assert state.attempt(attempt_id).disturbed == ("toxiproxy restarted", 'somebody said "é"')


def test_heartbeat_is_per_lane(state, other):
    assert state.manager_beat("lab", 0) is None
    other.beat_manager("lab", 0, 1, 5.0, "starting")
    assert state.manager_beat("lab", 0) == (5.0, "starting")
    other.beat_manager("lab", 0, 2, 6.0)
    assert state.manager_beat("lab", 0) == (6.0, "")
    assert state.manager_beat("lab", 1) is None


def test_data_version_changes_for_others_only(state, other):
    seen = state.data_version()
    a_run(state)
    assert state.data_version() == seen
    other.beat_run("run-1", 11.0)
    assert state.data_version() != seen
    seen = state.data_version()
    other.run("run-1")
    assert state.data_version() == seen


def test_only_one_racing_change_succeeds(path, state):
    def race(target, attempt_id):
        with State(path) as mine:
            barrier.wait(20)
            return mine.move_attempt(attempt_id, "requested", target, 12.0)

    for number in range(1, 11):
        attempt_id = an_attempt(state, attempt=number, plan=[LATENCY])
        barrier = threading.Barrier(4)
        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(race, ["armed", "abandoned"] * 2, [attempt_id] * 4))
        assert won.count(True) == 1
        assert state.attempt(attempt_id).state == ("armed", "abandoned")[won.index(True) % 2]


def test_parallel_writers_lose_nothing(path, state):
    attempt_id = an_attempt(state)

    def disturb(name):
        with State(path) as mine:
            for number in range(10):
                mine.disturb(attempt_id, f"{name} {number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(disturb, "abcd"))
    assert sorted(state.attempt(attempt_id).disturbed) == sorted(
        f"{n} {i}" for n in "abcd" for i in range(10)
    )


def test_concurrent_file_creation_succeeds(path):
    with ThreadPoolExecutor(8) as pool:
        for opened in pool.map(State, [path] * 16):
            opened.close()


def test_failed_commit_does_not_spoil_next(path, state):
    state._database.execute("PRAGMA busy_timeout=0")
    run = a_run(state)
    with closing(connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM runs").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            an_attempt(state, run)
        reader.execute("COMMIT")
    assert an_attempt(state, run) > 0


def test_successor_reads_open_rows_of_dead_process(path):
    with State(path) as first:
        attempt_id = an_attempt(first, plan=[LATENCY])
    with State(path) as second:
        assert [row.id for row in second.open_attempts("lab", 0)] == [attempt_id]
        assert second.toxics.planned(attempt_id) == [LATENCY]


def test_non_database_file_is_error(path):
    path.parent.mkdir()
    path.write_bytes(b"this is no database, and long enough to be read as one" * 99)
    with pytest.raises(sqlite3.DatabaseError):
        State(path)
