"""The links of a wiring."""

from __future__ import annotations

import pytest

from wirefault.wiring.lab import lab_links
from wirefault.wiring.topology import default_topology, listening_addresses


def test_no_two_parties_share_a_port():
    ports = [address.port for _, address in listening_addresses(default_topology("lab"))]
    assert len(set(ports)) == len(ports)


def test_a_proxy_is_named_after_its_link_and_lane():
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
def test_which_calls_write(name, method, path, writes):
    assert lab_links()[name].is_write(method, path) is writes


def test_an_unknown_link_is_refused_with_the_nearest_name():
    with pytest.raises(KeyError, match="did you mean 'search'"):
        lab_links()["serch"]
