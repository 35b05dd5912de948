"""Shadows: faults of another arm are matched as in that arm, recorded, and never act."""

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
    values = {"seed": 1, "error_prob": 0}
    return shadow_text(
        {name: Settings.model_validate({**values, **arm}, context=context) for name, arm in arms.items()}
    )


def run_tries(lab: Lab, **settings: object) -> list[Exchange]:
    """The same tries under these settings."""
    lab.begin(**settings)
    for try_ in range(1, TRIES + 1):
        ask(lab, headers=lab.identity(try_=try_))
    return lab.exchanges(TRIES)


def calls_made(lab: Lab, **settings: object) -> list[Exchange]:
    """That many calls, of one try each."""
    lab.begin(**settings)
    for call in range(1, TRIES + 1):
        ask(lab, headers=lab.identity(call=call))
    return lab.exchanges(TRIES)


def test_shadow_matches_fault_of_arm(lab_of_service: Lab) -> None:
    faults = sometimes("reply", "answer")
    faulted = [[hit.id for hit in exchange.faults] for exchange in run_tries(lab_of_service, faults=faults)]
    shadow = shadow_of(lab_of_service, method={"faults": faults})
    shadows = [[hit.id for hit in exchange.shadows] for exchange in run_tries(lab_of_service, shadow=shadow)]
    assert shadows == faulted and [] in faulted and len(set(map(tuple, faulted))) > 2


def test_shadow_changes_nothing_and_is_not_fault(lab_of_service: Lab, service: ScriptedUpstream) -> None:
    shadow = shadow_of(lab_of_service, method={"faults": armed("answer", "delay")})
    lab_of_service.begin(shadow=shadow)
    assert ask(lab_of_service, method="POST", data=b"whole").content == UPSTREAM_REPLY
    exchange = lab_of_service.exchange()
    assert service.requests[-1].endswith(b"whole")
    assert (exchange.faults, exchange.eligible, exchange.faulted_reply) == ([], [], None)
    assert len(exchange.shadows) == 2


def test_no_shadow_outside_blast_radius_of_arm(lab_of_service: Lab) -> None:
    faults = sometimes("reply")
    radius = {"faults": faults, "fault_calls": 2}
    faulted = [
        bool(exchange.faults and exchange.faults[0].injected)
        for exchange in calls_made(lab_of_service, **radius)
    ]
    shadow = shadow_of(lab_of_service, method=radius, elsewhere={"faults": faults, "fault_episodes": 1e-9})
    shadows = [bool(exchange.shadows) for exchange in calls_made(lab_of_service, shadow=shadow)]
    assert shadows == faulted and faulted.count(True) == 2


def test_shadows_name_their_arm_and_include_chance_errors(lab_of_service: Lab) -> None:
    shadow = shadow_of(lab_of_service, one={"faults": armed("reply")}, other={"error_prob": 1})
    lab_of_service.begin(shadow=shadow)
    assert ask(lab_of_service).content == UPSTREAM_REPLY
    assert lab_of_service.exchange().shadows == [
        ShadowMet("one", "scripted", "scripted"),
        ShadowMet("other", "", "http_error"),
    ]


def test_body_reading_fault_gets_long_bodies(lab_of_service: Lab) -> None:
    shadow = shadow_of(lab_of_service, method={"faults": armed("reply", fault="reads")})
    lab_of_service.begin(shadow=shadow)
    ask(lab_of_service, method="POST", data=b"x" * 1_000_000)
    assert [hit.id for hit in lab_of_service.exchange().shadows] == ["reads"]


def test_without_shadows_no_request_has_any(lab_of_service: Lab) -> None:
    lab_of_service.begin(faults=armed("reply"))
    ask(lab_of_service)
    assert lab_of_service.exchange().shadows == []
