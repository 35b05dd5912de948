"""Faults in a part of their attempt: by calls of the link, by one draw for several links, by episode."""

from __future__ import annotations

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.gateway.lab import Lab, ask, dial
from tests.support import PATIENCE_S, until
from wirefault.history.events import ConnectionUnanswered
from wirefault.state.state import State
from wirefault.state.tables import HeldCall

SETTLE = {"episode": "e1", "attempt": 1, "bound_s": 2}


def statuses(lab: Lab, calls: list[tuple[int, int]], link: str = "search") -> list[int]:
    """The status of each call and try of the attempt on that link."""
    return [
        requests.get(
            lab.url(link, "/size/1"), headers=lab.identity(link, call=call, try_=number), timeout=PATIENCE_S
        ).status_code
        for call, number in calls
    ]


def outage(**more: Any) -> dict[str, Any]:
    return {"faults": [{"fault": "unavailable", "links": "search", **more}]}


def test_duration_counts_all_calls_of_link(lab: Lab) -> None:
    lab.begin(faults=outage(during={"start": "2 calls", "duration": "2 calls"}))
    calls = [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1)]
    assert statuses(lab, calls) == [200, 503, 503, 503, 200]


def test_consecutive_outages(lab: Lab) -> None:
    in_a_row = [{"start": "1 call", "duration": "1 call"}, {"start": "3 calls", "duration": "1 call"}]
    lab.begin(faults=outage(during=in_a_row))
    assert statuses(lab, [(call, 1) for call in range(1, 5)]) == [503, 200, 503, 200]


def test_call_count_restarts_in_each_attempt_unlike_nth(lab: Lab) -> None:
    lab.begin(faults=outage(during={"duration": "1 call"}))
    assert statuses(lab, [(1, 1), (2, 1)]) == [503, 200]
    begin = {
        "run_id": lab.run_id,
        "episode": "e1",
        "attempt": 2,
        "settings_hash": lab.settings.hash,
    }
    assert lab.control("PUT", "/lanes/0", begin).status_code == 200
    headers = lab.identity(attempt=2)
    got = requests.get(lab.url("search", "/size/1"), headers=headers, timeout=PATIENCE_S)
    assert got.status_code == 503


@pytest.mark.parametrize(("start", "expected"), [("0s", 503), ("3600s", 200)])
def test_clock_trigger_starts_on_time(lab: Lab, start: str, expected: int) -> None:
    lab.begin(faults=outage(during={"start": start}))
    assert statuses(lab, [(1, 1)]) == [expected]


def faulted(lab: Lab, seed: int, *, together: bool) -> tuple[bool, ...]:
    """Whether each try on two links meets a fault of probability 0.5."""
    drawn = outage(links=["search", "weather"], when={"probability": 0.5}, together=together)
    lab.begin(faults=drawn, seed=seed)
    tries = [(1, 1), (1, 2), (2, 1)]
    return tuple(status == 503 for link in ("search", "weather") for status in statuses(lab, tries, link))


def test_joint_draw_faults_all_links_and_tries_of_attempt(lab: Lab) -> None:
    assert {faulted(lab, seed, together=True) for seed in range(12)} == {(True,) * 6, (False,) * 6}
    assert len({faulted(lab, seed, together=False) for seed in range(12)}) > 2


@pytest.mark.parametrize(("episodes", "expected"), [("e1", 503), (["e2", "e*"], 503), ("e2", 200)])
def test_fault_acts_only_in_named_episodes(lab: Lab, episodes: str | list[str], expected: int) -> None:
    lab.begin(faults=outage(only={"episodes": episodes}))
    assert statuses(lab, [(1, 1)]) == [expected]


def held_calls(lab: Lab) -> list[HeldCall]:
    """The waiting calls that the manager would read in ``state.db``."""
    with State(lab.folder / "state.db") as state:
        return state.held_calls.of(lab.run_id, "e1", 1)


def expect(lab: Lab, calls: list[int]) -> None:
    body = {"episode": "e1", "attempt": 1, "changes": {"search": calls}}
    assert lab.control("PUT", "/lanes/0/calls", body).status_code == 200


def release(lab: Lab, call: int) -> None:
    body = {"episode": "e1", "attempt": 1, "link": "search", "call": call}
    assert lab.control("POST", "/lanes/0/calls", body).status_code == 200


