"""The links of a wiring."""

from __future__ import annotations

import pytest

from tests.support import replace
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSetError, build_set
from wirefault.faults.sets.presets import preset
from wirefault.wiring.links import Link, Links, found_link, lab_links
from wirefault.wiring.topology import default_topology, listening_addresses


def test_ports_are_unique():
    ports = [address.port for _, address in listening_addresses(default_topology("lab"))]
    assert len(set(ports)) == len(ports)


def test_proxy_is_named_after_its_link_and_lane():
    assert lab_links()["search"].proxy_name() == "search_proxy"
    assert lab_links()["search"].proxy_name(3) == "search_proxy_3"


@pytest.mark.parametrize(
    ("name", "method", "path", "writes"),
    [
        ("calendar", "POST", "/events", True),
        ("calendar", "delete", "/events", True),
        ("calendar", "GET", "/events", False),
        ("message", "POST", "/message", True),
        ("message", "POST", "/events", False),
        ("search", "POST", "/serp", False),
    ],
)
def test_write_calls(name, method, path, writes):
    assert lab_links()[name].is_write(method, path) is writes


def test_declared_write_may_name_operation():
    link = Link("shop", "https://shop.example", writes=("POST /rpc place_*", "POST /orders"))
    assert link.is_write("POST", "/rpc", operation="place_order")
    assert not link.is_write("POST", "/rpc", operation="get_price")
    assert not link.is_write("POST", "/rpc")
    assert link.is_write("POST", "/orders", operation="anything")


def test_unknown_link_is_refused_with_nearest_name():
    with pytest.raises(KeyError, match="did you mean 'search'"):
        lab_links()["serch"]


@pytest.mark.parametrize(
    ("host", "port", "scheme", "name", "dialect", "upstream"),
    [
        ("api.openai.com", 443, "https", "openai", "openai_chat", "https://api.openai.com"),
        ("API.Anthropic.com.", 443, "https", "anthropic", "anthropic", "https://api.anthropic.com"),
        ("us.openai.azure.com", 443, "https", "azure_openai", "openai_chat", "https://us.openai.azure.com"),
        ("shop.example.com", 443, "https", "shop_example_com", "http", "https://shop.example.com"),
        ("shop.example.com", 80, "http", "shop_example_com", "http", "http://shop.example.com"),
        ("shop.example.com", 8443, "https", "shop_example_com", "http", "https://shop.example.com:8443"),
        ("127.0.0.1", 9000, "http", "port_9000", "http", "http://127.0.0.1:9000"),
        ("10.1.2.3", 80, "http", "host_10_1_2_3", "http", "http://10.1.2.3"),
        ("::1", 9000, "http", "port_9000", "http", "http://[::1]:9000"),
    ],
)
def test_link_is_named_after_its_host(host, port, scheme, name, dialect, upstream):
    link = found_link(host, port, scheme, ())
    assert (link.name, link.dialect, link.upstream, link.found) == (name, dialect, upstream, True)


def test_link_names_are_unique():
    long = "a" * 60 + ".example.com"
    first = found_link(long, 443, "https", ())
    second = found_link(long, 8443, "https", (first.name,))
    assert first.name != second.name and len(second.name) == 32


def test_preset_covers_found_links():
    links = Links((), grows=True)
    unread = preset("lost-replies", links)
    links_found = [
        found_link("shop.example.com", 443, "https", ()),
        found_link("api.openai.com", 443, "https", ()),
    ]
    struck = unread.on(links.adding(links_found))
    assert [entry.links for entry in struck.faults] == [("shop_example_com",), ("shop_example_com",)]
    assert struck.faults[0].writes_only == {"shop_example_com"}
    assert not struck.toxics  # a toxic would act on reads, too


