"""Links that were found while a run went on complete what it began with."""

from __future__ import annotations

from dataclasses import replace

from wirefault.history.events import AttemptArmed, Exchange, LinkOpened, RunStarted
from wirefault.history.found_links import with_found_links
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import found_link

SHOP = found_link("shop.example.com", 443, "https", ())
TOXIC = PlannedToxic("shop_example_com", "latency", "upstream", {"latency": 300})
YES = (True, True, True)
EVENTS = [
    RunStarted(0.0, "r", "lab-1", 0, 7, {}, "command", 2, links=[]),
    AttemptArmed(1.0, "a", 1, 3.0, []),
    AttemptArmed(3.0, "b", 1, 3.0, []),
    LinkOpened(2.0, "a", 1, SHOP.dump(), [TOXIC]),
]


def test_the_run_has_the_link_and_the_attempt_its_toxics():
    started, first, second, _ = with_found_links(EVENTS)
    assert started.wired.names == ("shop_example_com",)
    assert (first.toxics, second.toxics) == ([TOXIC], [])


def test_a_request_of_mcp_tells_what_the_link_speaks():
    asked = Exchange(2.5, "a", 1, SHOP.name, "POST", "/mcp", "f", 1, 1, "counted", 1.0, 200, *YES, 9, 9)
    late = replace(asked, dialect="mcp")
    started, *_ = with_found_links([*with_found_links([*EVENTS, asked]), late])
    assert [link.dialect for link in started.wired] == ["mcp"]


def test_done_twice_it_changes_nothing_more():
    once = with_found_links(EVENTS)
    assert with_found_links(once) == once


def test_a_run_that_found_none_stays_as_it_is():
    assert with_found_links(EVENTS[:3]) == EVENTS[:3]
