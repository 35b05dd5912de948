"""The effect of each fault: faulted episodes against their shadow twins, as planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.judging.oracle.histories import (
    armed,
    ended,
    episode,
    exchange,
    fault_met,
    healed,
    run_started,
    timeout,
)
from tests.support import replace
from wirefault.experiments.effects import FaultEffect, fault_effects
from wirefault.experiments.facts_store import facts_of
from wirefault.history.events import Event, ShadowMet, ShadowToxic
from wirefault.judging.judge import judge_run
from wirefault.judging.summary import summarise

FOUR, RIGHT = {"values": [{"number": 4}]}, [{"value": 4.0, "unit": None}]
LOST = fault_met("lose_reply", id="lost", shows=None)
SHADOW = ShadowMet("method", "lost", "lose_reply")


def arm_events(outcomes: str, more: Mapping[int, Sequence[Any]] | None = None) -> list[Event]:
    """A run with these outcomes (S success, F honest failure, I invalid) and more events in some episodes."""
    events: list[Event] = [run_started(len(outcomes))]
    for place, outcome in enumerate(outcomes):
        name = f"e{place}"
        end = ended("done" if outcome == "S" else "failed", RIGHT if outcome == "S" else [], episode=name)
        heal = healed(episode=name, invalid="the lab failed" if outcome == "I" else None)
        besides = [replace(event, episode=name) for event in (more or {}).get(place, ())]
        events += episode(*besides, end, heal, expect=FOUR, name=name)
    return events


def shadowed(*shadows: ShadowMet) -> Event:
    event: Event = exchange(shadows=list(shadows))
    return event


def effects(control: list[Event], struck: list[Event]) -> list[FaultEffect]:
    episodes = [facts_of("a", events).episodes if events else () for events in (control, struck)]
    return list(fault_effects(episodes[0], [("method", episodes[1])]))


def test_only_planned_episodes_are_compared() -> None:
    control = arm_events("SSSF", {place: [shadowed(SHADOW)] for place in (0, 1, 3)})
    [effect] = effects(control, arm_events("SFFF", {0: [exchange(fault=LOST)], 1: [exchange(fault=LOST)]}))
    assert (effect.fault, effect.planned, effect.drawn, effect.alone) == ("lost", 3, 2, 3)
    assert (effect.control, effect.struck, effect.open) == (2, 1, 0)
    assert effect.success is not None
    assert (effect.success.n, effect.success.value) == (3, pytest.approx(-1 / 3))


def test_fault_drawn_in_arm_only_is_ignored() -> None:
    control = arm_events("SS", {0: [shadowed(SHADOW)]})
    [effect] = effects(control, arm_events("SF", {place: [exchange(fault=LOST)] for place in (0, 1)}))
    assert (effect.planned, effect.drawn, effect.struck) == (1, 1, 1)


def test_toxics_have_planned_shadows() -> None:
    toxic = timeout()
    control = arm_events("SS", {0: [replace(armed(), shadows=[ShadowToxic("method", toxic)])]})
    [effect] = effects(control, arm_events("FS", {0: [armed(toxic)]}))
    assert (effect.fault, effect.planned, effect.drawn) == ("TOXIC_PROB: timeout", 1, 1)


def test_joint_faults_are_not_single() -> None:
    by_chance = ShadowMet("method", "", "http_error")
    control = arm_events("SS", {0: [shadowed(SHADOW, by_chance)], 1: [shadowed(SHADOW)]})
    rows = {effect.fault: effect for effect in effects(control, arm_events("FS"))}
    assert (rows["lost"].alone, rows["ERROR_PROB"].alone) == (1, 0)


def test_shadows_of_other_arm_are_ignored() -> None:
    control = arm_events("S", {0: [shadowed(replace(SHADOW, arm="other"))]})
    assert effects(control, arm_events("F")) == []


@pytest.mark.parametrize("struck", [arm_events("I"), []])
def test_no_outcomes_no_effect(struck: list[Event]) -> None:
    [effect] = effects(arm_events("S", {0: [shadowed(SHADOW)]}), struck)
    assert (effect.success, effect.open) == (None, 1)


def test_shadows_do_not_affect_verdict() -> None:
    toxic = replace(armed(), shadows=[ShadowToxic("method", timeout())])
    failed = exchange(status=503, shadows=[SHADOW])
    plain, twin = (
        arm_events("F", {0: [armed(), replace(failed, shadows=[])]}),
        arm_events("F", {0: [toxic, failed]}),
    )
    assert judge_run(twin).episodes == judge_run(plain).episodes
    assert summarise(twin).as_json() == summarise(plain).as_json()
