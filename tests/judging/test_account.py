"""The account of a run's faults."""

from __future__ import annotations

import json

import pytest

from tests.judging.oracle.histories import (
    armed,
    episode,
    evidence_of,
    exchange,
    latency,
    run_finished,
    run_started,
    timeout,
    tried,
)
from tests.support import replace
from wirefault.core.spans import Span
from wirefault.dialects.openai_chat import OPENAI_CHAT
from wirefault.faults.sets.presets import canonical_text
from wirefault.history.events import EpisodeStarted, FaultMet, FaultsSet, WentPastLab
from wirefault.judging.account import account
from wirefault.judging.summary import summarise
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Link, Links, lab_links

CANARY = {"fault": "truncate", "links": ["message", "search"]}


def dumped(*entries):
    return Settings(seed=1, faults={"faults": list(entries)}).faults


def fault_met(id="truncate", why_not=None, **more):
    return FaultMet(id=id, kind=id, injected=why_not is None, why_not=why_not, **more)


def of_run(started, *events):
    return account(started, events, evidence_of(events).faults)


def accounted(entry, *exchanges, **settings):
    return of_run(run_started(faults=dumped(entry), **settings), *exchanges)


def with_faults(*faults, **more):
    return exchange(faults=list(faults), **more)


@pytest.mark.parametrize(
    ("exchanges", "verdict", "because"),
    [
        ([with_faults(fault_met()), with_faults(fault_met(), try_=2)], "held", ""),
        ([with_faults(fault_met()), with_faults(try_=2)], "invalid", "1 of 2 calls passed without it"),
        ([with_faults(fault_met(why_not="too_large"))], "invalid", "1 of 1: too_large"),
        (
            [with_faults(fault_met(why_not="failed", detail="KeyError"))],
            "invalid",
            "1 of 1: failed: KeyError",
        ),
        ([with_faults(fault_met(why_not="nothing_to_change"))], "unknown", ""),
        ([with_faults(link="weather")], "unknown", ""),
        ([], "unknown", ""),
        ([with_faults(request_complete=False)], "unknown", ""),
    ],
)
def test_always_on_fault(exchanges, verdict, because):
    [entry] = accounted(CANARY, *exchanges).rows
    assert (entry.always_on, entry.because) == (verdict, because)


def test_bypassing_connections_make_always_on_fault_unknown():
    past = WentPastLab(105.0, "001", 1, "shop.example", 443, "tcp", "the subject", 1)
    [row] = accounted(CANARY, with_faults(fault_met()), past).rows
    assert row.always_on == "unknown"


def test_http2_connection_explains_unmet_fault():
    past = WentPastLab(
        *(105.0, "001", 1, "127.0.0.1", 9000, "tcp", "the subject", 1), link="search", only_http2=True
    )
    run = accounted(CANARY, past, past, replace(past, link="weather"))
    [row] = run.rows
    assert (row.met, row.always_on, row.why_not) == (0, "unknown", {"http2_only": 2})
    assert "truncate could not act on 2 connections over HTTP/2, whose requests cannot be read" in list(
        run.remarks()
    )


@pytest.mark.parametrize("entry", [{**CANARY, "when": {"probability": 0.5}}, {"fault": "flap"}])
def test_conditional_fault_is_not_always_on(entry):
    [row] = accounted(entry, with_faults()).rows
    assert row.always_on is None and row.eligible == 1


def test_chaos_level_applies():
    [row] = accounted(CANARY, with_faults(), chaos_level=0.5).rows
    assert row.always_on is None


def test_selectors_apply():
    posts = {**CANARY, "only": {"method": "POST", "path": "/message"}}
    gets = [with_faults(method="GET"), with_faults(target="/other")]
    assert accounted(posts, *gets).rows[0].eligible == 0


@pytest.mark.parametrize("only", [{"json": {"to": "Bob"}}, {"header": {"X-Tenant": "a"}}])
def test_gateway_records_eligible_entries(only):
    entry = {**CANARY, "only": only}
    chosen = {"eligible": ["truncate"]}
    others, hit = with_faults(), with_faults(fault_met(), try_=2, **chosen)
    assert accounted(entry, others, hit).rows[0].always_on == "held"
    [row] = accounted(entry, hit, with_faults(try_=3, **chosen)).rows
    assert (row.eligible, row.always_on, row.because) == (2, "invalid", "1 of 2 calls passed without it")


def test_rows_by_configuration():
    later = FaultsSet(105.0, "001", 1, 3, dumped({"fault": "empty"}), ["empty"])
    calls = [with_faults(fault_met()), with_faults(fault_met("empty"), try_=2, configuration=3)]
    rows = of_run(run_started(faults=dumped(CANARY)), *calls, later).rows
    assert [(row.configuration, row.entry, row.eligible, row.always_on) for row in rows] == [
        (0, "truncate", 1, "held"),
        (3, "empty", 1, "held"),
    ]


def test_same_id_in_two_configurations():
    later = FaultsSet(105.0, "001", 1, 3, dumped(CANARY), ["truncate"])
    missed = with_faults(fault_met(why_not="nothing_to_change"), try_=2, configuration=3)
    rows = of_run(run_started(faults=dumped(CANARY)), with_faults(fault_met()), missed, later).rows
    assert [(row.name, row.met, row.delivered, row.why_not) for row in rows] == [
        ("truncate", 1, 1, {}),
        ("truncate (configuration 3)", 1, 0, {"nothing_to_change": 1}),
    ]


