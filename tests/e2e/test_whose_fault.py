"""Runs whose outcome lies with the model's server, a tool's backend, or a fault: not with the agent."""

from __future__ import annotations

import json

import requests

from tests.e2e.lab import SharedLab, sample
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import AttemptContext, LabFailed, Subject, SubjectResult
from wirefault.wiring.prompts import Prompt

TEMPERATURE = "temperature in Paris"
LUNCH = {"title": "Lunch", "date": "2026-03-18", "time": "12:00"}


def test_unreachable_model_is_not_agent_crash(shared: SharedLab) -> None:
    closed = bind(FREE)
    nobody = bound_address(closed)
    closed.close()
    lab_run = shared.run(sample(TEMPERATURE), model="compatible", model_base_url=f"{nobody.url}/v1")
    assert lab_run.outcomes == ["invalid"]
    assert lab_run.summary.episodes[0].why.startswith("model_unavailable: the upstream 127.0.0.1:")
    assert lab_run.summary.success.rate is None


def test_missing_backend_is_tool_failure(shared: SharedLab) -> None:
    lab_run = shared.run(sample("Good morning"), translator_backend="libre")
    assert lab_run.outcomes == ["invalid"]
    assert lab_run.summary.episodes[0].why == "upstream_unavailable: translator: it answered 503"


def test_agent_that_repeats_planted_value_is_misled(shared: SharedLab) -> None:
    entry = {"fault": "wrong_value", "links": "weather", "with": {"field": "main.temp"}}
    lab_run = shared.run(sample(TEMPERATURE), faults=json.dumps({"faults": [entry]}))
    assert lab_run.outcomes == ["misled"]
    assert lab_run.summary.success.n == 1


class Unstarted(Subject):
    """One whose tap the lab could not make."""

    name = "unstarted"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        raise LabFailed("no namespace")


def test_subject_that_did_not_start_has_not_crashed(shared: SharedLab) -> None:
    [episode] = shared.run_subject(
        Unstarted(), sample(TEMPERATURE), settings=Settings(seed=1)
    ).summary.episodes
    assert (episode.outcome, episode.why) == ("invalid", "no namespace")


class Repairer(Subject):
    """Creates an event at a wrong time, deletes it and creates the right one; answers in prose."""

    name = "repairer"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        url = context.topology.proxies["calendar"].url + "/events"
        wrong = LUNCH | {"time": "13:00"}
        with requests.Session() as session:
            for method, params, body in (
                ("POST", None, wrong),
                ("DELETE", {"date": LUNCH["date"]}, None),
                ("POST", None, LUNCH),
            ):
                session.request(method, url, params=params, json=body, timeout=10).raise_for_status()
        return SubjectResult("text", response="Lunch is at noon on the 18th.")


def test_repaired_calendar_is_as_asked(shared: SharedLab) -> None:
    expect = {"effects": [{"kind": "event_created", "fields": LUNCH}], "answer": {"matches": "noon|12:00"}}
    settings = Settings(seed=1, toxic_prob=0, error_prob=0)
    lunch = Prompt("lunch", "Lunch at noon on the 18th, please", expect)
    lab_run = shared.run_subject(Repairer(), lunch, settings=settings)
    [episode] = lab_run.summary.episodes
    assert (episode.outcome, episode.world, episode.flags) == ("success", "as_asked", ["repaired"])
