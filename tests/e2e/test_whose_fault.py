"""Runs whose outcome comes from the model server, a tool's backend or a fault, not from the agent."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import requests

from tests.dialects.forms import Form
from tests.dialects.sdks import CLIENTS, Sdk
from tests.dialects.server import ModelServer, model_server
from tests.e2e.lab import SETTINGS, SharedLab, sample
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.dialects.base import ModelReply
from wirefault.dialects.http import Reply, json_reply
from wirefault.settings.settings import Settings
from wirefault.subjects.results import answer_result
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


SAID = ModelReply("All good, as far as the forecast of the next three days can tell.")
PAGE = Reply((("Content-Type", "text/html"),), b"<html><head><title>502 Bad Gateway</title></head></html>")
ERROR = json_reply(200, {"error": {"message": "Provider returned error", "code": 502}})


def halfway(reply: Reply) -> Reply:
    """A JSON body that stops; a stream that stops between two events, as if that were its end."""
    events = list(reply.events())
    return reply.with_body(b"".join(events[:3]) if events else reply.body[: len(reply.body) // 2])


OUTAGES: dict[str, tuple[str, Callable[[Reply], Reply]]] = {
    "timeout": ("it answered 408", lambda _: json_reply(408, {"error": {"message": "too slow"}})),
    "error": ("it answered 200 with an error: Provider returned error", lambda _: ERROR),
    "page": ("it answered 200 with an HTML page: 502 Bad Gateway", lambda _: PAGE),
    "nothing": ("it answered 200 with an empty body", lambda reply: reply.with_body(b"")),
    "halfway": ("it answered 200 with a", halfway),
}


class Asker(Subject):
    """Asks the model once by an official client and answers in its words, as many programs do."""

    name = "asker"

    def __init__(self, sdk: Sdk, form: Form, server: ModelServer) -> None:
        self.sdk, self.form, self.server = sdk, form, server

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        outage = OUTAGES[prompt][1] if prompt in OUTAGES else None
        self.server.rewrite = lambda _, reply: outage(reply) if outage else reply
        with self.sdk.open(context.topology.proxies["model"].url) as client:
            reply, _ = client.ask(json.loads(self.form.request().body))
        return answer_result(reply.text)


@pytest.mark.parametrize(("sdk", "form"), CLIENTS, ids=str)
def test_model_outage_is_not_agent_failure(shared: SharedLab, sdk: Sdk, form: Form) -> None:
    rule = {"answer": {"contains": "All good"}}
    prompts = [Prompt(name, name, rule) for name in (*OUTAGES, "healthy")]
    with model_server(lambda _: SAID) as server:
        url = {"model": "compatible", "model_base_url": f"{server.address.url}/v1"}
        settings = Settings(**{**SETTINGS, **url})
        lab_run = shared.run_subject(Asker(sdk, form, server), *prompts, settings=settings)
    *failed, healthy = lab_run.summary.episodes
    for episode, (how, _) in zip(failed, OUTAGES.values(), strict=True):
        assert episode.outcome == "invalid" and episode.why.startswith(f"model_unavailable: {how}")
    assert healthy.outcome == "success"


class Painter(Subject):
    """Sends the model an image, which the scripted one cannot read; with ``body``, that instead."""

    name = "painter"

    def __init__(self, **body: object) -> None:
        image = {"type": "input_image", "image_url": "data:,"}
        self.body = body or {"model": "scripted", "input": [{"role": "user", "content": [image]}]}

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        url = context.topology.proxies["model"].url + "/v1/responses"
        with requests.Session() as session:
            session.post(url, json=self.body, timeout=10).raise_for_status()
        return SubjectResult("text", response="done")


def test_unsupported_scripted_request_is_lab_failure(shared: SharedLab) -> None:
    [episode] = shared.run_subject(Painter(), sample(TEMPERATURE), settings=Settings(seed=1)).summary.episodes
    assert episode.outcome == "invalid"
    assert episode.why.startswith(
        "scripted_model: it cannot answer this request: 'input.0.content.0': only text"
    )


def test_bad_request_is_agent_failure(shared: SharedLab) -> None:
    bad = Painter(model="scripted", input=None)
    assert shared.run_subject(bad, sample(TEMPERATURE), settings=Settings(seed=1)).outcomes == ["crash"]


def test_missing_backend_is_tool_failure(shared: SharedLab) -> None:
    lab_run = shared.run(sample("Good morning"), translator_backend="libre")
    assert lab_run.outcomes == ["invalid"]
    assert lab_run.summary.episodes[0].why == "upstream_unavailable: translator: it answered 503"


def test_agent_repeating_injected_value_is_misled(shared: SharedLab) -> None:
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
