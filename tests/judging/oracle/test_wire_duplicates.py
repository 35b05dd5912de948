"""Duplicates that the wire alone proves."""

import pytest

from tests.judging.oracle.histories import (
    ASK_BOB,
    armed,
    episode,
    exchange,
    fault_met,
    latency,
    message_sent,
    timeout,
    world,
)
from wirefault.judging.judge import judge_episode
from wirefault.toxiproxy.planned import PlannedToxic

LOST = {"status": None, "upstream_status": 201, "complete": (True, False)}


def write(start, **more):
    known = {"method": "POST", "target": "/orders", "write": True, "forwarded": True, "status": 201}
    return exchange("shop", **known | {"start": start} | more)


def world_of(*events):
    return judge_episode(episode(*events)).world


@pytest.mark.parametrize(
    "lost",
    [LOST, {"client_left": True}, {"status": 503, "upstream_status": 201}],
)
def test_repeated_write_after_lost_reply_is_duplicate(lost):
    verdict = judge_episode(episode(write(103.0, **lost), write(104.0)))
    assert (verdict.world, verdict.outcome) == ("duplicated", "duplicate")
    assert (
        verdict.why
        == "POST /orders of shop executed again after the reply to the first did not reach the caller"
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        (LOST, {"fingerprint": "f2"}),
        (LOST, {"status": 409}),
        (LOST, {"status": 500}),
        (LOST, {"forwarded": False}),
        (LOST | {"upstream_status": 503}, {}),
        (LOST | {"upstream_status": None}, {}),
        (LOST | {"key": "k"}, {"key": "k"}),
        (LOST | {"method": "PUT"}, {"method": "PUT"}),
        (LOST | {"method": "DELETE"}, {"method": "DELETE"}),
        (LOST | {"write": False}, {"write": False}),
    ],
)
def test_unproven_repetitions(first, second):
    assert world_of(write(103.0, **first), write(104.0, **second)) == "not_applicable"


def test_other_key_is_no_excuse():
    assert world_of(write(103.0, key="a", **LOST), write(104.0, key="b")) == "duplicated"


@pytest.mark.parametrize(
    ("toxic", "axis"),
    [
        (timeout("shop"), "duplicated"),
        (timeout("shop", stream="upstream"), "not_applicable"),
        (timeout("search"), "not_applicable"),
        (latency("shop"), "not_applicable"),
        (PlannedToxic("shop", "limit_data", "downstream", {"bytes": 10}), "duplicated"),
        (PlannedToxic("shop", "limit_data", "downstream", {"bytes": 1000}), "not_applicable"),
        (PlannedToxic("shop", "timeout", "downstream", {"timeout": 0}, seconds=1.0), "not_applicable"),
    ],
)
def test_toxic_that_swallows_replies_proves_duplicate(toxic, axis):
    assert world_of(armed(toxic), write(103.0), write(104.0)) == axis


def test_double_delivery_is_duplicate_without_key():
    copies = fault_met("duplicate_request", evidence={"copies": 2, "statuses": [201, 201]})
    assert world_of(write(103.0, fault=copies)) == "duplicated"
    assert world_of(write(103.0, fault=copies, key="k")) == "not_applicable"


def test_known_lab_world_decides():
    twice = [write(103.0, **LOST), write(104.0)]
    assert judge_episode(episode(*twice, world(message_sent()), expect=ASK_BOB)).world == "as_asked"
