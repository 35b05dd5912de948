"""Fault sets in runs of the lab's agent: the always-on fault, and faults set while the lab is up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent.loop import Agent
from agent.models import build_model, open_client
from tests.e2e.lab import SETTINGS, LabRun, SharedLab, in_order, sample
from wirefault.history.events import AttemptArmed, Exchange, FaultsSet, RunStarted, ToolTry
from wirefault.lab.live import LiveFaultsClient
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import AttemptContext, SubjectResult

PROMPT = sample("temperature in Paris")
CANARY = {"faults": [{"fault": "unavailable", "links": "weather"}]}


@pytest.fixture
def live(shared: SharedLab) -> Iterator[LiveFaultsClient]:
    """The lab's own faults, cleared afterwards."""
    live = LiveFaultsClient(
        shared.lab.topology.manager,
        shared.configuration.state.parent,
        shared.lab.topology.links,
        shared.lab.token,
    )
    yield live
    live.clear()


def dumped(faults: dict[str, Any]) -> str:
    return Settings(seed=1, faults=faults).faults


# the same prompt three times
FIRST, SECOND, THIRD = (prompt.key for prompt in in_order([PROMPT] * 3))


def meanwhile(shared: SharedLab, episode: str, action: Any) -> LabRun:
    """A run of three prompts; the action is taken at the beginning of that episode."""
    settings = Settings(**SETTINGS)
    with open_client(settings) as client:
        agent = Agent(build_model(settings, shared.lab.topology, "none", client), "the lab's agent")

        def subject(prompt: str, context: AttemptContext) -> SubjectResult:
            if context.identity.episode == episode:
                action()
            return agent(prompt, context)

        subject.name = agent.name  # type: ignore[attr-defined]
        return shared.run_subject(subject, PROMPT, PROMPT, PROMPT, settings=settings)


def test_every_call_meets_always_on_fault(shared: SharedLab) -> None:
    lab_run = shared.run(PROMPT, faults=CANARY, tool_limit=3)
    [entry] = lab_run.summary.faults
    assert entry.eligible == entry.injected == sum(one.link == "weather" for one in lab_run.of(ToolTry)) > 2
    assert entry.always_on == "held"
    assert lab_run.summary.invalid_because == []
    assert lab_run.outcomes == ["honest_failure"]


def test_always_on_fault_without_calls_is_unknown(shared: SharedLab) -> None:
    lab_run = shared.run(PROMPT, faults={"faults": [{"fault": "unavailable", "links": "movie"}]})
    assert [entry.always_on for entry in lab_run.summary.faults] == ["unknown"]
    assert any("not exercised" in remark for remark in lab_run.summary.remarks)


def test_set_toxic_is_armed_on_model_link(shared: SharedLab) -> None:
    toxic = {"toxic": "latency", "links": ["model", "weather"], "with": {"latency": 30}, "stream": "upstream"}
    lab_run = shared.run(PROMPT, faults={"toxics": [toxic]})
    [armed] = lab_run.of(AttemptArmed)
    assert [toxic.link for toxic in armed.toxics] == ["weather", "model"]
    assert {fault.link for fault in lab_run.summary.episodes[0].faults if fault.delivered} == {
        "weather",
        "model",
    }


def test_set_faults_apply_at_next_request_and_toxics_at_next_attempt(
    shared: SharedLab, live: LiveFaultsClient
) -> None:
    toxic = {"toxic": "latency", "links": "search", "with": {"latency": 5}}
    lab_run = meanwhile(shared, SECOND, lambda: live.set(dumped({**CANARY, "toxics": [toxic]}), "mine"))
    [event] = lab_run.of(FaultsSet)
    assert (event.episode, event.attempt) == (SECOND, 1)
    under = {(e.episode, e.configuration) for e in lab_run.of(Exchange) if e.link == "weather"}
    assert under == {(FIRST, 0), (SECOND, event.number), (THIRD, event.number)}
    assert [[toxic.link for toxic in one.toxics] for one in lab_run.of(AttemptArmed)] == [[], [], ["search"]]
    toxic_row, entry = lab_run.summary.faults
    assert (toxic_row.configuration, toxic_row.eligible, toxic_row.drawn) == (event.number, 1, 1)
    assert (entry.configuration, entry.always_on) == (event.number, "held")
    assert lab_run.outcomes == ["success", "honest_failure", "honest_failure"]


def test_clear_during_run_removes_its_faults(shared: SharedLab, live: LiveFaultsClient) -> None:
    live.set(dumped(CANARY), "mine")
    lab_run = meanwhile(shared, THIRD, live.clear)
    assert lab_run.of(RunStarted)[0].settings["faults"] == dumped(CANARY)
    assert lab_run.outcomes == ["honest_failure", "honest_failure", "success"]
    assert not lab_run.summary.reproducible


def test_run_keeps_its_own_faults(shared: SharedLab, live: LiveFaultsClient) -> None:
    live.set(dumped(CANARY), "mine")
    lab_run = shared.run(PROMPT, faults={"faults": [{"fault": "stale", "links": "movie"}]})
    assert lab_run.outcomes == ["success"]
