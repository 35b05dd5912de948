"""How much of a toxic an attempt gets: on one link or on all, for the whole attempt or less."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.lab import SharedLab, sample
from wirefault.history.events import AttemptArmed, AttemptHealed, ToolTry, ToxicsChanged
from wirefault.wiring.links import lab_links

PROMPT = sample("temperature in Paris")
ALL: dict[str, Any] = {"toxic_prob": 1, "toxic_scope": "each"}
OUTAGE: dict[str, Any] = {**ALL, "tool_limit": 4, "toxics": "timeout@upstream:400"}
# the first try hangs until the outage ends, which closes it; a busy machine makes a call within that time
BRIEF_S = 2.0
BRIEF: dict[str, Any] = {**OUTAGE, "toxics": "timeout@upstream:0", "toxic_seconds": BRIEF_S}
TOXIC = {"toxic": "timeout", "stream": "upstream", "with": {"timeout": 0}, "duration": BRIEF_S}
SET = {"tool_limit": 4, "faults": {"toxics": [TOXIC]}}


@pytest.fixture(params=["shared", "real_lab"])
def either(request: pytest.FixtureRequest) -> SharedLab:
    """A lab with the embedded Toxiproxy, and one with the real server."""
    shared: SharedLab = request.getfixturevalue(request.param)
    return shared


def test_outage_of_whole_attempt_fails_each_try(either: SharedLab) -> None:
    lab_run = either.run(PROMPT, **OUTAGE)
    assert lab_run.outcomes == ["honest_failure"]
    assert len(lab_run.of(ToolTry)) >= OUTAGE["tool_limit"]
    assert lab_run.summary.reproducible, lab_run.summary.not_reproducible_because


@pytest.mark.parametrize("options", [BRIEF, SET], ids=["setting", "set"])
def test_later_try_survives_outage_that_ends(either: SharedLab, options: dict[str, Any]) -> None:
    lab_run = either.run(PROMPT, **options)
    assert lab_run.outcomes == ["success"]
    assert [healed.invalid for healed in lab_run.of(AttemptHealed)] == [None]
    assert [change.action for change in lab_run.of(ToxicsChanged)] == ["armed", "ended", "healed"]
    [ended] = [change for change in lab_run.of(ToxicsChanged) if change.action == "ended"]
    assert {toxic.link for toxic in ended.ended} == set(lab_links().tool_names) and ended.toxics == []
    *lost, got = sorted(lab_run.of(ToolTry), key=lambda tried: tried.start)
    assert lost and all(tried.start < ended.t for tried in lost) and got.error is None
    [episode] = lab_run.summary.episodes
    assert episode.unexplained == ()
    assert {fault.stage for fault in episode.faults if fault.link == got.link} == {"observed"}
    [reason] = lab_run.summary.not_reproducible_because
    assert reason == "timeout depends on the clock: it lasts 2 s"


def test_joint_draw_faults_all_tool_links_or_none(shared: SharedLab) -> None:
    lab_run = shared.run(*[PROMPT] * 12, toxic_prob=0.5, toxic_scope="all", toxics="latency:10,latency:20")
    plans = [armed.toxics for armed in lab_run.of(AttemptArmed)]
    assert {tuple(toxic.link for toxic in plan) for plan in plans} == {(), tuple(lab_links().tool_names)}
    assert all(len({(t.stream, str(t.attributes)) for t in plan}) == 1 for plan in plans if plan)


def during(**outage: str) -> dict[str, Any]:
    """The tools hang in that part of the attempt; the model is slow, so that no tool is called before."""
    hanging = {"toxic": "timeout", "stream": "upstream", "with": {"timeout": 0}, "during": outage}
    slow = {"toxic": "latency", "links": "model", "with": {"latency": 300}}
    return {"tool_limit": 4, "faults": {"toxics": [hanging, slow]}}


def test_outage_that_starts_later_faults_crossing_calls(either: SharedLab) -> None:
    for seconds in (2, 8, 32):  # a busy machine's tools may be called after the shorter ones
        lab_run = either.run(PROMPT, **during(start="1ms", duration=f"{seconds}s"))
        [ended] = [change for change in lab_run.of(ToxicsChanged) if change.action == "ended"]
        if min(tried.start for tried in lab_run.of(ToolTry)) < ended.t:
            break
    assert lab_run.outcomes == ["success"]
    assert [healed.invalid for healed in lab_run.of(AttemptHealed)] == [None]
    changes = lab_run.of(ToxicsChanged)
    assert [change.action for change in changes] == ["armed", "started", "ended", "healed"]
    kinds = [{row["kind"] for row in change.toxics} for change in changes]
    assert kinds == [{"latency"}, {"timeout", "latency"}, {"latency"}, set()]
    [episode] = lab_run.summary.episodes
    assert episode.unexplained == ()
    [link] = {tried.link for tried in lab_run.of(ToolTry)}
    assert [fault.stage for fault in episode.faults if fault.link == link] == ["observed"]
    assert lab_run.summary.not_reproducible_because == [
        f"timeout depends on the clock: it is active from 0.001 s on, for {seconds} s"
    ]


def test_outage_after_attempt_end_is_reported_and_not_delivered(shared: SharedLab) -> None:
    lab_run = shared.run(PROMPT, **during(start="600s"))
    assert lab_run.outcomes == ["success"]
    [row] = [row for row in lab_run.summary.faults if row.kind == "timeout"]
    assert (row.drawn, row.armed, row.delivered, row.why_not) == (7, 0, 0, {"not_started": 7})
