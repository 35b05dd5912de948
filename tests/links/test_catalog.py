"""The table of links."""

from __future__ import annotations

import pytest

from windtunnel.links.catalog import (
    CONTROL_PORT,
    LINKS,
    MANAGER_PORT,
    TOXIPROXY_PORT,
    link,
)


def test_no_two_parties_share_a_port():
    ports = [port for row in LINKS for port in (row.port, row.proxy_port, row.gateway_port)]
    ports += [MANAGER_PORT, CONTROL_PORT, TOXIPROXY_PORT]
    assert len(set(ports)) == len(ports)


def test_a_proxy_is_named_after_its_link_and_lane():
    assert link("search").proxy_name() == "search_proxy"
    assert link("search").proxy_name(3) == "search_proxy_3"


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
def test_which_calls_write(name, method, path, writes):
    assert link(name).is_write(method, path) is writes


def test_an_unknown_link_is_refused_with_the_nearest_name():
    with pytest.raises(KeyError, match="did you mean 'search'"):
        link("serch")
