"""Found links: model requests are recognised by their content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.dialects.forms import FORMS, TEXT, Form
from tests.faults.catalogue.clients.upstream import Answering, answering
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S, until
from wirefault.dialects.http import Reply, json_reply
from wirefault.state.state import State
from wirefault.wiring.links import Link, Links

FORM = pytest.mark.parametrize("form", FORMS, ids=str)
CHAT = FORMS[0]
SHOP_ORDER = {"model": "oak", "messages": ["for Bob"]}


@contextmanager
def lab_of(folder: Path, reply: Reply, *, recognised: bool = False) -> Iterator[tuple[Lab, Answering]]:
    """A lab with one link that was found, whose server gives the same reply to everything."""
    with ExitStack() as stack:
        server = stack.enter_context(answering(reply))
        link = Link("port", server.address.url, found=True)
        if recognised:
            link = Link("port", server.address.url, "anthropic", found=True, recognised=True)
        yield stack.enter_context(gateway(folder, links=Links([link], grows=True))), server


def ask(lab: Lab, form: Form = CHAT) -> requests.Response:
    request = form.request()
    url = lab.url("port", request.target)
    return requests.post(url, data=request.body, headers=dict(request.headers), timeout=PATIENCE_S)


def order(lab: Lab, path: str = "/orders") -> requests.Response:
    return requests.post(lab.url("port", path), json=SHOP_ORDER, timeout=PATIENCE_S)


def armed(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"faults": list(entries)}


@FORM
def test_model_request_is_recorded_as_such(tmp_path: Path, form: Form) -> None:
    with lab_of(tmp_path, form.reply(TEXT)) as (lab, _):
        lab.begin()
        for _ in range(2):
            ask(lab, form)
        first, again = lab.exchanges(2)
    assert first.dialect == form.dialect and first.of_model and not first.fingerprint
    assert (first.model, first.tokens_in, first.tokens_out) == ("m", 9, 7)
    assert (first.first_token_ms is not None) == form.stream
    assert [first.call, again.call] == [1, 2]


@FORM
def test_model_fault_answers_first_request_in_its_form(tmp_path: Path, form: Form) -> None:
    with lab_of(tmp_path, form.reply(TEXT)) as (lab, server):
        lab.begin(faults=armed({"fault": "overloaded", "links": "model"}))
        refused = ask(lab, form)
        order(lab)
        struck, plain = lab.exchanges(2)
    expected = form.model_dialect.errors["overloaded"]
    body = form.model_dialect.error_body(expected.type or "", "", code=expected.code)
    assert refused.status_code == expected.status and refused.json().keys() == body.keys()
    assert [fault.injected for fault in struck.faults] == [True]
    assert server.executed == 1 and not plain.faults and plain.dialect == "http"


@FORM
def test_fault_changes_content_of_reply(tmp_path: Path, form: Form) -> None:
    with lab_of(tmp_path, form.reply(TEXT)) as (lab, _):
        lab.begin(faults=armed({"fault": "refusing_progress", "links": "model"}))
        ask(lab, form)
        assert [fault.injected for fault in lab.exchange().faults] == [True]


def test_tool_fault_skips_model_requests(tmp_path: Path) -> None:
    with lab_of(tmp_path, CHAT.reply(TEXT)) as (lab, _):
        lab.begin(faults=armed({"fault": "server_error", "links": "tools"}))
        assert ask(lab).status_code == 200
        assert order(lab).status_code == 500
        assert order(lab, "/v1/chat/completions").status_code == 500
        question, *others = lab.exchanges(3)
    assert question.of_model and not question.faults
    assert [other.of_model for other in others] == [False, False]


def test_link_groups_are_counted_separately(tmp_path: Path) -> None:
    first = {"when": {"first": 1}}
    faults = armed(
        {"fault": "overloaded", "links": "model", **first},
        {"fault": "server_error", "links": "tools", **first},
    )
    with lab_of(tmp_path, CHAT.reply(TEXT)) as (lab, _):
        lab.begin(faults=faults)
        statuses = [
            ask(lab).status_code,
            order(lab).status_code,
            ask(lab).status_code,
            order(lab).status_code,
        ]
    assert statuses == [503, 500, 200, 200]


def test_fault_on_all_links_acts_on_both_groups(tmp_path: Path) -> None:
    with lab_of(tmp_path, CHAT.reply(TEXT)) as (lab, _):
        lab.begin(faults=armed({"fault": "unavailable", "links": "all"}))
        assert ask(lab).json()["error"]["code"] == "service_unavailable"
        assert order(lab).status_code == 503


def test_long_request_is_recognised_by_its_start(tmp_path: Path) -> None:
    image = [{"type": "image_url", "image_url": {"url": "data:" + "x" * 400_000}}]
    body = {"messages": [{"role": "user", "content": image}], "model": "m"}
    with lab_of(tmp_path, CHAT.reply(TEXT)) as (lab, _):
        lab.begin(faults=armed({"fault": "overloaded", "links": "model"}))
        reply = requests.post(lab.url("port", "/v1/chat/completions"), json=body, timeout=PATIENCE_S)
    assert reply.status_code == 503


def test_budget_of_model_requests_counts_them(tmp_path: Path) -> None:
    with lab_of(tmp_path, CHAT.reply(TEXT)) as (lab, _):
        lab.begin(budgets=json.dumps({"links": "models", "episode": {"calls": 1}}))
        assert [order(lab).status_code for _ in range(2)] == [200, 200]
        assert [ask(lab).status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    ("reply", "outage"),
    [
        (json_reply(503, {"error": {"message": "over capacity"}}), "it answered 503"),
        (json_reply(200, {"error": {"message": "over capacity"}}), "it answered 200 with an error"),
        (json_reply(401, {"error": {"message": "no key"}}), "it answered 401"),
        (Reply((("Content-Type", "text/html"),), b"<html><title>Hi</title></html>"), "with an HTML page"),
        (Reply((("Content-Type", "application/json"),), b""), "with an empty body"),
    ],
)
def test_failed_reply_is_provider_outage(tmp_path: Path, reply: Reply, outage: str) -> None:
    with lab_of(tmp_path, reply) as (lab, _):
        lab.begin()
        ask(lab)
        seen = lab.exchange()
    assert seen.unavailable and outage in seen.outage


def test_manager_is_notified_of_model_link(tmp_path: Path) -> None:
    with lab_of(tmp_path, CHAT.reply(TEXT)) as (lab, server), State(tmp_path / "state.db") as state:
        state.found_links.want("lab", 0, Link("port", server.address.url, found=True))
        lab.begin()
        order(lab)
        ask(lab)
        [link] = until(
            lambda: [row.link for row in state.found_links.rows("lab", 0) if row.link.is_model], "the link"
        )
    assert (link.dialect, link.recognised) == ("openai_chat", True)


def test_recognised_link_classifies_each_request(tmp_path: Path) -> None:
    with lab_of(tmp_path, CHAT.reply(TEXT), recognised=True) as (lab, _):
        lab.begin(faults=armed({"fault": "server_error", "links": "tools"}))
        assert [ask(lab).status_code, order(lab).status_code] == [200, 500]
        assert [each.dialect for each in lab.exchanges(2)] == ["openai_chat", "http"]
