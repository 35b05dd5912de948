"""Number of executions of the same write in an attempt."""

import pytest

from tests.judging.findings.traced import request
from tests.judging.oracle.histories import (
    ASK_BOB,
    episode,
    exchange,
    fault_met,
    judge_episode,
    message_sent,
    run_started,
    world,
)
from tests.support import replace
from wirefault.judging.trace import episode_trace
from wirefault.judging.writes import write_counts, writes_in
from wirefault.wiring.links import PYTHON, Link

LOST = {"status": None, "upstream_status": 201, "complete": (True, False)}


def write(start, **more):
    known = {"method": "POST", "target": "/orders", "write": True, "status": 201, "dialect": "http"}
    return exchange("shop", **known | {"start": start, "forwarded": True} | more)


def counts(*events):
    """For each write how often it was executed, and how often it may have been, too."""
    return [(count.executed, count.maybe) for count in write_counts(episode_trace(episode(*events)))]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, [(2, 0)]),
        (LOST, {}, [(2, 0)]),
        ({"client_left": True}, {}, [(2, 0)]),
        ({"status": 503, "upstream_status": 201}, {}, [(2, 0)]),
        (LOST, {"fingerprint": "f2"}, [(1, 0), (1, 0)]),
        (LOST, {"status": 409}, [(1, 0)]),
        (LOST, {"status": 500}, [(1, 1)]),
        (LOST, {"forwarded": False}, [(1, 0)]),
        (LOST | {"upstream_status": 503}, {}, [(1, 1)]),
        (LOST | {"upstream_status": None}, {}, [(1, 1)]),
        (LOST | {"key": "k"}, {"key": "k"}, [(1, 0)]),
        (LOST | {"key": "a"}, {"key": "b"}, [(2, 0)]),
        ({}, {"attempt": 2}, [(1, 0)]),
        (LOST | {"method": "PUT"}, {"method": "PUT"}, []),
        (LOST | {"method": "DELETE"}, {"method": "DELETE"}, []),
    ],
)
def test_executions_of_one_write(first, second, expected):
    assert counts(write(103.0, **first), write(104.0, **second)) == expected


def test_each_delivery_counts_without_key():
    copies = fault_met("duplicate_request", evidence={"copies": 2, "statuses": [201, 201]})
    assert counts(write(103.0, fault=copies)) == [(2, 0)]
    assert counts(write(103.0, fault=copies, key="k")) == [(1, 0)]
    [count] = write_counts(episode_trace(episode(write(103.0, fault=copies), write(104.0))))
    assert (count.executed, count.copies) == (3, 1)


def test_repetition_alone_is_not_duplicate():
    twice = [write(103.0, **LOST), write(104.0)]
    assert judge_episode(episode(*twice)).outcome == "unjudged"
    assert judge_episode(episode(*twice, world(message_sent()), expect=ASK_BOB)).world == "as_asked"


FUNCTIONS = Link("functions", PYTHON, found=True)
LISTED = Link("functions", PYTHON, writes=("notify",), writes_declared=True)
MARKED = {"write": True}


@pytest.mark.parametrize(
    ("link", "call", "inside", "names"),
    [
        (FUNCTIONS, {"target": "/notify"}, None, ["notify"]),
        (FUNCTIONS, {"target": "/get_price"}, None, []),
        (FUNCTIONS, {"target": "/get_ticket", **MARKED}, None, ["get_ticket"]),
        (FUNCTIONS, {"target": "/stock", "method": "QUERY"}, None, []),
        (FUNCTIONS, {"target": "/notify"}, "POST", ["POST /orders"]),
        (FUNCTIONS, {"target": "/notify"}, "GET", []),
        (FUNCTIONS, {"target": "/notify", **MARKED}, "GET", ["notify"]),
        (FUNCTIONS, {"target": "/notify", **MARKED}, "POST", ["POST /orders"]),
        (LISTED, {"target": "/stock"}, None, []),
        (LISTED, {"target": "/notify", **MARKED}, None, ["notify"]),
    ],
)
def test_function_is_a_write_unless_it_reads_or_its_requests_count(link, call, inside, names):
    shop = Link("shop", "http://127.0.0.1:9000", found=True)
    of_function = request(0.0, link="functions", seconds=0.5, **call)
    within = [request(0.1, method=inside)] if inside else []
    started = replace(run_started(1), links=[link, shop])
    assert [write.name for write in writes_in(episode_trace([started, of_function, *within]))] == names
