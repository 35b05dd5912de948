"""The printed rates of a set equal those of the matcher and the plan over many tries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from tests.dialects.forms import TEXT, ZURICH, Form
from tests.faults.tries import WEATHER
from tests.support import examples
from wirefault.dialects.http import JSON_TYPE, Reply, Request, json_reply
from wirefault.faults.base import Changed, Fault
from wirefault.faults.matching.matcher import FaultMatcher, IncomingTry
from wirefault.faults.plan import MetFault, plan_try
from wirefault.faults.rates import conditions_of, marginals
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import Entry, FaultSet, build_set
from wirefault.faults.sets.presets import find_set, preset_names
from wirefault.wiring.links import Link, lab_links

TRIES = examples(3000)
CHAT = Form("openai_chat", stream=False)
POST = Request(JSON_TYPE, b'{"to": "Bob", "text": "hi"}', "POST", "/message")
EXCHANGES = {
    "weather": (WEATHER, json_reply(200, {"city": "Zurich", "temperature_c": 8.4, "date": "2026-11-22"})),
    "message": (POST, json_reply(201, {"id": 7, "to": "Bob", "text": "hi"})),
    "model": (CHAT.request(ZURICH), CHAT.reply(TEXT)),
}


def a_set(*faults: dict[str, Any]) -> FaultSet:
    return build_set({"faults": list(faults)}, "test", REGISTRY, lab_links())


def entry(fault: str, probability: float, **more: Any) -> dict[str, Any]:
    when = {"probability": probability, **more.pop("when", {})}
    return {"fault": fault, "links": "search", "when": when, **more}


def rates(faults: FaultSet) -> dict[str, tuple[float, float]]:
    return {
        marginal.id: (pytest.approx(marginal.low), pytest.approx(marginal.high))
        for marginal in marginals(faults)
    }


def acting(faults: Iterable[Entry], link: str, tries: int, *, one_episode: bool = False) -> Counter[str]:
    """On how many tries each entry acts, by the gateway's own matcher and plan."""
    request, reply = EXCHANGES[link]
    matcher, counts = FaultMatcher(1, faults), Counter[str]()
    for number in range(tries):
        episode = "e" if one_episode else f"e{number}"
        tried = IncomingTry(
            *(link, request.method, request.path, lambda: request, f"{number}", episode, 1, number, 1, 0.0),
            of_model=link == "model",
        )
        plan = plan_try(matcher.match(tried).met, whole=True)
        counts.update(fault.id for fault in plan.met_faults if fault.delay or fault is plan.request_fault)
        counts.update([fault.id for fault in plan.reply_candidates if changes(fault, reply)][:1])
        matcher.remember(episode, link, replace(reply, body=b'{"earlier": %d}' % number))
    return counts


def changes(fault: MetFault, reply: Reply) -> bool:
    return fault.act.reply is not None and isinstance(fault.act.reply(reply), Changed)


def test_earlier_fault_does_not_stop_delay():
    faults = a_set(entry("unavailable", 1), entry("delay", 0.36))
    assert rates(faults)["delay"] == (0.36, 0.36)


def test_only_first_eligible_fault_acts():
    computed = rates(a_set(entry("empty", 0.5), entry("lose_request", 0.5), entry("truncate", 1)))
    assert computed == {"empty": (0.5, 0.5), "lose_request": (0.25, 0.25), "truncate": (0.25, 0.25)}


def test_reply_dependent_fault_gives_range():
    computed = rates(a_set(entry("stale", 0.5), entry("empty", 0.4), entry("unavailable", 1)))
    assert computed["empty"] == (0.2, 0.4)


def test_reply_fault_excludes_replacing_faults():
    """If `wrong_value` finds no value, the later 503 still does not act."""
    computed = rates(a_set(entry("wrong_value", 0.5), entry("unavailable", 1), entry("truncate", 1)))
    assert computed == {"wrong_value": (0.5, 0.5), "unavailable": (0.5, 0.5), "truncate": (0, 0.5)}


def test_delay_does_not_reduce_others():
    assert rates(a_set(entry("delay", 0.9), entry("empty", 0.5)))["empty"] == (0.5, 0.5)


def test_try_dependent_fault_gives_range():
    computed = rates(a_set(entry("empty", 0.5, when={"nth": 2}), entry("hang", 0.4)))
    assert computed == {"empty": (0.5, 0.5), "hang": (0.2, 0.4)}


def test_lasting_or_rising_fault_gives_range():
    window = {"window": {"end": 9, "ramp": 3}}
    computed = rates(a_set(entry("empty", 0.5, when={"persistent": True}), entry("hang", 0.4, when=window)))
    assert computed == {"empty": (0.5, 1), "hang": (0, 0.4)}


def test_links_are_estimated_separately():
    computed = marginals(a_set({**entry("empty", 0.5), "links": "tools"}, entry("hang", 1)))
    assert {marginal.link for marginal in computed if marginal.id == "empty"} >= {"search", "weather"}
    assert [marginal.low for marginal in computed if marginal.id == "hang"] == [0.5]


@pytest.mark.parametrize("one_episode", [False, True], ids=["episodes", "one-episode"])
@pytest.mark.parametrize("link", EXCHANGES)
@pytest.mark.parametrize("name", preset_names())
def test_preset_rates_equal_simulated_rates(name: str, link: str, one_episode: bool) -> None:
    faults = find_set(name).faults
    counts = acting(faults, link, TRIES, one_episode=one_episode)
    for marginal in (marginal for marginal in marginals(FaultSet(faults)) if marginal.link == link):
        share, tolerance = counts[marginal.id] / TRIES, 4 * sqrt(marginal.high / TRIES)
        assert share <= marginal.high + tolerance
        [entry] = [entry for entry in faults if entry.id == marginal.id]
        sure = replace(entry, when=entry.when.model_copy(update={"probability": 1.0}))
        if (
            acting([sure], link, 20, one_episode=one_episode)[marginal.id] >= 19
        ):  # the first has no earlier reply
            assert share >= marginal.low - tolerance


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=lambda kind: kind.name)
def test_each_fault_declares_if_it_only_delays(kind: type[Fault]) -> None:
    link = {"model": "model", "mcp": "files"}.get(kind.where, "search")
    entries = [entry("unavailable", 1), {**entry(kind.name, 0.5), "id": "second"}]
    data = {"faults": [{**written, "links": link} for written in entries]}
    links = lab_links().adding([Link("files", "http://127.0.0.1:9/mcp", "mcp")])
    assert rates(build_set(data, "test", REGISTRY, links))["second"] == (
        (0.5, 0.5) if kind.name == "delay" else (0, 0)
    )


def test_conditions_are_printed_as_in_file():
    written = entry(
        "empty", 0.5, when={"nth": "2-4", "of": "try"}, only={"method": "POST", "json": {"to": "Bob"}}
    )
    [one] = a_set(written).faults
    assert conditions_of(one) == "nth 2-4, of try, method POST, json to=Bob"
    written = entry("empty", 0.5, when={"window": {"end": 3, "ramp": 1}, "persistent": True})
    [one] = a_set(written).faults
    assert conditions_of(one) == "window end=3 ramp=1, persistent"
    written = entry("empty", 1, when={"after": {"write": "executed"}})
    [one] = a_set({**written, "during": {"start": "first_met", "duration": "20s"}}).faults
    assert conditions_of(one) == "after write=executed, from the first call that meets it on, for 20 s"