def test_toxic_of_fault_set_has_its_row():
    faults = json.dumps({"toxics": [{"toxic": "latency", "links": ["search", "weather"], "id": "slow"}]})
    drawn = replace(latency("search"), entry="slow")
    events = [armed(drawn, timeout("message")), armed(attempt=2), armed(attempt=3, configuration=1)]
    rows = of_run(run_started(faults=faults), *events, tried("search", ms=310.0), exchange("search")).rows
    assert [(row.name, row.eligible, row.drawn, row.met, row.observed, row.why_not) for row in rows] == [
        ("timeout (TOXIC_PROB)", 3 * len(lab_links().tool_names), 1, 0, 0, {"not_exercised": 1}),
        ("slow", 4, 1, 1, 1, {}),
    ]


def test_drawn_toxic_is_exercised_on_a_link_that_later_shows_a_model():
    faults = json.dumps({"toxics": [{"toxic": "latency", "links": "tools", "id": "slow"}]})
    drawn = replace(latency("model"), entry="slow")
    done = of_run(run_started(faults=faults), armed(drawn), tried("model", ms=310.0), exchange("model"))
    assert [(row.eligible, row.drawn, row.links) for row in done.rows] == [(1, 1, ["model"])]
    assert not any("not exercised" in each for each in done.remarks())


@pytest.mark.parametrize(("group", "remarked"), [("tools", True), ("all", False)])
def test_link_that_changed_its_group_is_named(group, remarked):
    link = Link("port_9000", "http://127.0.0.1:9000", OPENAI_CHAT.name, found=True, recognised=True)
    toxic = {"toxic": "latency", "links": group, "id": "slow", "when": {"probability": 0.5}}
    faults = canonical_text({"toxics": [toxic]}, Links([], grows=True))
    drawn = replace(latency("port_9000"), entry="slow")
    events = [armed(drawn), armed(attempt=2)]
    started = replace(run_started(faults=faults), links=[link])
    remarks = list(of_run(started, *events).remarks())
    assert any("from the next attempt on" in each for each in remarks) == remarked, remarks


def test_unknown_episodes_are_named():
    faults = json.dumps(
        {
            "faults": [{**CANARY, "only": {"episodes": "nobody"}}],
            "toxics": [{"toxic": "latency", "links": ["search"], "only": {"episodes": ["nobody"]}}],
        }
    )
    [remark, notes] = sorted(of_run(run_started(faults=faults), armed(), exchange()).remarks())
    assert "latency" in notes and "truncate" in remark
    assert all("not exercised, no call was eligible" in each for each in (remark, notes))


def test_each_outage_is_counted():
    outages = [{"start": "1s", "duration": "1s"}, {"start": "3s"}]
    faults = json.dumps({"toxics": [{"toxic": "latency", "links": ["search"], "during": outages}]})
    drawn = [replace(latency("search"), entry="latency", during=Span(*at)) for at in ((1.0, 1.0), (3.0,))]
    [row] = of_run(run_started(faults=faults), armed(*drawn)).rows
    assert (row.eligible, row.drawn, row.armed, row.why_not) == (2, 2, 0, {"not_started": 2})


def test_unmet_faults_have_remark():
    rare = {"fault": "empty", "links": "weather", "when": {"probability": 0.5}}
    faults = of_run(run_started(faults=dumped(CANARY, rare)))
    assert list(faults.remarks()) == [
        "not exercised, no call was eligible: always-on faults (delivery unknown): truncate",
        "not exercised, no call was eligible: faults: empty",
    ]
    missed = accounted(CANARY, with_faults(fault_met(why_not="nothing_to_change")))
    assert list(missed.remarks()) == ["met, but changed nothing: truncate (nothing_to_change)"]


def test_impossible_set_has_remark():
    faults = of_run(run_started(faults=dumped(CANARY), chaos_level=0.0))
    assert list(faults.remarks()) == [
        "none of the fault set's faults can occur: their probability is 0 at chaos level 0"
    ]


def test_unreadable_set_has_remark():
    faults = of_run(run_started(faults='{"faults": [{"fault": "of old"}]}'), with_faults(fault_met("of old")))
    [row] = faults.rows
    assert (row.entry, row.eligible, row.met) == ("of old", None, 1)
    assert "unknown fault 'of old'" in "".join(faults.remarks())


def test_run_with_missed_always_on_fault_is_invalid():
    start = run_started(faults=dumped(CANARY))
    summary = summarise([start, *episode(with_faults()), run_finished()])
    assert summary.invalid_because == ["fault truncate: 1 of 1 calls passed without it"]
    assert summary.as_json()["faults"][0]["always_on"] == "invalid"
    fine = summarise([start, *episode(replace(with_faults(), faults=[fault_met()])), run_finished()])
    assert fine.invalid_because == []


def test_row_has_delivered_by():
    answered = fault_met("duplicate_request", answered=True)
    unanswered = fault_met("duplicate_request", answered=False)
    events = [
        with_faults(answered),
        with_faults(unanswered, try_=2),
        with_faults(fault_met("duplicate_request"), try_=3),
    ]
    [row] = accounted({"fault": "duplicate_request"}, *events).rows
    assert (row.injected, row.observed, row.delivered) == (3, 1, 2)
    assert row.delivered_by == {"upstream": 2, "injection": 1}


def test_toxics_without_caller_record_are_unknown():
    opaque = EpisodeStarted(101.0, "001", "Order tea", None, recorded=False)
    events = [opaque, armed(timeout("search"))]
    (row,) = account(run_started(), events, evidence_of(events).faults).rows
    assert (row.drawn, row.met, row.observed, row.delivered) == (1, None, None, None)
    assert row.why_not == {"no_record": 1}
