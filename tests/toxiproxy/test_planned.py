"""The dose of a toxic: on which links by one draw, and for how long."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from windtunnel.faults.sets.fault_set import build_set
from windtunnel.links.wiring import lab_links
from windtunnel.toxiproxy.planned import PlannedToxic, plan_toxics
from windtunnel.toxiproxy.toxics.text_form import parse_list

TOXICS = parse_list("timeout:400,latency:300")
Plan = list[PlannedToxic]


def by_prob(attempts: int = 4000, **dose: bool | float) -> Iterable[Plan]:
    return [plan_toxics(1, 0.1, TOXICS, lab_links().tool_names, f"{n}", 1, **dose) for n in range(attempts)]  # type: ignore[arg-type]


def by_set(attempts: int = 4000, **dose: bool | float) -> Iterable[Plan]:
    entry = {"toxic": "timeout", "links": ["weather", "model"], "when": {"probability": 0.1}, **dose}
    toxics = build_set({"toxics": [entry]}, "test", {}, lab_links()).toxics
    return [plan_toxics(1, 0, TOXICS, lab_links().tool_names, f"{n}", 1, toxics) for n in range(attempts)]


def share_of_attempts_struck(plans: Iterable[Plan]) -> float:
    return sum(map(bool, plans)) / len(list(plans))


def test_links_are_struck_each_by_itself_unless_together() -> None:
    assert share_of_attempts_struck(by_prob()) == pytest.approx(1 - 0.9**7, abs=0.03)
    assert share_of_attempts_struck(by_prob(together=True)) == pytest.approx(0.1, abs=0.02)


def test_the_links_of_a_set_s_entry_too() -> None:
    assert share_of_attempts_struck(by_set()) == pytest.approx(1 - 0.9**2, abs=0.02)
    assert share_of_attempts_struck(by_set(together=True)) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(("plans", "links"), [(by_prob, len(lab_links().tool_names)), (by_set, 2)])
def test_together_all_links_have_the_same_toxic(plans, links: int) -> None:  # type: ignore[no-untyped-def]
    struck = [plan for plan in plans(together=True) if plan]
    assert {len(plan) for plan in struck} == {links}
    assert all(len({(toxic.kind, toxic.stream) for toxic in plan}) == 1 for plan in struck)
    assert len({(plan[0].kind, plan[0].stream) for plan in struck}) == (4 if plans is by_prob else 2)


@pytest.mark.parametrize("given", [by_prob(seconds=2.5), by_set(duration=2.5)])
def test_a_toxic_has_the_seconds_that_were_given_for_it(given: Iterable[Plan]) -> None:
    assert {toxic.seconds for plan in given for toxic in plan} == {2.5}


def test_how_long_they_last_changes_no_draw() -> None:
    lasting = [[(t.link, t.kind, t.stream) for t in plan] for plan in by_prob(200)]
    assert lasting == [[(t.link, t.kind, t.stream) for t in plan] for plan in by_prob(200, seconds=1.0)]
