"""The dose of a toxic: on which links by one draw, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from wirefault.core.spans import Span
from wirefault.faults.sets.fault_set import build_set
from wirefault.toxiproxy.planned import PlannedToxic, plan_toxics
from wirefault.toxiproxy.toxics.text_form import parse_list
from wirefault.wiring.links import lab_links

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


def test_links_draw_separately_by_default() -> None:
    assert share_of_attempts_struck(by_prob()) == pytest.approx(1 - 0.9**7, abs=0.03)
    assert share_of_attempts_struck(by_prob(together=True)) == pytest.approx(0.1, abs=0.02)


def test_links_of_set_entry_draw_separately() -> None:
    assert share_of_attempts_struck(by_set()) == pytest.approx(1 - 0.9**2, abs=0.02)
    assert share_of_attempts_struck(by_set(together=True)) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(("plans", "links"), [(by_prob, len(lab_links().tool_names)), (by_set, 2)])
def test_joint_draw_gives_all_links_same_toxic(plans, links: int) -> None:  # type: ignore[no-untyped-def]
    struck = [plan for plan in plans(together=True) if plan]
    assert {len(plan) for plan in struck} == {links}
    assert all(len({(toxic.kind, toxic.stream) for toxic in plan}) == 1 for plan in struck)
    assert len({(plan[0].kind, plan[0].stream) for plan in struck}) == (4 if plans is by_prob else 2)


@pytest.mark.parametrize(("plans", "seconds"), [(by_prob, "seconds"), (by_set, "duration")])
def test_toxic_lasts_configured_seconds(plans, seconds: str) -> None:  # type: ignore[no-untyped-def]
    assert {toxic.seconds for plan in plans(**{seconds: 2.5}) for toxic in plan} == {2.5}


def drawn_of(*toxics: dict[str, object], episode: str = "e") -> Plan:
    entries = build_set({"toxics": list(toxics)}, "test", {}, lab_links()).toxics
    return plan_toxics(1, 0, TOXICS, lab_links().tool_names, episode, 1, entries)


def down(*during: dict[str, str], links: str = "weather", **more: object) -> dict[str, object]:
    return {"toxic": "down", "links": links, "during": list(during), **more}


def test_consecutive_outages_share_draw() -> None:
    in_a_row = down({"start": "1s", "duration": "1s"}, {"start": "4s"}, when={"probability": 0.5})
    plans = [drawn_of(in_a_row, episode=f"{number}") for number in range(20)]
    assert {tuple(str(toxic.span) for toxic in plan) for plan in plans} == {
        (),
        ("from 1 s on, for 1 s", "from 4 s on"),
    }


def test_link_repeats_toxic_after_first_ends() -> None:
    first = down({"duration": "2s"}, id="first")
    for start, ids in (("1s", ["first"]), ("2s", ["first", "second"])):
        assert [t.entry for t in drawn_of(first, down({"start": start}, id="second"))] == ids


def test_link_repeats_toxic_in_later_turns() -> None:
    first = down({"duration": "2s"}, id="first", when={"turn": "2-3"})
    for turn, ids in (("3-", ["first"]), (1, ["first", "second"]), ("4-", ["first", "second"])):
        second = down({"duration": "2s"}, id="second", when={"turn": turn})
        assert [toxic.entry for toxic in drawn_of(first, second)] == ids


@pytest.mark.parametrize(("named", "episodes"), [("mail", "mail mail.r2"), (["a*", "mail.r2"], "ab mail.r2")])
def test_only_named_episodes_draw(named: object, episodes: str) -> None:
    toxic = {"toxic": "latency", "links": "weather", "only": {"episodes": named}}
    assert [key for key in ("mail", "mail.r2", "ab", "mailing") if drawn_of(toxic, episode=key)] == sorted(
        episodes.split(), key=["mail", "mail.r2", "ab"].index
    )


def test_duration_does_not_change_draw() -> None:
    lasting = [[(t.link, t.kind, t.stream) for t in plan] for plan in by_prob(200)]
    assert lasting == [[(t.link, t.kind, t.stream) for t in plan] for plan in by_prob(200, seconds=1.0)]


@pytest.mark.parametrize(
    ("kind", "attributes", "half"),
    [
        ("latency", {"latency": 500, "jitter": 20}, {"latency": 250, "jitter": 10}),
        ("slow_close", {"delay": 300}, {"delay": 150}),
        ("bandwidth", {"rate": 10}, {"rate": 20}),
    ],
)
def test_toxic_has_active_dose_share(kind: str, attributes: dict[str, int], half: dict[str, int]) -> None:
    planned = PlannedToxic(
        "weather", kind, "downstream", attributes, during=Span(2, 3, 2, "calls"), turn=(2, 3)
    )
    assert planned.as_at(0, 1, 2) is planned.as_at(0, 5, 2) is planned.as_at(0, 3, 1) is None
    assert planned.as_at(0, 3, 4) is None
    assert planned.as_at(0, 2, 2) == replace(planned, attributes=half)
    assert planned.as_at(0, 3, 3) == planned.as_at(0, 4, 2) == planned
