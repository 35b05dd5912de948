"""Asynchronous tests of pytest-asyncio and anyio, with clients of their own loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pytest_plugin.suites import NAMED, Session, run_suite, write_suite

pytestmark = pytest.mark.slow

TESTS = """
import asyncio
import contextvars
import httpx
import pytest
import pytest_asyncio
from wirefault import tool
from wirefault.pytest_plugin import assert_survives

CALLER = contextvars.ContextVar("caller")
GONE = [{"fault": "unavailable", "links": "shop", "when": {"nth": "1", "of": "try"}}]

@pytest_asyncio.fixture
async def client(shop):
    async with httpx.AsyncClient(base_url=shop) as client:
        await client.get("/items", headers={"Connection": "close"})
        yield client

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def statuses(client):
    return [(await client.get("/items")).status_code for _ in range(2)]

@pytest.mark.wirefault(GONE)
@pytest.mark.asyncio
async def test_client_of_fixture(client):
    assert await statuses(client) == [503, 200]

@pytest.mark.asyncio
@pytest.mark.wirefault(GONE, repeats=2)
async def test_tasks(client):
    first, second = await asyncio.gather(client.get("/items"), client.get("/items"))
    assert sorted([first.status_code, second.status_code]) == [200, 503]

@pytest.mark.wirefault(GONE)
class TestInClass:
    pytestmark = pytest.mark.asyncio(loop_scope="class")

    async def test_method(self, client):
        assert await statuses(client) == [503, 200]

@pytest.mark.wirefault("unavailable")
@pytest.mark.asyncio
async def test_unmet(client):
    await asyncio.sleep(0)

@pytest.mark.wirefault([{"fault": "lose_reply", "links": "functions"}])
@pytest.mark.asyncio
async def test_tool():
    CALLER.set("Ada")
    orders = []

    @tool(writes=True)
    async def order(item):
        orders.append((item, CALLER.get(), asyncio.get_running_loop()))
        return len(orders)

    with pytest.raises(httpx.TransportError):
        await order("mug")
    assert orders == [("mug", "Ada", asyncio.get_running_loop())]

@pytest.mark.wirefault(GONE)
@pytest.mark.anyio
async def test_anyio(shop, anyio_backend):
    async with httpx.AsyncClient(base_url=shop) as client:
        assert await statuses(client) == [503, 200]

@pytest.mark.asyncio
async def test_unmarked(client):
    assert await statuses(client) == [200, 200]

@pytest.mark.asyncio
async def test_survives(shop):
    async def agent(prompt):
        async with httpx.AsyncClient(base_url=shop) as client:
            return str(await statuses(client))
    report = assert_survives(agent, prompts=["x"], faults=GONE)
    assert [episode.answer for episode in report.episodes] == ["[200, 200]", "[503, 200]", "[200, 200]"]
"""
PASSING = (
    "test_client_of_fixture",
    "test_tasks[repeat2]",
    "test_method",
    "test_tool",
    "test_anyio",
    "test_unmarked",
    "test_survives",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    pytest.importorskip("pytest_asyncio")
    folder: Path = tmp_path_factory.mktemp("suite")
    write_suite(folder, TESTS, conftest=NAMED)
    return run_suite(folder, "--wirefault-seed=7")


@pytest.mark.parametrize("name", PASSING)
def test_passes(session: Session, name: str) -> None:
    assert session.cases[name].result == "passed", session.cases[name].message


def test_fault_that_never_arrived_is_unknown(session: Session) -> None:
    assert "the fault unavailable never arrived" in session.cases["test_unmet"].message
