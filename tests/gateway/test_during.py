"""Faults in a part of their attempt: by calls of the link, by one draw for several links, by episode."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.gateway.lab import Lab
from tests.support import PATIENCE_S, until
from wirefault.state.state import State
from wirefault.state.tables import HeldCall

SETTLE = {"episode": "e1", "attempt": 1, "bound_s": 2}


def statuses(lab: Lab, calls: list[tuple[int, int]], link: str = "search") -> list[int]:
    """What each call and try of the attempt gets there."""
    return [
        requests.get(
            lab.url(link, "/size/1"), headers=lab.identity(call=call, try_=number), timeout=PATIENCE_S
        ).status_code
        for call, number in calls
    ]


def outage(**more: Any) -> dict[str, Any]:
    return {"faults": [{"fault": "unavailable", "links": "search", **more}]}


def test_it_lasts_so_many_calls_of_the_link_whatever_it_matched(lab: Lab) -> None:
    lab.begin(faults=outage(during={"start": "2 calls", "duration": "2 calls"}))
    calls = [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1)]
    assert statuses(lab, calls) == [200, 503, 503, 503, 200]


def test_several_in_a_row(lab: Lab) -> None:
    in_a_row = [{"start": "1 call", "duration": "1 call"}, {"start": "3 calls", "duration": "1 call"}]
    lab.begin(faults=outage(during=in_a_row))
    assert statuses(lab, [(call, 1) for call in range(1, 5)]) == [503, 200, 503, 200]


def test_its_calls_are_counted_anew_in_each_attempt_unlike_those_of_nth(lab: Lab) -> None:
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
def test_one_by_the_clock_stands_from_its_start_on(lab: Lab, start: str, expected: int) -> None:
    lab.begin(faults=outage(during={"start": start}))
    assert statuses(lab, [(1, 1)]) == [expected]


def struck(lab: Lab, seed: int, *, together: bool) -> tuple[bool, ...]:
    """Which tries meet a fault on two links that strikes with a chance of a half."""
    drawn = outage(links=["search", "weather"], when={"probability": 0.5}, together=together)
    lab.begin(faults=drawn, seed=seed)
    tries = [(1, 1), (1, 2), (2, 1)]
    return tuple(status == 503 for link in ("search", "weather") for status in statuses(lab, tries, link))


def test_together_one_draw_of_the_attempt_strikes_all_its_links_and_tries(lab: Lab) -> None:
    assert {struck(lab, seed, together=True) for seed in range(12)} == {(True,) * 6, (False,) * 6}
    assert len({struck(lab, seed, together=False) for seed in range(12)}) > 2


@pytest.mark.parametrize(("episodes", "expected"), [("e1", 503), (["e2", "e*"], 503), ("e2", 200)])
def test_it_strikes_only_in_the_episodes_that_it_names(
    lab: Lab, episodes: str | list[str], expected: int
) -> None:
    lab.begin(faults=outage(only={"episodes": episodes}))
    assert statuses(lab, [(1, 1)]) == [expected]


def told(lab: Lab) -> list[HeldCall]:
    """What the manager would read in ``state.db``."""
    with State(lab.folder / "state.db") as state:
        return state.held_calls.of(lab.run_id, "e1", 1)


def expect(lab: Lab, calls: list[int]) -> None:
    body = {"episode": "e1", "attempt": 1, "changes": {"search": calls}}
    assert lab.control("PUT", "/lanes/0/calls", body).status_code == 200


def release(lab: Lab, call: int) -> None:
    body = {"episode": "e1", "attempt": 1, "link": "search", "call": call}
    assert lab.control("POST", "/lanes/0/calls", body).status_code == 200


def test_a_call_waits_until_the_toxics_are_as_it_is_to_meet_them(lab: Lab) -> None:
    lab.begin()
    expect(lab, [2])
    assert statuses(lab, [(1, 1)]) == [200] and told(lab) == []
    with ThreadPoolExecutor() as threads:
        second = threads.submit(statuses, lab, [(2, 1)])
        assert until(lambda: told(lab)) == [HeldCall(lab.run_id, "e1", 1, "search", 2)]
        third = threads.submit(statuses, lab, [(3, 1)])
        assert statuses(lab, [(1, 2)]) == [200]  # a further try of an earlier call need not wait
        assert not second.done() and not third.done()
        release(lab, 2)
        assert second.result() == third.result() == [200]
    assert len(told(lab)) == 1
    assert statuses(lab, [(2, 2), (4, 1)]) == [200, 200]


def test_the_end_of_the_attempt_lets_a_held_call_go_on(lab: Lab) -> None:
    lab.begin()
    expect(lab, [1])
    with ThreadPoolExecutor() as threads:
        held = threads.submit(statuses, lab, [(1, 1)])
        until(lambda: told(lab))
        assert lab.settle()["settled"] is True
        assert held.result() == [200]


def test_a_call_that_the_manager_cannot_be_told_of_goes_on_and_the_lane_is_unfit(lab: Lab) -> None:
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


def test_changes_of_another_attempt_are_refused(lab: Lab) -> None:
    lab.begin()
    for method, path, more in (
        ("PUT", "calls", {"changes": {}}),
        ("POST", "calls", {"link": "search", "call": 1}),
        ("PUT", "turn", {"turn": 2}),
    ):
        refused = lab.control(method, f"/lanes/0/{path}", {"episode": "e2", "attempt": 1, **more})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "other_attempt")
