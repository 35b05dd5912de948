"""Real PostgreSQL and Redis servers on sockets in a private folder, as fixtures."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import required, until

_POSTGRESQL = "postgres"
_STOP_BOUND_S = 20


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """The URL of an empty database of a PostgreSQL server."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    folder = str(programs[-1]) if programs else None
    initdb, server = (shutil.which(name, path=folder) for name in ("initdb", _POSTGRESQL))
    if not (initdb and server):
        _skip("PostgreSQL")
    assert initdb and server
    with _folder() as home:
        data = home / "data"
        arguments = ["-D", str(data), "-U", "lab", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        subprocess.run([initdb, *arguments], check=True, capture_output=True, user=_user(), cwd=home)
        # listens on a socket only; without waiting for the disk
        options = ["-D", str(data), "-k", str(home), "-c", "listen_addresses=", "-c", "fsync=off"]
        with _server([server, *options], home):
            until(lambda: "ready to accept" in (home / "log").read_text(encoding="utf-8"))
            yield f"postgresql://lab@/postgres?host={home}"


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of an empty Redis server."""
    server = shutil.which("redis-server")
    if not server:
        _skip("Redis")
    assert server
    with _folder() as home:
        socket = home / "redis.sock"
        options = ["--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "777", "--save", ""]
        with _server([server, *options], home):
            until(lambda: "ready to accept" in (home / "log").read_text(encoding="utf-8").lower())
            yield f"unix://{socket}"


def _skip(name: str) -> None:
    assert not required("databases"), f"no {name}; .ci/databases.sh installs it"
    pytest.skip(f"no {name}")


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return _POSTGRESQL if os.geteuid() == 0 else None


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder with a short path, as sockets need, that the servers' user can write."""
    with tempfile.TemporaryDirectory(prefix="wf-db-") as name:
        if user := _user():
            shutil.chown(name, user)
        yield Path(name)


@contextmanager
def _server(command: Sequence[str], home: Path) -> Iterator[None]:
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, user=_user(), cwd=home)
    try:
        yield
    finally:
        process.terminate()
        process.wait(_STOP_BOUND_S)
