"""Resets and probes of a world, each against a real service."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.upstream import Upstream, requests_of
from wirefault.core.errors import InputError
from wirefault.runner.world_probe import HookFailed, WorldProbe, run_hook
from wirefault.wiring.spec_file import SpecFile
from wirefault.wiring.wiring import build_wiring
from wirefault.wiring.world_spec import HookSpec, WorldSpec


def hook(**fields: Any) -> HookSpec:
    return HookSpec.model_validate(fields)


def state(folder: Path, **fields: Any) -> Any:
    return run_hook(hook(**fields), folder, as_json=True)


def failure(folder: Path, **fields: Any) -> str:
    with pytest.raises(HookFailed) as caught:
        state(folder, **fields)
    return str(caught.value)


@pytest.fixture
def service() -> Iterator[Upstream]:
    """Answers its n-th request with ``[n]``, and one for /broken with 500."""
    requests: list[str] = []

    def serve(connection: Any) -> None:
        for request in requests_of(connection):
            requests.append(f"{request.method} {request.target}")
            body = json.dumps([len(requests)]).encode()
            status = b"500 Broken" if request.target == "/broken" else b"200 OK"
            head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n"
            connection.sendall(head % (status, len(body)) + body)

    with Upstream(serve) as upstream:
        yield upstream


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with an SQLite database and a module."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE orders (item, count)")
        database.execute("INSERT INTO orders VALUES ('tea', 2)")
    database.close()
    (tmp_path / "books.py").write_text("def read():\n    print('noise')\n    return {'n': 1}\n")
    return tmp_path


@pytest.mark.slow
def test_state_is_read_by_each_probe(shop: Path, service: Upstream) -> None:
    assert state(shop, http=f"GET {service.address.url}/orders") == [1]
    assert state(shop, command=[sys.executable, "-c", "print('[2]')"]) == [2]
    query = {"database": "shop.db", "query": "SELECT item, count FROM orders"}
    assert state(shop, sql=query) == [{"item": "tea", "count": 2}]
    assert state(shop, python="books:read") == {"n": 1}


def test_sql_reset_is_committed(shop: Path) -> None:
    delete = hook(sql={"database": "shop.db", "query": "DELETE FROM orders"})
    run_hook(delete, shop, as_json=False)
    assert state(shop, sql={"database": "shop.db", "query": "SELECT * FROM orders"}) == []


@pytest.mark.slow
def test_failed_hook_has_reason(shop: Path, service: Upstream) -> None:
    url = service.address.url
    assert failure(shop, http=f"GET {url}/broken") == f"GET {url}/broken: 500 [1]"
    assert "ConnectionError" in failure(shop, http="GET http://127.0.0.1:1/")
    assert failure(shop, command=["no-such-program"]) == "no-such-program: No such file or directory"
    program = [sys.executable, "-c", "import sys; sys.exit('it is late')"]
    assert failure(shop, command=program).endswith("exit code 1: it is late")
    assert failure(shop, command=["echo", "hello"]) == "its answer is not JSON: 'hello'"
    assert failure(shop, command=["echo", "NaN"]) == "its answer is not JSON: 'NaN'"
    assert failure(shop, command=["sleep", "60"], timeout=0.1) == "sleep: not done within 0.1 s"
    assert "no such table" in failure(shop, sql={"database": "shop.db", "query": "SELECT * FROM stock"})
    assert failure(shop, sql={"database": "no.db", "query": "SELECT 1"}) == "missing file no.db"
    assert "no attribute 'write'" in failure(shop, python="books:write")


def test_missing_postgresql_driver_has_install_advice(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    message = failure(shop, sql={"database": "postgresql://127.0.0.1/shop", "query": "SELECT 1"})
    assert message == "PostgreSQL needs a driver: pip install 'wirefault[postgresql]'"


def test_world_is_reset_then_read_and_failure_is_recorded(shop: Path, service: Upstream) -> None:
    url = service.address.url
    spec = {"reset": {"http": f"POST {url}/reset"}, "probe": {"http": f"GET {url}/orders"}}
    world = WorldProbe(WorldSpec.model_validate(spec), shop, lambda: 100.0)
    before, after = world.before("e1"), world.after("e1")
    assert before and (before.when, before.state, before.error) == ("before", [2], None)
    assert after and (after.when, after.state) == ("after", [3])
    broken = WorldProbe(WorldSpec(reset=hook(http=f"POST {url}/broken")), shop, lambda: 100.0)
    failed = broken.before("e1")
    assert failed and failed.error == f"the reset failed: POST {url}/broken: 500 [4]"


def test_world_without_hooks_has_no_record(shop: Path) -> None:
    world = WorldProbe(WorldSpec(), shop, lambda: 100.0)
    assert (world.before("e1"), world.after("e1")) == (None, None)


@pytest.mark.parametrize(
    ("world", "problem"),
    [
        ({"prob": {}}, "world.prob: no such key; did you mean 'probe'?"),
        ({"probe": {"http": "GET /orders"}}, "'GET /orders' is not a call: write METHOD URL"),
        ({"probe": {}}, "needs exactly one of http, command, sql, python"),
        ({"probe": {"python": "books"}}, "'books' is not a callable: write MODULE:CALLABLE"),
        ({"reset": {"http": "POST http://shop.example/"}}, "shop.example is not this machine"),
        (
            {"probe": {"sql": {"database": "postgresql://me:pass@localhost/shop", "query": "SELECT 1"}}},
            "must not contain a password",
        ),
    ],
)
def test_invalid_world_names_place(world: Any, problem: str, tmp_path: Path) -> None:
    links = {"shop": {"upstream": "http://127.0.0.1:9000"}}
    with pytest.raises(InputError) as caught:
        build_wiring(SpecFile("wirefault.yaml", {"links": links, "world": world}), tmp_path)
    assert problem in str(caught.value)
