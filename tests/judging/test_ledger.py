"""The ledger of a run's fault sets, and its canaries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judging.oracle.histories import episode, exchange, run_finished, run_started
from windtunnel.history.events import FaultMet, FaultsSet
from windtunnel.judging.ledger import account
from windtunnel.judging.summary import summarise
from windtunnel.settings.settings import Settings

CANARY = {"fault": "truncate", "links": ["message", "search"]}


def dumped(*entries):
    return Settings(seed=1, faults={"faults": list(entries)}).faults


def met(id="truncate", why_not=None, **more):
    return FaultMet(id=id, kind=id, injected=why_not is None, why_not=why_not, **more)


def accounted(entry, *exchanges, **settings):
    return account(run_started(faults=dumped(entry), **settings), exchanges)


def with_faults(*faults, **more):
    return exchange(faults=list(faults), **more)


@pytest.mark.parametrize(
    ("exchanges", "verdict", "because"),
    [
        ([with_faults(met()), with_faults(met(), try_=2)], "held", ""),
        ([with_faults(met()), with_faults(try_=2)], "invalid", "1 of 2 calls passed without it"),
        ([with_faults(met(why_not="too_large"))], "invalid", "1 of 1: too_large"),
        ([with_faults(met(why_not="failed: KeyError"))], "invalid", "1 of 1: failed: KeyError"),
        ([with_faults(met(why_not="nothing_to_change"))], "unknown", ""),
        ([with_faults(link="weather")], "unknown", ""),
        ([], "unknown", ""),
        ([with_faults(request_complete=False), with_faults(identity="mismatch")], "unknown", ""),
    ],
)
def test_a_certain_fault_strikes_every_call_to_which_it_applies(exchanges, verdict, because):
    [entry] = accounted(CANARY, *exchanges).entries
    assert (entry.canary, entry.because) == (verdict, because)


@pytest.mark.parametrize("entry", [{**CANARY, "when": {"probability": 0.5}}, {"fault": "flap"}])
def test_one_that_may_pass_is_no_canary(entry):
    [found] = accounted(entry, with_faults()).entries
    assert found.canary is None and found.met == 1


def test_the_chaos_level_counts():
    [found] = accounted(CANARY, with_faults(), chaos_level=0.5).entries
    assert found.canary is None


def test_selectors_are_heeded():
    posts = {**CANARY, "only": {"method": "POST", "path": "/message"}}
    gets = [with_faults(method="GET"), with_faults(target="/other")]
    assert accounted(posts, *gets).entries[0].met == 0


@pytest.mark.parametrize("only", [{"json": {"to": "Bob"}}, {"header": {"X-Tenant": "a"}}])
def test_what_the_history_does_not_hold_the_gateway_tells(only):
    entry = {**CANARY, "only": only}
    aimed = {"eligible": ["truncate"]}
    others, hit = with_faults(), with_faults(met(), try_=2, **aimed)
    assert accounted(entry, others, hit).entries[0].canary == "held"
    [found] = accounted(entry, hit, with_faults(try_=3, **aimed)).entries
    assert (found.met, found.canary, found.because) == (2, "invalid", "1 of 2 calls passed without it")


def test_each_configuration_has_its_own():
    later = FaultsSet(105.0, "001", 1, 3, dumped({"fault": "empty"}))
    calls = [with_faults(met()), with_faults(met("empty"), try_=2, configuration=3)]
    found = account(run_started(faults=dumped(CANARY)), [*calls, later]).entries
    assert [(one.configuration, one.id, one.met, one.canary) for one in found] == [
        (0, "truncate", 1, "held"),
        (3, "empty", 1, "held"),
    ]


def test_what_came_to_nothing_is_told():
    rare = {"fault": "empty", "links": "weather", "when": {"probability": 0.5}}
    ledger = account(run_started(faults=dumped(CANARY, rare)), [])
    assert list(ledger.remarks()) == [
        "not exercised, no call met them: canaries (whether they arrive is unknown): truncate",
        "not exercised, no call met them: faults: empty",
    ]
    missed = accounted(CANARY, with_faults(met(why_not="nothing_to_change")))
    assert list(missed.remarks()) == ["struck, but changed nothing: truncate (nothing_to_change)"]


def test_a_set_that_can_do_nothing_is_told():
    ledger = account(run_started(faults=dumped(CANARY), chaos_level=0.0), [])
    assert list(ledger.remarks()) == [
        "no fault of the fault set can strike: its chances are 0 at chaos level 0"
    ]


def test_a_set_that_this_version_cannot_read_is_told():
    ledger = account(run_started(faults='{"faults": [{"fault": "of old"}]}'), [])
    assert ledger.entries == [] and "fault 'of old' is unknown" in "".join(ledger.remarks())


def test_a_run_whose_canary_died_is_invalid():
    start = run_started(faults=dumped(CANARY))
    summary = summarise([start, *episode(with_faults()), run_finished()])
    assert summary.invalid_because == ["fault truncate: 1 of 1 calls passed without it"]
    assert summary.as_json()["entries"][0]["canary"] == "invalid"
    fine = summarise([start, *episode(replace(with_faults(), faults=[met()])), run_finished()])
    assert fine.invalid_because == []
