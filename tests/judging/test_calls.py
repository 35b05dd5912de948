"""What a subject called and what it did about faults, from the events of its run."""

from __future__ import annotations

from dataclasses import replace

from wirefault.history.events import AttemptArmed, Exchange, FaultMet, RunStarted
from wirefault.judging.usage import calls_by_link
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

SHOP = Link("shop", "https://shop.example.com", found=True)
STARTED = RunStarted(0.0, "r", "lab-1", 0, 7, {}, "command", 1, links=[SHOP.dump()])
ASKED = Exchange(
    1.0, "e", 1, "shop", "POST", "/orders", "f1", 1, 1, "counted", 5.0, 200, True, True, True, 10, 10
)
STRUCK = replace(ASKED, status=503, faults=[FaultMet("u", "unavailable", True)])


def test_a_struck_request_that_is_sent_again_and_answered_got_through():
    (row,) = calls_by_link([STARTED, STRUCK, replace(ASKED, start=2.0)])
    assert (row.requests, dict(row.faults)) == (2, {"unavailable": 1})
    assert (row.retried, row.recovered, row.abandoned) == (1, 1, 0)


def test_one_that_is_answered_by_another_request_is_left():
    (row,) = calls_by_link([STARTED, STRUCK, replace(ASKED, start=2.0, fingerprint="f2")])
    assert (row.retried, row.recovered, row.abandoned) == (0, 0, 1)


def test_one_that_is_struck_every_time_does_not_get_through():
    (row,) = calls_by_link([STARTED, STRUCK, replace(STRUCK, start=2.0)])
    assert (row.retried, row.recovered, row.abandoned) == (1, 0, 1)


def test_a_fault_that_changed_nothing_struck_nothing():
    met = FaultMet("u", "unavailable", False, "cut_short")
    (row,) = calls_by_link([STARTED, replace(ASKED, faults=[met])])
    assert not row.faults and not row.failed


def test_a_link_with_a_toxic_is_told_though_nothing_came_through():
    armed = AttemptArmed(0.5, "e", 1, 3.0, [PlannedToxic("shop", "timeout", "upstream", {"timeout": 400})])
    (row,) = calls_by_link([STARTED, armed])
    assert (row.requests, dict(row.toxics)) == (0, {"timeout": 1})


def test_a_request_that_was_only_delayed_needs_no_other():
    delayed = replace(ASKED, faults=[FaultMet("d", "delay", True)])
    (row,) = calls_by_link([STARTED, delayed])
    assert dict(row.faults) == {"delay": 1} and not row.failed


def test_a_server_that_never_answered_is_told_of():
    (row,) = calls_by_link([STARTED])
    assert (row.link, row.requests) == ("shop", 0)
