"""The store of the conversation lab: SQLite and PostgreSQL, with sessions there or in Redis."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from redis import Redis
from sqlalchemy import text

from tests.core.hostile import TRAPS, VICTIM, victim_of
from wirefault.conversation.databases import open_databases
from wirefault.conversation.serving import TOKEN_FILE, only_server, run_of
from wirefault.conversation.store import CHECKPOINT_S, RATE_S, STATE_S, Session, Store
from wirefault.conversation.turns import TurnResult
from wirefault.core.control_access import own_secret
from wirefault.core.errors import UserError
from wirefault.core.files import UnsafeFileError
from wirefault.history.events import RecoveryTried


@dataclass
class Opened:
    store: Store
    now: list[float]
    redis: Redis | None = None

    def pass_time(self, seconds: float) -> None:
        self.now[0] += seconds


@pytest.fixture(params=["sqlite", "postgresql", "redis"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    now, environ = [4_000_000_000.0], {}  # later than what other tests leave in the same server
    if request.param == "postgresql":
        environ["DATABASE_URL"] = request.getfixturevalue("postgresql_url")
    if request.param == "redis":
        environ["REDIS_URL"] = request.getfixturevalue("redis_url")
    for _ in range(2):  # a second server finds the tables there
        databases = open_databases(environ, tmp_path / "conversations.db", lambda: now[0])
        databases.close()
    assert (databases.redis_answers is not None) == (request.param == "redis")
    client = Redis.from_url(environ["REDIS_URL"]) if "REDIS_URL" in environ else None
    yield Opened(databases.store, now, client)
    if client:
        client.close()
    databases.close()


def add(opened: Opened, session: Session, mode: str, ms: float = 40.0) -> int:
    tried = RecoveryTried(5.0, "s", 1, "retry", 1, True, 0.25, "", "model", detail="second try")
    result = TurnResult(
        *(1, "success", "It is 4.", "4", "success", bool(mode), bool(mode), ms, 12, "scripted"),
        recoveries=[tried] if mode else [],
    )
    return opened.store.add_interaction(session, "run", {"message": "2+2?"}, {}, mode, result)


def test_session_is_stored_and_expires(opened: Opened) -> None:
    store, name = opened.store, f"s{uuid4().hex}"
    assert store.session(name) is None
    store.put_session(
        Session(name, turns=2, failure_count=1, context={"a": [1]}, in_progress={"request": {}})
    )
    assert name in [each.session_id for each in store.unfinished()]
    stored = store.session(name)
    assert stored and (stored.turns, stored.failure_count, stored.context) == (2, 1, {"a": [1]})
    store.checkpoint(stored, "pre_request", "step-1")
    assert store.checkpoints(name)["pre_request"]["stored_step"] == "step-1"
    assert [store.count_message(name) for _ in range(3)] == [1, 2, 3]
    if opened.redis:
        keys = [f"wirefault:{kind}:{name}" for kind in ("state", "failure_count", "pre_request")]
        lifetimes = [opened.redis.ttl(key) for key in keys]
        assert lifetimes == pytest.approx([STATE_S, STATE_S, CHECKPOINT_S], abs=30)
        return
    opened.pass_time(STATE_S + 1)
    assert store.session(name) is None and store.checkpoints(name)
    opened.pass_time(CHECKPOINT_S - STATE_S)
    assert store.checkpoints(name) == {}


def test_messages_of_two_servers_are_counted_once_each(opened: Opened) -> None:
    store, name = opened.store, f"s{uuid4().hex}"
    with ThreadPoolExecutor(4) as pool:
        counts = pool.map(lambda _: store.count_message(name), range(40))
    assert sorted(counts) == list(range(1, 41))
    [key] = store.values.keys(f"rate_limit:{name}")
    opened.pass_time(RATE_S + 1)
    assert store.values.count(key, RATE_S) == (41 if opened.redis else 1)  # whose clock did not move


def test_interactions_are_counted_in_analytics_and_views(opened: Opened) -> None:
    store, session = opened.store, Session(f"s{uuid4().hex}")
    opened.pass_time(10 * 24 * 3600)  # the server's database has the turns of other tests
    first = add(opened, session, "hallucination")
    add(opened, session, "hallucination", ms=6000.0)
    add(opened, session, "")
    assert store.analytics(24) == {
        "time_range_hours": 24,
        "failure_counts": {"hallucination": 2},
        "status_distribution": {"success": 3},
        "average_processing_time_ms": pytest.approx((40 + 6000 + 40) / 3, abs=0.001),
        "total_interactions": 3,
    }
    assert [turn["failure_mode"] for turn in store.history(session.session_id)] == [
        *["hallucination"] * 2,
        "",
    ]
    (tried,) = store.recoveries_of(first)
    assert (tried["recovery_strategy"], tried["success"], tried["recovery_time_ms"]) == ("retry", True, 250.0)
    with store.engine.connect() as connection:
        query = text("SELECT failure_mode, failures, recovered FROM failure_analysis WHERE session_id = :s")
        assert connection.execute(query, {"s": session.session_id}).all() == [("hallucination", 2, 2)]
        health = connection.execute(text("SELECT metric_type, violations FROM system_health")).all()
    assert health == [("processing_time_ms", 1)]


def test_scenario_is_replaced_by_its_name(opened: Opened) -> None:
    scenario = {"name": "slow", "description": "", "failure_type": "api_timeout", "enabled": True}
    first = opened.store.put_scenario({**scenario, "config": {"probability": 0.5}})
    opened.pass_time(5)
    second = opened.store.put_scenario({**scenario, "config": {"probability": 1.0}})
    assert (second["id"], second["created_at"]) == (first["id"], first["created_at"])
    assert second["updated_at"] == first["updated_at"] + 5
    assert [each["config"] for each in opened.store.scenarios()] == [{"probability": 1.0}]


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"DATABASE_URL": "mysql://host/x"}, "unknown kind 'mysql'; it must be postgresql or sqlite"),
        ({"DATABASE_URL": "nonsense"}, "DATABASE_URL: not a URL"),
        ({"DATABASE_URL": "postgresql://me:pw@127.0.0.1:9/x"}, "cannot open postgresql+psycopg://me:***@"),
        ({"REDIS_URL": "redis://127.0.0.1:9/0"}, "REDIS_URL: no Redis answers there"),
        ({"REDIS_URL": "http://127.0.0.1"}, "REDIS_URL: no Redis answers there"),
    ],
)
def test_wrong_url_has_advice_and_no_password(environ: dict[str, str], problem: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        open_databases(environ, tmp_path / "c.db", lambda: 0.0)
    assert problem in str(caught.value) and "pw" not in str(caught.value)


def _start(state: Path) -> None:
    """Open the files of a server's start, as ``serve_conversations`` does before its lab."""
    with only_server(state):
        open_databases({}, state / "conversations.db", time.time).close()
        run_of(state)
        own_secret(state, state / TOKEN_FILE)


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_every_file_of_a_start_is_checked(tmp_path: Path, trap: Callable[[Path, Path], None]) -> None:
    """The files are those that a start leaves, so a new one is tried, too."""
    (tmp_path / "clean").mkdir()
    _start(tmp_path / "clean")
    names = {path.name for path in (tmp_path / "clean").iterdir()}
    assert names >= {"conversations.db", "conversation.json", "conversation.lock", "conversation.token"}
    for name in (*names, "conversations.db-wal", "conversations.db-journal"):
        path = tmp_path / f"with-{name}" / name
        path.parent.mkdir()
        victim = victim_of(path)
        trap(path, victim)
        with pytest.raises(UnsafeFileError, match="refusing to use it"):
            _start(path.parent)
        assert victim.read_bytes() == VICTIM and not victim.with_name("made-by-symlink").exists()


@pytest.mark.parametrize("name", ["conversation.json", "conversation.token"])
def test_file_of_others_or_huge_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch(0o600)
    os.truncate(path, 1 << 40)  # sparse: uses no disk space
    with pytest.raises(UnsafeFileError):
        _start(tmp_path)
    path.unlink()
    _start(tmp_path)
    (tmp_path / TOKEN_FILE).chmod(0o644)
    with pytest.raises(UnsafeFileError, match="not a token that only you can read"):
        _start(tmp_path)
    (tmp_path / "conversation.json").write_text('{"run_id": "../../elsewhere"}')
    with pytest.raises(UserError, match=r"conversation\.json: not written by"):
        run_of(tmp_path)
