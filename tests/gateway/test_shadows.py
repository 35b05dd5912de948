"""Shadows: the faults of another arm are evaluated as there, recorded, and change nothing."""

from __future__ import annotations

import json

import pytest

from tests.gateway.lab import Lab
from tests.gateway.scripted import UPSTREAM_REPLY, ScriptedUpstream, armed, ask
from wirefault.history.events import Exchange, ShadowMet
from wirefault.settings.episode_faults import shadow_text
from wirefault.settings.settings import Settings

pytestmark = pytest.mark.usefixtures("scripted_faults")
TRIES = 12


def sometimes(*does: str) -> str:
    """Those faults, each on about half of the tries."""
    faults = json.loads(armed(*does))["faults"]
    return json.dumps({"faults": [{**fault, "when": {"probability": 0.5}} for fault in faults]})


def shadow_of(lab: Lab, **arms: dict[str, object]) -> str:
    context = {"links": lab.topology.links}
    given = {"seed": 1, "error_prob": 0}
    return shadow_text(
        {name: Settings.model_validate({**given, **arm}, context=context) for name, arm in arms.items()}
    )


def flown(lab: Lab, **settings: object) -> list[Exchange]:
    """The same tries under these settings."""
    lab.begin(**settings)
    for try_ in range(1, TRIES + 1):
        ask(lab, headers=lab.identity(try_=try_))
    return lab.exchanges(TRIES)


def calls_flown(lab: Lab, **settings: object) -> list[Exchange]:
    """As many calls, each with a try of its own."""
    lab.begin(**settings)
    for call in range(1, TRIES + 1):
        ask(lab, headers=lab.identity(call=call))
    return lab.exchanges(TRIES)


def test_a_shadow_is_where_the_fault_is_in_the_arm(lab_of_service: Lab) -> None:
    faults = sometimes("reply", "answer")
    struck = [[met.id for met in exchange.faults] for exchange in flown(lab_of_service, faults=faults)]
    shadow = shadow_of(lab_of_service, method={"faults": faults})
    shadows = [[met.id for met in exchange.shadows] for exchange in flown(lab_of_service, shadow=shadow)]
    assert shadows == struck and [] in struck and len(set(map(tuple, struck))) > 2


def test_a_shadow_changes_nothing_and_is_no_fault(lab_of_service: Lab, service: ScriptedUpstream) -> None:
    shadow = shadow_of(lab_of_service, method={"faults": armed("answer", "delay")})
    lab_of_service.begin(shadow=shadow)
    assert ask(lab_of_service, method="POST", data=b"whole").content == UPSTREAM_REPLY
    exchange = lab_of_service.exchange()
    assert service.requests[-1].endswith(b"whole")
    assert (exchange.faults, exchange.eligible, exchange.struck) == ([], [], None)
    assert len(exchange.shadows) == 2


def test_what_the_blast_radius_of_the_arm_spares_has_no_shadow(lab_of_service: Lab) -> None:
    faults = sometimes("reply")
    radius = {"faults": faults, "fault_calls": 2}
    struck = [
        bool(exchange.faults and exchange.faults[0].injected)
        for exchange in calls_flown(lab_of_service, **radius)
    ]
    shadow = shadow_of(lab_of_service, method=radius, elsewhere={"faults": faults, "fault_episodes": 1e-9})
    shadows = [bool(exchange.shadows) for exchange in calls_flown(lab_of_service, shadow=shadow)]
    assert shadows == struck and struck.count(True) == 2


def test_each_arm_is_told_apart_and_errors_drawn_by_chance_are_shadows_too(lab_of_service: Lab) -> None:
    shadow = shadow_of(lab_of_service, one={"faults": armed("reply")}, other={"error_prob": 1})
    lab_of_service.begin(shadow=shadow)
    assert ask(lab_of_service).content == UPSTREAM_REPLY
    assert lab_of_service.exchange().shadows == [
        ShadowMet("one", "scripted", "scripted"),
        ShadowMet("other", "", "http_error"),
    ]


def test_a_fault_that_reads_bodies_is_shown_long_ones(lab_of_service: Lab) -> None:
    shadow = shadow_of(lab_of_service, method={"faults": armed("reply", fault="reads")})
    lab_of_service.begin(shadow=shadow)
    ask(lab_of_service, method="POST", data=b"x" * 1_000_000)
    assert [met.id for met in lab_of_service.exchange().shadows] == ["reads"]


def test_without_shadows_no_request_has_any(lab_of_service: Lab) -> None:
    lab_of_service.begin(faults=armed("reply"))
    ask(lab_of_service)
    assert lab_of_service.exchange().shadows == []
