"""Models on any host under ``wirefault exec``: known by what is spoken, and look-alikes that are none."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.dialects.forms import TEXT, WRITERS
from tests.e2e.test_exec import Ran, port_link
from tests.examples.serving import Recorded, served
from tests.judging.findings.traced import findings_in
from wirefault.history.events import Exchange, RunStarted
from wirefault.wiring.links import Link
from wirefault.wiring.wiring import load_wiring

pytestmark = pytest.mark.slow

USER = {"role": "user", "content": "Order honey"}
CONTENTS = [{"role": "user", "parts": [{"text": "Order honey"}]}]
VERTEX = "/v1/projects/p/locations/eu/publishers"
# kind: path, body and dialect of a request to a stand-in
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "vllm": ("/v1/chat/completions", {"model": "m", "messages": [USER]}, "openai_chat"),
    "azure": ("/openai/deployments/m/chat/completions?api-version=1", {"messages": [USER]}, "openai_chat"),
    "responses": ("/v1/responses", {"model": "m", "input": "Order honey"}, "openai_responses"),
    "messages": ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": [USER]}, "anthropic"),
    "vertex": (f"{VERTEX}/google/models/m:generateContent", {"contents": CONTENTS}, "gemini"),
    "vertex_claude": (
        f"{VERTEX}/anthropic/models/m:rawPredict",
        {"anthropic_version": "vertex-2023-10-16", "max_tokens": 9, "messages": [USER]},
        "anthropic",
    ),
    "ollama": ("/api/chat", {"model": "m", "messages": [USER], "stream": False}, "ollama"),
    "ollama_generate": ("/api/generate", {"model": "m", "prompt": "Order honey", "stream": False}, "ollama"),
}
LOOK_ALIKES: dict[str, tuple[str, dict[str, Any]]] = {
    "sms": ("/v1/messages", {"messages": [{"to": "Bob", "text": "Hi"}]}),
    "survey": ("/surveys/5/responses", {"model": "T", "input": "good"}),
    "notice": ("/v1/chat/completions", {"model": "oak", "messages": ["for Bob"]}),
    "front_end": ("/api/chat", {"messages": [USER]}),
    "shop": ("/orders", {"model": "m", "messages": [USER]}),
}
AGENT = """
import json, sys, urllib.request
for url, body in json.loads(sys.argv[1]):
    for number in "12":
        headers = {"Content-Type": "application/json", "X-Number": number}
        request = urllib.request.Request(url, body.encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                reply.read()
            break
        except OSError as error:
            print("failed:", error)
"""
FIRST = {"only": {"header": {"X-Number": "1"}}}
FAULTS = {
    "faults": [
        {"fault": "lose_reply", "links": "model", "id": "of_models", **FIRST},
        {"fault": "lose_reply", "links": "tools", "id": "of_tools", **FIRST},
    ]
}


def stand_in(reply: dict[str, Any]) -> Callable[..., Iterable[bytes]]:
    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(reply).encode()]

    return answer


class Outcome:
    """The run, and by the kinds of servers their links."""

    def __init__(self, ran: Ran, servers: dict[str, Recorded], wiring: dict[str, Link]) -> None:
        self.ran = ran
        self.links = {kind: port_link(server) for kind, server in servers.items()}
        self.requests = {kind: server.requests for kind, server in servers.items()}
        self.recorded = {kind: wiring[link] for kind, link in self.links.items()}
        events = ran.events()
        [started] = [event for event in events if isinstance(event, RunStarted)]
        self.wired = {kind: started.wired[link] for kind, link in self.links.items()}
        self.repeated = [f.text for f in findings_in(events) if f.rule == "write_repeated"]
        self.exchanges: dict[str, list[Exchange]] = {
            kind: [e for e in events if isinstance(e, Exchange) and e.link == link]
            for kind, link in self.links.items()
        }


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    folder = tmp_path_factory.mktemp("models")
    replies = {kind: WRITERS[dialect].reply(TEXT) for kind, (_, _, dialect) in MODELS.items()}
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    with ExitStack() as stack:
        servers = {
            kind: stack.enter_context(served(stand_in(replies.get(kind, {"done": True}))))
            for kind in (*MODELS, *LOOK_ALIKES, "mixed")
        }
        requests = {kind: (path, body) for kind, (path, body, _) in MODELS.items()} | LOOK_ALIKES
        calls = [(servers[kind].url + path, json.dumps(body)) for kind, (path, body) in requests.items()]
        both = [requests[kind] for kind in ("vllm", "shop")]
        calls += [(servers["mixed"].url + path, json.dumps(body)) for path, body in both]
        options = ["--tap", "proxy", "--toxiproxy", "embedded", "--no-charts", "--faults", json.dumps(FAULTS)]
        record = ["--record", str(folder / "found.yaml"), "--"]
        ran = Ran(folder, *options, *record, sys.executable, str(folder / "agent.py"), json.dumps(calls))
        assert ran.code == 1, ran.stderr  # the orders that were sent again are a finding
        yield Outcome(ran, servers, {link.name: link for link in load_wiring(folder / "found.yaml").links})


@pytest.mark.parametrize("kind", MODELS)
def test_loopback_model_is_recognised_by_first_request(outcome: Outcome, kind: str) -> None:
    first, again = outcome.exchanges[kind]
    assert [first.dialect, again.dialect] == [MODELS[kind][2]] * 2
    assert [fault.id for fault in first.faults if fault.injected] == ["of_models"] and not again.faults
    assert (again.model, again.tokens_in, again.tokens_out) == ("m", 9, 7)
    assert outcome.wired[kind].is_model and outcome.recorded[kind].dialect == MODELS[kind][2]


@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_look_alike_is_not_model_link(outcome: Outcome, kind: str) -> None:
    first, again = outcome.exchanges[kind]
    assert [first.dialect, again.dialect] == ["http", "http"]
    assert [fault.id for fault in first.faults if fault.injected] == ["of_tools"]
    assert not outcome.wired[kind].is_model and outcome.recorded[kind].dialect == "http"


def test_mixed_server_is_classified_per_request(outcome: Outcome) -> None:
    exchanges = outcome.exchanges["mixed"]
    assert [each.dialect for each in exchanges] == ["openai_chat", "openai_chat", "http", "http"]
    struck = [[fault.id for fault in each.faults if fault.injected] for each in exchanges]
    assert struck == [["of_models"], [], ["of_tools"], []]
    warning = f"links.{outcome.links['mixed']}: it carries model requests and other calls"
    assert outcome.ran.stderr.count("it carries model requests") == 1 and warning in outcome.ran.stderr


def test_model_retry_is_not_repeated_write(outcome: Outcome) -> None:
    assert {len(requests) for requests in outcome.requests.values()} == {2, 4}
    calls = sorted(text.partition(" was sent again")[0] for text in outcome.repeated)
    paths = [path for path, _ in LOOK_ALIKES.values()]
    assert calls == sorted(f"POST {path}" for path in [*paths, "/orders"])
