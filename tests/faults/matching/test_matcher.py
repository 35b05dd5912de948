"""Matching of faults and tries: counts, draws, independence of arrival order."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from msgspec import structs

from tests.faults.planned_errors import plan_error
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.mcp import MCP
from wirefault.faults.catalogue.http.errors import HttpError
from wirefault.faults.matching.matcher import KEPT_REPLIES, FaultMatcher, IncomingTry
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.conditions import When
from wirefault.faults.sets.fault_set import Entry, build_set
from wirefault.wiring.links import PYTHON, Link, Links, lab_links


def matcher(*entries, seed=1):
    faults = [{"fault": "truncate", **entry} for entry in entries]
    return FaultMatcher(seed, build_set({"faults": faults}, "f", REGISTRY, lab_links()).faults)


def arrive(
    call=1,
    try_=1,
    *,
    link="weather",
    fingerprint="f",
    episode="e1",
    attempt=1,
    method="GET",
    path="/",
    **more,
):
    request = Request(method=method, target=path)
    return IncomingTry(
        link,
        request.method,
        request.path,
        lambda: request,
        fingerprint,
        episode,
        attempt,
        call,
        try_,
        0.0,
        link == "model",
        **more,
    )


def met_ids(made: FaultMatcher, arrival: IncomingTry) -> list[str]:
    return [entry.id for entry, _ in made.match(arrival).met]


def test_entries_are_tried_in_order_per_link():
    made = matcher({"links": "weather", "id": "b"}, {"id": "a"}, {"links": "model", "id": "c"})
    assert met_ids(made, arrive()) == ["b", "a"]
    assert met_ids(made, arrive(link="search")) == ["a"]
    assert [made.armed(link) for link in ("weather", "model")] == [True, True]
    assert not matcher({"links": "model"}).armed("weather")


def test_tries_share_number_of_call():
    made = matcher({"when": {"nth": 2}})
    arrivals = [arrive(1), arrive(1, 2), arrive(2), arrive(2, 2), arrive(3)]
    assert [bool(met_ids(made, one)) for one in arrivals] == [False, False, True, True, False]


def test_different_calls_share_count_of_link():
    made = matcher({"when": {"nth": 2}})
    assert [met_ids(made, arrive(fingerprint=name)) for name in "ab"] == [[], ["truncate"]]


def test_tries_are_counted_on_request():
    made = matcher({"when": {"nth": 2, "of": "try"}})
    assert [bool(met_ids(made, arrive(1, number))) for number in (1, 2, 3)] == [False, True, False]


def test_episodes_and_ineligible_calls_count_separately():
    made = matcher({"when": {"nth": 1}, "only": {"method": "POST"}})
    assert met_ids(made, arrive(method="GET")) == []
    for other in ({}, {"episode": "e2"}):
        assert met_ids(made, arrive(method="POST", **other)) == ["truncate"]
    assert met_ids(made, arrive(2, method="POST")) == []


@pytest.mark.parametrize("when", [{"nth": 1}, {"first": 1}, {"at_most": 1}])
def test_links_of_entry_share_count(when):
    made = matcher({"links": ["search", "weather"], "when": when})
    assert met_ids(made, arrive(link="search")) == ["truncate"]
    assert met_ids(made, arrive(link="weather")) == []
    assert met_ids(made, arrive(link="search", episode="e2")) == ["truncate"]


def test_entries_on_other_links_count_separately():
    entries = [{"id": link, "links": link, "when": {"first": 1}} for link in ("search", "weather")]
    made = matcher(*entries)
    assert met_ids(made, arrive(link="search")) == ["search"]
    assert met_ids(made, arrive(link="weather")) == ["weather"]


def test_late_link_shares_count():
    one = Entry(HttpError(chance=1.0), ("search",), When(first=1), id="e")
    made = FaultMatcher(7, [one])
    made.add_link("found", [replace(one, links=("search", "found"))])
    assert met_ids(made, arrive(link="found")) == ["e"]
    assert met_ids(made, arrive(link="search")) == []


def test_tool_on_functions_named_before_they_are_found():
    entry = {"fault": "lose_reply", "links": "functions", "only": {"tool": "send_email"}}
    faults = build_set({"faults": [entry]}, "f", REGISTRY, Links([], grows=True))
    made = FaultMatcher(7, faults.on(Links([], grows=True)).faults)
    made.add_link("functions", faults.on(Links([Link("functions", PYTHON, found=True)], grows=True)).faults)
    calls = [arrive(link="functions", method="POST", path=path) for path in ("/get_price", "/send_email")]
    assert [met_ids(made, call) for call in calls] == [[], ["lose_reply"]]


def test_counting_starts_with_selected_turn():
    made = matcher({"links": "search", "when": {"turn": 2, "first": 1}})
    tries = [arrive(1, link="search"), arrive(2, link="search", turn=2), arrive(3, link="search", turn=2)]
    assert [met_ids(made, one) for one in tries] == [[], ["truncate"], []]


@pytest.mark.parametrize("nth", [1, 2])
def test_unknown_session_faults_only_existing_sessions(nth):
    entry = {"fault": "unknown_session", "links": "mcp", "when": {"nth": nth, "persistent": True}}
    wired = Links([Link("mcp", "http://127.0.0.1:9/mcp", MCP.name)])
    made = FaultMatcher(1, build_set({"faults": [entry]}, "f", REGISTRY, wired).faults)

    def call(number, session):
        request = Request(method="POST", target="/mcp", headers=(("Mcp-Session-Id", session),))
        more = {"message": "tools/call", "read": lambda: request}
        return bool(met_ids(made, structs.replace(arrive(number, link="mcp", method="POST"), **more)))

    passed = [call(number, "s1") for number in range(1, nth)]
    assert passed == [False] * (nth - 1)
    assert call(nth, "s1")
    assert not call(nth + 1, "s2")  # a client that starts a new session
    assert call(nth + 2, "s1")  # one that keeps the lost session
    assert not call(nth + 3, "s2")


@pytest.mark.parametrize("links", ["all", "tools", "functions"])
@pytest.mark.parametrize(
    ("pattern", "tool", "chosen"),
    [
        ("search", "search", True),
        ("search", "order", False),
        ("se*", "search", True),
        ("se*", "order", False),
    ],
)
@pytest.mark.parametrize("is_found", [True, False])
def test_tool_is_selected_in_functions_and_mcp(links, pattern, tool, chosen, is_found):
    entry = {"fault": "truncate", "links": links, "only": {"tool": pattern}, "when": {"nth": 1}}
    wired = Links([Link("mcp", "http://127.0.0.1:9/mcp", MCP.name)], grows=is_found)
    functions = Link("functions", PYTHON, found=is_found)
    declared = wired if is_found else wired.adding([functions])
    faults = build_set({"faults": [entry]}, "f", REGISTRY, declared).on(wired.adding([functions]))
    made = FaultMatcher(1, faults.faults)
    result = made.match(arrive(link="functions", method="QUERY", path=f"/{tool}"))
    assert bool(result.met) == chosen
    assert result.eligible == (["truncate"] if chosen else ())  # the history has another method
    if links != "functions":
        body = json.dumps({"method": "tools/call", "params": {"name": tool}}).encode()
        request = Request(method="POST", target="/mcp", body=body)
        more = {"message": "tools/call", "read": lambda: request}
        result = made.match(structs.replace(arrive(link="mcp", method="POST"), **more))
        assert result.eligible == (["truncate"] if chosen else ())
        assert not result.met  # the function's call was the first


def test_restarted_server_accepts_new_sessions():
    death = {"fault": "server_death", "links": "mcp", "with": {"down": 1}}
    wired = Links([Link("mcp", "http://127.0.0.1:9/mcp", MCP.name)])
    made = FaultMatcher(1, build_set({"faults": [death]}, "f", REGISTRY, wired).faults)
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add"}}'

    def acts(number, session):
        request = Request(method="POST", target="/mcp", headers=(("Mcp-Session-Id", session),), body=body)
        more = {"message": "tools/call", "read": lambda: request}
        [(entry, tried)] = made.match(structs.replace(arrive(number, link="mcp", method="POST"), **more)).met
        return entry.fault.act(tried) is not None

    assert acts(1, "s1")  # it dies
    assert acts(2, "s2")  # it is down
    assert not acts(3, "s2") and not acts(4, "s3")
    assert acts(5, "s1")  # a client that keeps the lost session


def test_client_retry_is_try_of_same_call():
    made = matcher({"links": "search", "when": {"nth": 1}})
    assert met_ids(made, arrive(1, link="search")) and met_ids(made, arrive(2, link="search", counted_call=1))
    assert not met_ids(made, arrive(3, link="search", counted_call=2))


def timed(seconds: float, **more) -> IncomingTry:
    return arrive(call=round(seconds * 10) + 1, attempt_s=seconds, **more)


def met_times(made: FaultMatcher, times: Iterable[float], **more) -> list[float]:
    return [seconds for seconds in times if met_ids(made, timed(seconds, **more))]


def test_outage_from_first_met_restarts_clock_per_attempt():
    made = matcher({"during": {"start": "first_met", "duration": "2s"}})
    assert met_times(made, [5, 6.9, 7, 8]) == [5, 6.9]
    assert met_times(made, [9, 10, 11.5], attempt=2) == [9, 10]


def test_outage_from_first_met_waits_for_other_triggers():
    made = matcher({"when": {"after": 1}, "during": {"start": "first_met", "duration": "2s"}})
    assert met_times(made, [1, 5, 6, 7.5]) == [5, 6]


def test_outage_from_first_met_has_one_clock_for_all_links():
    made = matcher({"links": ["weather", "search"], "during": {"start": "first_met", "duration": "2s"}})
    assert met_times(made, [1]) == [1]
    assert met_times(made, [2, 4], link="search") == [2]


def test_drawn_outage_starts_with_its_first_draw():
    made = matcher({"when": {"probability": 0.2}, "during": {"start": "first_met", "duration": "2s"}})
    drawn = matcher({"when": {"probability": 0.2}})
    times = [number / 10 for number in range(100)]
    expected = met_times(drawn, times)
    assert met_times(made, times) == [t for t in expected if t - expected[0] < 2]


def test_rising_outage_starts_with_first_call():
    made = matcher({"during": {"start": "first_met", "ramp": "1s"}})
    assert met_times(made, [5, 6, 7]) == [6, 7]


def test_fault_after_a_write_counts_from_there():
    made = matcher({"when": {"after": {"write": "executed"}, "nth": 2}})
    arrivals = [arrive(1), arrive(2), arrive(3, after_write=True), arrive(4, after_write=True)]
    assert [bool(met_ids(made, arrival)) for arrival in arrivals] == [False, False, False, True]


def test_next_attempt_continues_counting():
    made = matcher({"when": {"first": 1}})
    assert met_ids(made, arrive()) and not met_ids(made, arrive(attempt=2))


def test_turns_are_model_requests_of_attempt():
    made = matcher({"links": "weather", "when": {"turns": 2}})
    seen = []
    for turn in (1, 2, 3):
        made.match(arrive(turn, link="model", fingerprint=""))
        seen.append(bool(met_ids(made, arrive(turn))))
    assert seen == [False, True, False]
    assert not met_ids(made, arrive(attempt=2))


def test_entries_are_met_independently_by_probability():
    made = matcher({"when": {"probability": 0.3}, "id": "a"}, {"when": {"probability": 0.3}, "id": "b"})
    hits = [met_ids(made, arrive(number)) for number in range(1, 10_001)]
    both = sum(len(one) == 2 for one in hits)
    for name in "ab":  # 99 % of a binomial with n = 10,000 and p = 0.3: 3,000 +- 118
        assert abs(sum(name in one for one in hits) - 3000) <= 118
    assert abs(both - 900) <= 74


def test_order_of_tries_does_not_change_faults():
    arrivals = [
        arrive(call, try_, fingerprint=name) for call in range(20) for try_ in (1, 2) for name in "xy"
    ]
    shuffled = random.Random(1).sample(arrivals, len(arrivals))
    first, second = matcher({"when": {"probability": 0.3}}), matcher({"when": {"probability": 0.3}})
    hits = [{a for a in order if met_ids(one, a)} for one, order in ((first, arrivals), (second, shuffled))]
    assert hits[0] == hits[1] and 0 < len(hits[0]) < len(arrivals)


@pytest.mark.parametrize("call", range(1, 40))
def test_error_prob_follows_schedule(call):
    made = FaultMatcher(7, [Entry(HttpError(chance=0.4), ("weather",))])
    act = next((entry.fault.act(this) for entry, this in made.match(arrive(call)).met), None)
    planned = plan_error(7, 0.4, "e1", 1, "weather", "f", call, 1)
    assert (act and act.evidence["kind"]) == (planned and planned.kind)


def test_earlier_replies_are_per_episode_and_link():
    made = matcher({})
    for number in range(KEPT_REPLIES + 2):
        made.remember("e1", "weather", Reply(body=b"%d" % number))
    assert [one.body for one in made._replies["e1", "weather"]] == [b"%d" % n for n in range(2, 10)]
    assert not made._replies["e2", "weather"]


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=REGISTRY)
def test_order_dependence_is_reported(kind):
    source = inspect.getsource(kind)
    assert ".ordinal" not in source or "def by_order" in source
    assert ".earlier" not in source or kind.remembers