def test_call_waits_for_its_toxics(lab: Lab) -> None:
    lab.begin()
    expect(lab, [2])
    assert statuses(lab, [(1, 1)]) == [200] and held_calls(lab) == []
    with ThreadPoolExecutor() as threads:
        second = threads.submit(statuses, lab, [(2, 1)])
        assert until(lambda: held_calls(lab)) == [HeldCall(lab.run_id, "e1", 1, "search", 2)]
        third = threads.submit(statuses, lab, [(3, 1)])
        assert statuses(lab, [(1, 2)]) == [200]  # a further try of an earlier call need not wait
        assert not second.done() and not third.done()
        release(lab, 2)
        assert second.result() == third.result() == [200]
    assert len(held_calls(lab)) == 1
    assert statuses(lab, [(2, 2), (4, 1)]) == [200, 200]


def test_end_of_attempt_releases_held_call(lab: Lab) -> None:
    lab.begin()
    expect(lab, [1])
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(statuses, lab, [(1, 1)])
        until(lambda: held_calls(lab))
        assert lab.settle()["settled"] is True
        assert waiting.result() == [200]


def test_unreported_call_is_released_and_lane_unready(lab: Lab) -> None:
    lab.begin()
    expect(lab, [1])
    database, aside = lab.folder / "state.db", lab.folder / "state.db.aside"
    database.rename(aside)
    try:
        database.write_bytes(b"no database")
        assert statuses(lab, [(1, 1)]) == [200]
    finally:
        aside.replace(database)
    assert "the manager cannot learn of a held call" in lab.control("POST", "/lanes/0/settle", SETTLE).text


def test_changes_of_other_attempt_are_refused(lab: Lab) -> None:
    lab.begin()
    for method, path, more in (
        ("PUT", "calls", {"changes": {}}),
        ("POST", "calls", {"link": "search", "call": 1}),
        ("PUT", "turn", {"turn": 2}),
    ):
        refused = lab.control(method, f"/lanes/0/{path}", {"episode": "e2", "attempt": 1, **more})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "other_attempt")


def status_of(lab: Lab, link: str, call: int) -> int:
    headers = lab.identity(link, call=call)
    return requests.get(lab.url(link, "/size/1"), headers=headers, timeout=PATIENCE_S).status_code


def test_tool_fault_acts_in_selected_turn(lab: Lab) -> None:
    late = {"fault": "unavailable", "links": "search", "when": {"model_requests": "2-"}}
    lab.begin(faults={"faults": [late]})
    statuses = []
    for turn in (1, 2, 3):
        status_of(lab, "model", turn)
        statuses.append(status_of(lab, "search", turn))
    assert statuses == [200, 503, 503]
    assert [record.call for record in lab.exchanges(6) if record.link == "model"] == [
        1,
        2,
        3,
    ]


def test_turns_follow_manager(lab: Lab) -> None:
    second = {"fault": "unavailable", "links": "search", "when": {"turn": 2}}
    lab.begin(faults={"faults": [second]})
    statuses = [status_of(lab, "search", 1)]
    for turn in (2, 3):
        body = {"episode": "e1", "attempt": 1, "turn": turn}
        assert lab.control("PUT", "/lanes/0/turn", body).status_code == 200
        statuses.append(status_of(lab, "search", turn))
    assert statuses == [200, 503, 200]


def test_connection_under_toxic_is_recorded_if_it_ends_before_its_reply(lab: Lab) -> None:
    """It shows whether the toxic ended it: after so many bytes, or by a reset."""
    toxic = {"toxic": "limit_data", "links": ["search"], "stream": "upstream", "with": {"bytes": 20}}
    lab.begin(faults={"toxics": [toxic]}, toxic_prob=0)
    ask(lab.address("search"), b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    for link, data, is_reset in (
        ("search", b"", True),
        ("search", b"POST /ech", False),
        ("search", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", False),
        ("movie", b"POST /ech", False),
    ):
        with dial(lab.address(link)) as client:
            client.sendall(data)
            if is_reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert lab.settle()["settled"]
    records = [event for event in lab.recorded() if isinstance(event, ConnectionUnanswered)]
    ends = [(one.episode, one.attempt, one.link, one.received, one.how) for one in records]
    expected = [(0, "rst"), (9, "fin"), (39, "fin")]
    assert sorted(ends) == [("e1", 1, "search", received, how) for received, how in expected]
