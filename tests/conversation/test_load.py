"""Many sessions at once, on PostgreSQL and Redis: no turn is lost or mixed."""

from pathlib import Path

import pytest

from bench.conversations import load, server

pytestmark = pytest.mark.slow


def test_sessions_at_once_are_neither_lost_nor_mixed(
    tmp_path: Path, postgresql_url: str, redis_url: str
) -> None:
    with server(tmp_path, {"DATABASE_URL": postgresql_url, "REDIS_URL": redis_url}) as call:
        result = load(call, sessions=12, seconds=0, turns=1)
        assert (result.turns, result.wrong) == (12, [])
        status = call("GET", "/api/v1/system/status", None).json()
    assert status["components"]["database"] == "healthy (postgresql)"
    assert (status["components"]["redis"], status["status"]) == ("healthy", "healthy")
