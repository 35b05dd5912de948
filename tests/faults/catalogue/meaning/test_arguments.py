"""``changed_arguments``: what the tool gets, over HTTP and MCP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faults.tries import a_try, keyed
from wirefault.dialects.http import JSON_TYPE, Request
from wirefault.faults.base import Act, Miss
from wirefault.faults.catalogue.meaning.arguments import ChangedArguments

ORDER = {"item": "red apple", "count": 2}


def sent_on(fault: ChangedArguments, body: Any, seed: int = 1) -> Any:
    """The body that the tool gets."""
    request = Request(JSON_TYPE, json.dumps(body).encode(), "POST", "/orders")
    act = fault.act(a_try(request=request, chance=keyed(seed)))
    assert isinstance(act, Act) and act.request is not None
    return json.loads(act.request.body)


@pytest.mark.parametrize("seed", range(20))
def test_one_argument_gets_another_value_of_its_type(seed: int) -> None:
    changed = sent_on(ChangedArguments(), ORDER, seed)
    assert {name: type(value) for name, value in changed.items()} == {"item": str, "count": int}
    assert sum(changed[name] != ORDER[name] for name in ORDER) == 1


def test_kinds() -> None:
    assert sent_on(ChangedArguments(kind="missing", argument="count"), ORDER) == {"item": "red apple"}
    assert sent_on(ChangedArguments(kind="type", argument="count"), ORDER)["count"] == "2"
    assert set(sent_on(ChangedArguments(kind="extra"), ORDER)) == {"item", "count", "options"}


def test_on_mcp_it_changes_the_tools_arguments() -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "order", "arguments": ORDER},
    }
    changed = sent_on(ChangedArguments(argument="count"), call)
    assert changed["params"]["arguments"]["count"] != 2
    assert {**changed, "params": {**changed["params"], "arguments": ORDER}} == call


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"city=Zurich", b'{"city": "x"'])
def test_request_without_arguments_passes(body: bytes) -> None:
    tried = a_try(request=Request((), body, "POST", "/orders"))
    assert ChangedArguments().act(tried) == Miss("nothing_to_change")
