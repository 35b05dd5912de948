"""Exhausted budgets refuse like the provider and are recorded as budgets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from tests.dialects.forms import FORMS, TEXT, Form
from tests.gateway.lab import Lab, gateway
from tests.gateway.test_usage import Model
from tests.support import PATIENCE_S, until
from tests.upstream import Upstream
from wirefault.dialects.http import Reply, json_reply
from wirefault.history.events import BudgetSpent, BudgetUnknown, BudgetWarned, Exchange
from wirefault.settings.budgets import Budget, EpisodeBudget

PRICES = "m: {input: 1000000, output: 0}\n"  # a dollar for each token of the request
UNPRICED = json_reply(200, {"model": "x", "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
FORM = FORMS[0]
# status and type of an exhausted quota, and of one answered with 402
QUOTA = {
    "openai_chat": 429,
    "openai_responses": 429,
    "anthropic": 402,
    "gemini": 429,
    "ollama": 429,
    "bedrock": 400,
}


@dataclass
class Gate:
    lab: Lab
    model: Model

    def begin(self, budgets: dict[str, Any], form: Form = FORM, **settings: Any) -> None:
        self.model.reply = form.reply(TEXT)
        self.lab.begin(budgets=json.dumps(budgets), **settings)

    def ask(self, form: Form = FORM) -> requests.Response:
        request = form.request()
        url = self.lab.url("model", request.target)
        headers = {**dict(request.headers), "Connection": "close"}
        return requests.post(url, data=request.body, headers=headers, timeout=PATIENCE_S)

    def statuses(self, count: int, form: Form = FORM) -> list[int]:
        """Send that many requests, each once the one before it is in the history; return their statuses."""
        statuses = []
        for number in range(1, count + 1):
            statuses.append(self.ask(form).status_code)
            until(lambda n=number: len(self.events_of(Exchange)) >= n, "the exchange")
        return statuses

    def events_of(self, kind: type) -> list[Any]:
        return [event for event in self.lab.recorded() if isinstance(event, kind)]


@pytest.fixture(scope="module")
def gate(tmp_path_factory) -> Iterator[Gate]:
    model = Model()
    upstream = Upstream(model.serve)
    folder = tmp_path_factory.mktemp("budgets")
    with upstream, gateway(folder, model=upstream.address, search=upstream.address) as lab:
        yield Gate(lab, model)


def rows(events: list[Any]) -> list[tuple[str, float, float]]:
    return [(event.budget, event.used, event.limit) for event in events]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_used_up_tokens_are_refused_as_by_provider(gate, form):
    gate.begin({"episode": {"tokens": 32}}, form)
    assert gate.statuses(3, form) == [200, 200, QUOTA[form.dialect]]
    refused = gate.events_of(Exchange)[-1]
    assert [(hit.id, hit.kind, hit.injected) for hit in refused.faults] == [
        ("budget:episode.tokens", "quota", True)
    ]
    assert not refused.forwarded and not refused.unavailable
    assert rows(gate.events_of(BudgetSpent)) == [("episode.tokens", 32, 32)]
    assert rows(gate.events_of(BudgetWarned)) == [("episode.tokens", 32, 32)]


def test_without_budget_nothing_is_refused(gate):
    gate.model.reply = FORM.reply(TEXT)
    gate.lab.begin()
    assert gate.statuses(3) == [200, 200, 200] and not gate.events_of(BudgetWarned)


USED_UP = [
    ({"tokens": 32}, [200, 200, 429], ("tokens", 32, 32)),
    ({"calls": 2}, [200, 200, 429], ("calls", 2, 2)),
    ({"cost": 17.5}, [200, 200, 429], ("cost", 18, 17.5)),
    ({"requests_a_minute": 1}, [200, 429, 429], ("requests_a_minute", 1, 1)),
    ({"tokens": 1000, "calls": 1}, [200, 429, 429], ("calls", 1, 1)),
]


@pytest.mark.parametrize(
    ("budget", "statuses", "used"),
    USED_UP,
    ids=["tokens", "calls", "cost", "requests a minute", "the first of two"],
)
@pytest.mark.parametrize("scope", ["episode", "run"])
def test_each_budget_changes_result(gate, scope, budget, statuses, used):
    gate.begin({scope: budget}, prices=PRICES)
    assert gate.statuses(3) == statuses
    name, *figures = used
    assert rows(gate.events_of(BudgetSpent)) == [(f"{scope}.{name}", *figures)]


def test_rate_has_retry_after_and_used_up_budget_does_not(gate):
    gate.begin({"episode": {"requests_a_minute": 1}})
    assert gate.statuses(1) == [200] and 0 < float(gate.ask().headers["Retry-After"]) <= 60
    gate.begin({"episode": {"calls": 1}})
    assert gate.statuses(1) == [200] and "Retry-After" not in gate.ask().headers


def test_each_episode_has_budget_and_run_one(gate):
    gate.begin({"episode": {"calls": 2}, "run": {"calls": 3}})
    assert gate.statuses(3) == [200, 200, 429]
    gate.lab.settle()
    begin = {
        "run_id": gate.lab.run_id,
        "settings_hash": gate.lab.settings.hash,
        "episode": "e2",
        "attempt": 1,
    }
    assert gate.lab.control("PUT", "/lanes/0", begin).status_code == 200
    assert [gate.ask().status_code for _ in range(2)] == [200, 429]
    spent = until(lambda: len(events := gate.events_of(BudgetSpent)) == 2 and events, "both")
    assert [(event.budget, event.episode) for event in spent] == [
        ("episode.calls", "e1"),
        ("run.calls", "e2"),
    ]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_degrading_budget_slows_then_429_then_402(gate, form):
    gate.begin({"episode": {"calls": 4}, "mode": "degrading"}, form)
    assert gate.statuses(9, form) == [200] * 4 + [429] * 3 + [402] * 2
    delays = [hit.delay_ms for exchange in gate.events_of(Exchange)[:4] for hit in exchange.faults]
    # three quarters are used up before the last of four; the loop's clock ticks in milliseconds
    assert len(delays) == 1 and delays[0] >= 499
    refusals = [exchange.retry_after for exchange in gate.events_of(Exchange)[4:]]
    assert refusals == [1.0] * 3 + [None] * 2


def test_run_past_its_time_budget_is_refused(gate):
    gate.begin({"run": {"time": "200ms"}})
    assert gate.ask().status_code == 200
    until(lambda: gate.ask().status_code == 429, "the end of its time")
    [spent] = until(lambda: gate.events_of(BudgetSpent), "its record")
    assert (spent.budget, spent.limit) == ("run.time", 0.2) and spent.used >= 0.2


def test_unwritable_budget_makes_lane_unready(gate):
    gate.begin({"run": {"calls": 2}, "pool": "spoilt"})
    (gate.lab.folder / "budgets" / "spoilt.json").write_text("[]")
    gate.ask()
    settled = gate.lab.control("POST", "/lanes/0/settle", {"episode": "e1", "attempt": 1, "bound_s": 2})
    assert settled.status_code == 503 and "spoilt.json is not a budget" in settled.text


def test_warning_comes_at_configured_share(gate):
    gate.begin({"episode": {"calls": 4}, "warn_at": 0.5})
    gate.statuses(3)
    assert rows(gate.events_of(BudgetWarned)) == [("episode.calls", 2, 4)] and not gate.events_of(BudgetSpent)


@pytest.mark.parametrize("scope", ["episode", "run"])
def test_only_one_of_two_concurrent_requests_is_admitted(gate, scope):
    stream = FORMS[1]
    gate.begin({scope: {"concurrent": 1}}, stream)
    gate.model.acknowledged = threading.Semaphore(0)
    request = stream.request()
    url = gate.lab.url("model", request.target)
    headers = {**dict(request.headers), "Connection": "close"}
    with requests.post(url, data=request.body, headers=headers, stream=True, timeout=PATIENCE_S) as first:
        second = gate.ask(stream)
        gate.model.acknowledged.release(1000)
        assert (first.status_code, second.status_code, first.content[:5]) == (200, 429, b"data:")
    gate.model.acknowledged = None
    until(lambda: len(gate.events_of(Exchange)) == 2, "both")
    assert gate.ask(stream).status_code == 200
    assert rows(gate.events_of(BudgetSpent)) == [(f"{scope}.concurrent", 1, 1)]


UNCOUNTABLE = [
    (json_reply(200, {"choices": []}), {"tokens": 1000}, "no_usage"),
    (json_reply(200, {"choices": []}), {"cost": 1000.0}, "no_usage"),
    (UNPRICED, {"cost": 1.0}, "no_price"),
]


@pytest.mark.parametrize(("reply", "budget", "why"), UNCOUNTABLE, ids=["tokens", "cost", "price"])
@pytest.mark.parametrize("scope", ["episode", "run"])
def test_uncountable_usage_is_recorded_and_not_refused(gate, scope, reply: Reply, budget, why):
    gate.begin({scope: budget}, prices=PRICES)
    gate.model.reply = reply
    assert gate.statuses(2) == [200, 200]
    [unknown] = gate.events_of(BudgetUnknown)
    assert (unknown.budget, unknown.why) == (f"{scope}.{next(iter(budget))}", why)


def test_every_gateway_budget_is_tested():
    """The runner limits time and memory of an episode: tests/subjects/test_budgeted.py."""
    used_up = {name for budget, *_ in USED_UP for name in budget}
    assert used_up | {"concurrent", "time"} == set(Budget.model_fields)
    assert set(EpisodeBudget.model_fields) - set(Budget.model_fields) == {"memory"}
    # the gateway counts calls itself: only usage that a reply reports can be missing
    assert {name for _, budget, _ in UNCOUNTABLE for name in budget} == {"tokens", "cost"}


@pytest.mark.parametrize(
    "target", ["/v1/messages/count_tokens", "/v1beta/models/m:countTokens", "/v1/responses/input_tokens?x=1"]
)
def test_free_requests_are_not_counted(gate, target):
    gate.begin({"episode": {"calls": 1, "tokens": 1}})
    for _ in range(2):
        response = requests.post(gate.lab.url("model", target), data=b"{}", timeout=PATIENCE_S)
        assert response.status_code == 200
    assert gate.statuses(1) == [200] and not gate.events_of(BudgetUnknown)


def test_error_of_model_costs_nothing(gate):
    gate.begin({"episode": {"tokens": 1}})
    gate.model.reply = json_reply(500, {"error": {}})
    assert gate.statuses(2) == [500, 500] and not gate.events_of(BudgetUnknown)


@pytest.mark.parametrize(
    ("links", "at_tool", "at_model"), [("models", 200, 429), ("tools", 429, 200), ("all", 429, 429)]
)
def test_budget_scope_selects_counted_calls(gate, links, at_tool, at_model):
    gate.begin({"episode": {"calls": 1}, "links": links})
    tool = [requests.get(gate.lab.url("search", "/x"), timeout=PATIENCE_S) for _ in range(2)]
    assert tool[1].status_code == at_tool
    gate.ask()
    assert gate.ask().status_code == at_model


def test_runs_of_one_pool_share_their_budget(gate):
    for expected in ([200, 200], [429, 429]):
        gate.begin({"run": {"calls": 2}, "pool": "an-arm"})
        assert gate.statuses(2) == expected
    gate.begin({"run": {"calls": 2}, "pool": "another"})
    assert gate.statuses(2) == [200, 200]
