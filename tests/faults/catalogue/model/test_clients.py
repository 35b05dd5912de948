"""Views of the official clients, and of ChatGroq in an agent, of each fault of the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.dialects.forms import CALL, CALLS, TEXT, ZURICH, Form
from tests.dialects.sdks import CLIENTS, column, open_clients
from tests.dialects.server import ModelServer, model_server
from tests.faults.catalogue.clients.seen import SEEN, row_of, saw
from tests.faults.catalogue.model.subject import script, subject
from tests.faults.catalogue.model.variants import VARIANTS
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S, paired
from wirefault.dialects.base import ModelReply
from wirefault.dialects.tool import TOOL
from wirefault.faults.catalogue.model import MODEL_FAULTS

pytestmark = pytest.mark.slow  # its clients wait for their time limits

CASES = [(name, {}) for name in (*TOOL.errors, *(fault.name for fault in MODEL_FAULTS))] + VARIANTS
# parameters that keep the tests short or fixed, and do not show in the row
QUIETLY: dict[str, dict[str, Any]] = {
    "stream_cut": {"after": 2},
    "stream_hang": {"after": 2},
    "stream_error": {"after": 2},
    "stream_hang (ping_every: 0.2)": {"limit": 3.0},
    "slow_first_token": {"ms": 50},
    "slow_first_token (ping_every: 0.2)": {"ms": 2500},
    "slow_tokens": {"ms": 5},
    "duplicate_event": {"nth": 2},
    "swap_events": {"nth": 2},
    "wrong_arguments": {"argument": "city"},
    "wrong_arguments (kind: extra)": {"argument": "unit"},
}
ANSWERS = ("hallucination", "incorrect_reasoning")
# an agent meets most faults once, at its first request; these stay, or need a later one
ALWAYS = (*TOOL.errors, "api_timeout", "context_length", "tool_use_failed", "content_filter")
LATER = ("incorrect_reasoning", "infinite_loop")
# seconds, where the fault is there to exceed them; the second one lets the beginning of the reply through
TIMEOUTS_S = {"api_timeout": 0.5, "stream_hang": 2.0, "slow_first_token": 2.0}
CASE = pytest.mark.parametrize(("name", "parameters"), CASES, ids=lambda value: str(value))
WITH_CLIENT = [(sdk, form, *case) for case, (sdk, form) in paired(CASES, CLIENTS)]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with model_server(partial(script, CALL)) as server:
        yield server


@pytest.fixture(scope="module")
def lab(tmp_path_factory, model) -> Iterator[Lab]:
    with gateway(tmp_path_factory.mktemp("lab"), model=model.address) as lab:
        yield lab


@pytest.fixture(scope="module")
def clients(lab) -> Iterator[dict[str, Any]]:
    with open_clients(lab.url("model", "")) as clients:
        yield clients


@pytest.fixture(scope="module")
def good() -> dict[Any, Any]:
    """Each client's reply without a fault, for each script of the model; asked for once."""
    return {}


@pytest.fixture(scope="module", params=[False, True], ids=["json", "stream"])
def agent(lab, request) -> Iterator[Any]:
    with subject(lab.url("model", ""), request.param) as agent:
        yield agent, column("ChatGroq agent", request.param)


def armed(name: str, parameters: dict[str, Any], when: dict[str, Any]) -> str:
    options = {**QUIETLY.get(name, {}), **QUIETLY.get(row_of(name, parameters), {}), **parameters}
    return json.dumps({"faults": [{"fault": name, "links": "model", "with": options, "when": when}]})


def timeout_s(name: str) -> float:
    return TIMEOUTS_S.get(name, PATIENCE_S)


def note(lab: Lab, name: str, parameters: dict[str, Any], client: str, words: str) -> None:
    """Note the client's view if the fault was injected, else the reason."""
    lab.settle()
    records = [records for exchange in lab.exchanges() for records in exchange.faults]
    injected = any(one.injected for one in records)
    SEEN.note(row_of(name, parameters), client, words if injected else f"not injected: {records[0].why_not}")


@pytest.mark.parametrize(("sdk", "form", "name", "parameters"), WITH_CLIENT, ids=lambda value: str(value))
def test_official_client_view(lab, model, clients, good, sdk, form: Form, name, parameters):
    variant = TEXT if name in ANSWERS and not parameters else asking(name, parameters)
    model.script = lambda _: variant
    client, body = clients[sdk.name], json.loads(form.request(ZURICH).body)
    client_name = column(sdk.name, form.stream)
    if (client_name, variant) not in good:
        lab.begin()
        good[client_name, variant] = client.ask(body)
    lab.begin(faults=armed(name, parameters, {}))
    words = saw(lambda: client.ask(body, timeout_s(name)), good[client_name, variant], lambda: client.tries)
    note(lab, name, parameters, client_name, words)


@CASE
def test_agent_view(lab, model, agent, good, name, parameters):
    subject, client = agent
    variant = asking(name, parameters)
    model.script = partial(script, variant)
    if (client, variant) not in good:
        lab.begin()
        good[client, variant] = subject.run()
    when = {} if name in ALWAYS else {"nth": "2-"} if name in LATER else {"nth": 1}
    lab.begin(faults=armed(name, parameters, when))
    runs: list[Any] = []
    words = saw(
        lambda: runs.append(subject.run(timeout_s(name))) or runs[0],
        good[client, variant],
        lambda: subject.tries,
    )
    if words.endswith("taken as good"):
        words = words.replace("changed answer taken as good", difference(good[client, variant], runs[0]))
    note(lab, name, parameters, client, words)


def asking(name: str, parameters: dict[str, Any]) -> ModelReply:
    return CALLS if name == "mixed_calls" or "between_calls" in parameters.values() else CALL


def difference(good: tuple[Any, str, str], run: tuple[Any, str, str]) -> str:
    """Result of the agent's run, in a few words."""
    (called, answer, text), usual = run, good[0]
    tools = "" if called == usual else f"tool called with {called}, " if called else "tool not called, "
    if len(called) > len(usual) and set(called) == set(usual):
        tools = f"tool called {len(called)} times, "
    return tools + ("reports" if answer else "ends with a text" if text.strip() else "ends with nothing")
