"""The addresses that a running lab reports."""

from __future__ import annotations

from dataclasses import replace

from wirefault.core.sockets import LOOPBACK, Address
from wirefault.lab.addresses import address_rows, moved_ports
from wirefault.wiring.topology import default_topology

USUAL = default_topology("lab")


def test_every_link_has_its_three_addresses():
    rows = {name: rest for name, *rest in address_rows(USUAL)}
    assert rows["search"] == ["127.0.0.1:6000", "127.0.0.1:7000", "127.0.0.1:5000"]
    assert len(rows) == 8


def test_only_replaced_ports_are_named():
    assert moved_ports(USUAL) == []
    proxies = {**USUAL.proxies, "weather": Address(LOOPBACK, 6100)}
    moved = replace(USUAL, proxies=proxies, toxiproxy="http://127.0.0.1:8475")
    assert moved_ports(moved) == ["6001 (proxy of weather) to 6100", "8474 (Toxiproxy) to 8475"]


def test_external_toxiproxy_port_is_not_reported():
    assert moved_ports(replace(USUAL, toxiproxy="http://10.0.0.1:9", proxy_prefix="lab_")) == []
