"""Names in a run's files that no server got."""

from __future__ import annotations

import pytest

from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSet, build_set
from wirefault.history.events import ConnectionEnded, NeverCalled
from wirefault.runner.never_called import NamingFiles, never_called
from wirefault.wiring.links import Links, found_link
from wirefault.wiring.prompts import Prompt
from wirefault.wiring.wiring import InterceptSpec

CALLED = Links((), grows=True).adding(
    [found_link("127.0.0.1", 9000, "http", ()), found_link("api.openai.com", 443, "https", ())]
)
REQUEST = {"link": "port_9009", "method": "POST", "path": "/orders"}
ORACLE = Prompt("p", "Order tea", {"requests": [REQUEST]}, tool_links=("port_9008",))


def connection(host: str, port: int, link: str) -> ConnectionEnded:
    return ConnectionEnded(
        0.0, link, "e", 1, 0.0, 1.0, None, 0, 0, "client", "fin", False, host, port, "proxy", not link
    )


CALLS = [
    connection("127.0.0.1", 9000, "port_9000"),
    connection("api.openai.com", 443, "openai"),
    connection("shop.test", 80, ""),
]


def names(fault_set: FaultSet = FaultSet(), *prompts: Prompt, used: bool = False, **hosts: list[str]):  # noqa: B008
    files = NamingFiles([fault_set], prompts, InterceptSpec(**hosts), draws_for_used=used)
    return never_called(files, CALLED, CALLS)


def faults(*links: str) -> FaultSet:
    entries = {"faults": [{"fault": "status", "links": list(links)}]}
    return build_set(entries, "f", REGISTRY, Links((), grows=True))


def test_message_names_called_links_and_similar_name() -> None:
    [missing] = names(faults("port_9000", "port_9001", "openai"))
    assert missing == NeverCalled("faults", "port_9001", ["port_9000", "openai", "shop.test:80"])
    assert missing.sentence == (
        "faults name 'port_9001', which the agent never called; it called: port_9000, openai, shop.test:80;"
        " did you mean 'port_9000'?"
    )
    assert NeverCalled("only", "x", []).sentence == (
        "only names 'x', which the agent never called; it called no server"
    )


def test_unused_oracle_links_are_named() -> None:
    assert [(n.by, n.name) for n in names(FaultSet(), ORACLE)] == [("expect", "port_9009")]
    assert ("tool_links", "port_9008") in [(n.by, n.name) for n in names(FaultSet(), ORACLE, used=True)]


@pytest.mark.parametrize(
    ("key", "pattern", "is_named"),
    [
        ("only", "*.example", True),
        ("only", "localhost:9000", False),
        ("pass", "prod.example", False),  # a precaution
        ("pass", "shop.tset", True),
        ("refuse", "port_9005", True),
        ("refuse", "shop.*", False),
    ],
)
def test_unused_hosts_are_named_unless_precautionary(key: str, pattern: str, is_named: bool) -> None:
    assert [(n.by, n.name) for n in names(**{key: [pattern]})] == ([(key, pattern)] if is_named else [])