def test_each_preset_is_valid_for_found_links():
    links = Links((), grows=True)
    links_found = [
        found_link("shop.example.com", 443, "https", ()),
        found_link("api.openai.com", 443, "https", ()),
    ]
    for name in ("moderate", "rate-limits", "broken-model", "bad-network", "heavy"):
        struck = preset(name, links).on(links.adding(links_found))
        on = {link for entry in (*struck.faults, *struck.toxics) for link in entry.links}
        assert on and on <= {"openai", "shop_example_com"}


def test_mcp_fault_may_name_found_tool_link():
    links = Links((), grows=True)
    entry = {"fault": "tool_error", "only": {"tool": "add"}}
    unread = build_set({"faults": [entry]}, "a test", REGISTRY, links)
    links_found = [found_link("127.0.0.1", 3001, "http", ()), found_link("api.openai.com", 443, "https", ())]
    [struck] = unread.on(links.adding(links_found)).faults
    assert struck.links == ("port_3001",) and struck.only.json_ == {"params.name": "add"}


@pytest.mark.parametrize("dialect", ["http", "openai_chat"])
def test_group_faults_only_its_requests_on_found_link(dialect):
    link = replace(found_link("127.0.0.1", 3001, "http", ()), dialect=dialect, recognised=dialect != "http")
    links = Links((), grows=True).adding([link])
    names = ["tools", "model", "writes", "all"]
    entries = [{"fault": "unavailable", "links": name} for name in names]
    struck = build_set({"faults": entries}, "a test", REGISTRY, links).on(links).faults
    sides = {
        name: [entry.strikes("port_3001", of_model=side) for side in (True, False)]
        for name, entry in zip(names, struck, strict=True)
    }
    assert [entry.links for entry in struck] == [("port_3001",)] * 4
    assert sides == {
        "tools": [False, True],
        "model": [True, False],
        "writes": [False, True],
        "all": [True, True],
    }


@pytest.mark.parametrize(("recognised", "on"), [(False, "tools"), (True, "model")])
def test_found_link_toxics_follow_its_group(recognised, on):
    link = found_link("127.0.0.1", 3001, "http", ())
    link = replace(link, dialect="ollama", recognised=True) if recognised else link
    links = Links((), grows=True).adding([link])
    entries = [
        {"toxic": "latency", "links": name, "with": {"latency": 9}, "id": name} for name in ("tools", "model")
    ]
    struck = build_set({"toxics": entries}, "a test", REGISTRY, links).on(links).toxics
    assert [entry.id for entry in struck if entry.links] == [on]


def test_tool_poisoning_of_found_server_is_refused():
    with pytest.raises(FaultSetError, match="poisoned_description is possible on no link"):
        build_set({"faults": [{"fault": "poisoned_description"}]}, "a test", REGISTRY, Links((), grows=True))


FOUND = Links((*(link for link in lab_links() if link.name == "weather"),), grows=True)


@pytest.mark.parametrize("name", ["port_9000", "openai", "api_shop_test", "shop", "weather_2"])
def test_link_may_be_named_before_it_is_found(name: str) -> None:
    assert FOUND.may_be_found(name) and not FOUND.why_never_found(name)
    assert not lab_links().may_be_found(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("api.openai.com", "name the link, not the server: openai"),
        ("127.0.0.1:9000", "name the link, not the server: port_9000"),
        ("[::1]:9000", "name the link, not the server: port_9000"),
        ("http://shop.test/orders", "name the link, not the server: shop_test"),
        ("OpenAI", "unknown link 'OpenAI'; did you mean 'openai'?"),
        ("wether", "unknown link 'wether'; did you mean 'weather'?"),
        ("tool", "unknown link 'tool'; did you mean 'tools'?"),
        ("no-such", "unknown link 'no-such'; valid: weather, tools"),
    ],
)
def test_impossible_server_name_is_explained(name: str, problem: str) -> None:
    assert FOUND.why_never_found(name).startswith(problem)


@pytest.mark.parametrize("host", ["tools", "model", "writes", "all"])
def test_found_link_is_never_named_like_a_group(host: str) -> None:
    assert found_link(host, 80, "http", ()).name == f"host_{host}"
