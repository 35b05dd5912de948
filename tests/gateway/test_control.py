"""The control API: beginning and settling attempts."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.lab import TOKEN, Lab, ask, dial, gateway
from tests.support import PATIENCE_S, until
from tests.upstream import FREE
from wirefault.core.control_access import bearer
from wirefault.gateway.endpoint import lab_endpoint
from wirefault.gateway.run import Run
from wirefault.history.events import Note
from wirefault.history.lines import dump_event, unlinked
from wirefault.history.reader import read_file
from wirefault.history.writer import Writer
from wirefault.settings.settings import Settings
from wirefault.wiring.links import lab_links

GET = b"GET /size/1 HTTP/1.1\r\nHost: x\r\n\r\n"


def code(reply: requests.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


def open_connections(lab: Lab) -> int:
    return int(lab.control("GET", "/lanes/0").json()["open"])


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (401, "token")),
        ({"Authorization": "Bearer guessed"}, (401, "token")),
        ({**bearer(TOKEN), "Host": "rebound.example"}, (403, "foreign_host")),
        ({**bearer(TOKEN), "Origin": "http://page.example"}, (403, "foreign_origin")),
        ({**bearer(TOKEN), "Content-Type": "text/plain"}, (415, "not_json")),
    ],
)
def test_subjects_and_web_pages_cannot_change_lane(
    lab: Lab, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    lab.begin()
    before = lab.control("GET", "/lanes/0").json()
    settle = {"episode": before["episode"], "attempt": before["attempt"], "bound_s": 0}
    url = lab.topology.control.url + "/lanes/0/settle"
    assert code(requests.post(url, json=settle, headers=headers, timeout=PATIENCE_S)) == expected
    assert lab.control("GET", "/lanes/0").json() == before


def test_lane_shows_its_attempt(lab: Lab) -> None:
    assert lab.control("GET", "/").json() == {"status": "OK"}
    wanted = lab.new_run()
    assert lab.control("PUT", "/lanes/0", wanted).json() == {"lane": 0, "open": 0, **wanted}
    assert lab.control("GET", "/lanes/0").json() == {"lane": 0, "open": 0, **wanted}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"run_id": "nobody"}, (409, "unknown_run")),
        ({"settings_hash": "0"}, (409, "settings_differ")),
        ({"run_id": "../../x"}, (400, "bad_request")),
        ({"episode": "a\r\nb"}, (400, "bad_request")),
        ({"attempt": 0}, (400, "bad_request")),
        ({"attempt": None}, (400, "bad_request")),
        ({"more": 1}, (400, "bad_request")),
    ],
)
def test_invalid_begin_is_refused(lab: Lab, change: dict[str, Any], expected: tuple[int, str]) -> None:
    assert code(lab.control("PUT", "/lanes/0", {**lab.new_run(), **change})) == expected
    assert lab.control("GET", "/lanes/0").json()["episode"] is None


def test_errors_share_json_form(lab: Lab) -> None:
    assert code(lab.control("PUT", "/lanes/7", lab.new_run())) == (404, "unknown_lane")
    assert code(lab.control("GET", "/nowhere")) == (404, "not_found")
    assert code(lab.control("DELETE", "/lanes/0", {})) == (405, "method_not_allowed")
    headers = {**bearer(TOKEN), "Content-Type": "application/json"}
    url = lab.topology.control.url + "/lanes/0"
    cut_short = requests.put(url, data="{", headers=headers, timeout=PATIENCE_S)
    assert code(cut_short) == (400, "bad_request")


def test_missing_state_database_is_reported(tmp_path: Path) -> None:
    with gateway(tmp_path) as lab:
        body = {"run_id": "r", "episode": "e", "attempt": 1, "settings_hash": "h"}
        assert code(lab.control("PUT", "/lanes/0", body)) == (409, "unknown_run")
        assert not (tmp_path / "state.db").exists()
        (tmp_path / "state.db").write_bytes(b"no database at all" * 100)
        assert code(lab.control("PUT", "/lanes/0", body)) == (503, "state_failed")


def test_unwritable_history_is_reported(tmp_path: Path) -> None:
    with gateway(tmp_path) as lab:
        (tmp_path / "logs").write_text("in the way")
        assert code(lab.control("PUT", "/lanes/0", lab.new_run())) == (503, "history_failed")


def test_failed_record_stays_failed(tmp_path: Path) -> None:
    async def failure() -> str:
        writer = Writer(tmp_path / "history.jsonl")
        run = Run("r", Settings(seed=1), writer, lab_endpoint(FREE), lab_links())
        writer.close()
        run.record(Note(1.0, "info", ""))
        run.flush()
        return run.failure

    assert "the history cannot be written" in asyncio.run(failure())


def test_records_are_written_together_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"

    def records() -> list[bytes | None]:
        return [unlinked(line) for line in path.read_bytes().splitlines()]

    async def written() -> list[list[bytes | None]]:
        run = Run("r", Settings(seed=1), Writer(path), lab_endpoint(FREE), lab_links())
        for number in (1, 2, 3):
            run.record(Note(number, "info", ""))
        before = records()
        await asyncio.sleep(0)
        after = records()
        run.record(Note(4, "info", ""))
        run.close()
        return [before, after, records()]

    one, two, three, four = (dump_event(Note(number, "info", "")) for number in (1, 2, 3, 4))
    assert asyncio.run(written()) == [[], [one, two, three], [one, two, three, four]]


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_nothing_follows_line_cut_by_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first, second, third = (Note(1.0, "info", letter * 600) for letter in "abc")

    async def failures() -> list[str]:
        run = Run("r", Settings(seed=1), Writer(path), lab_endpoint(FREE), lab_links())
        run.record(first)
        run.record(second)
        with no_file_longer_than(1000):
            run.flush()
        failures_before = [run.failure]
        run.record(third)
        run.close()
        return [*failures_before, run.failure]

    failures_before, later = asyncio.run(failures())
    assert "the disk is full: wrote only" in failures_before and later == failures_before
    assert list(read_file(path)) == [first]


@pytest.mark.parametrize("odd", ["x" * (8 << 20), "a\ud800b", '\n\u2028\0"\\'])
def test_odd_text_stays_on_one_line(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "history.jsonl"

    async def write() -> None:
        run = Run("r", Settings(seed=1), Writer(path), lab_endpoint(FREE), lab_links())
        for text in ("before", odd, "after"):
            run.record(Note(1.0, "info", text))
        run.close()

    asyncio.run(write())
    notes = [event.message for event in read_file(path) if isinstance(event, Note)]
    assert notes == ["before", odd.replace("\ud800", "?"), "after"]


def test_history_is_complete_after_settle(lab: Lab) -> None:
    first = lab.new_run()
    for number in range(1, 30):
        lab.control("PUT", "/lanes/0", {**first, "attempt": number})
        ask(lab.address("search"), GET.replace(b"Host", b"Connection: close\r\nHost"))
        assert lab.settle(attempt=number)["settled"]
        assert [record.attempt for record in lab.recorded()] == list(range(1, number + 1))


def test_parallel_clients_all_leave_their_record(lab: Lab) -> None:
    lab.begin()
    with ThreadPoolExecutor(12) as pool:
        url = lab.url("search", "/size/2000")
        replies = pool.map(lambda _: requests.get(url, timeout=PATIENCE_S), range(240))
        assert {len(reply.content) for reply in replies} == {2000}
    assert lab.settle() == {"settled": True, "open": 0}
    assert sorted(record.call for record in lab.exchanges(240)) == list(range(1, 241))


def test_begin_is_idempotent(lab: Lab) -> None:
    wanted = lab.new_run()
    lab.control("PUT", "/lanes/0", wanted)
    with dial(lab.address("search")):
        until(lambda: open_connections(lab))
        assert lab.control("PUT", "/lanes/0", wanted).json()["open"] == 1


def test_nothing_open_settles_at_once_and_ends_attempt(lab: Lab) -> None:
    lab.begin()
    assert lab.settle(60) == {"settled": True, "open": 0}
    assert lab.control("GET", "/lanes/0").json()["episode"] is None
    assert lab.settle(60) == {"settled": True, "open": 0}  # and again


def test_attempt_ends_unsettled_at_bound(lab: Lab) -> None:
    lab.begin()
    with dial(lab.address("search")) as client:
        client.sendall(GET[:-2])
        until(lambda: open_connections(lab))
        assert lab.settle(0.05) == {"settled": False, "open": 1}
        assert lab.control("GET", "/lanes/0").json()["episode"] is None
        assert lab.settle(0) == {"settled": False, "open": 1}
    until(lambda: lab.settle(0) == {"settled": True, "open": 0})


def test_model_link_does_not_delay_settling(lab: Lab) -> None:
    lab.begin()
    with dial(lab.address("model")) as idle:
        idle.sendall(GET)
        lab.exchanges()
        assert lab.settle(60) == {"settled": True, "open": 0}


def test_stale_attempt_is_not_ended(lab: Lab) -> None:
    lab.begin()
    assert lab.settle(60, attempt=2) == {"settled": True, "open": 0}
    assert lab.control("GET", "/lanes/0").json()["attempt"] == 1


def test_next_run_ends_open_attempt(lab: Lab) -> None:
    lab.begin()
    first = lab.run_id
    with dial(lab.address("search")) as left:
        left.sendall(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
        until(lambda: open_connections(lab))
        threading.Thread(target=lab.begin).start()
        assert left.recv(1) == b""
        until(lambda: lab.run_id != first and open_connections(lab) == 0)
    lab.run_id, second = first, lab.run_id
    assert lab.exchange().error == "another run took the lane"
    lab.run_id = second
