"""A plan is made true at the server, and nothing but the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from proxy_manager.proxies import LaneProxies, NotAsPlanned
from tests.proxy_manager.rig import ARMED, LATENCY, PLAN, Plane, a_plane, taken
from wirefault.core.sockets import Address, bound_address
from wirefault.toxiproxy.answers import ToxiproxyError
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import lab_links


@pytest.fixture
def plane(tmp_path: Path, toxiproxy: str) -> Iterator[Plane]:
    with a_plane(tmp_path, toxiproxy, gateway=False) as plane:
        yield plane
        plane.proxies.remove()


def test_each_link_has_proxy_before_gateway(plane: Plane) -> None:
    addresses = plane.proxies.ensure()
    proxies = plane.client.proxies()
    for link in lab_links():
        proxy = proxies[plane.name(link.name)]
        assert (proxy.listen, proxy.upstream) == (
            str(addresses[link.name]),
            str(plane.topology.gateways[link.name]),
        )


def test_recreated_proxies_keep_ports(plane: Plane) -> None:
    assert plane.proxies.ensure() == plane.proxies.ensure()
    assert LaneProxies(plane.client, plane.topology).ensure() == plane.proxies.ensure()


def test_taken_port_is_replaced(plane: Plane) -> None:
    with taken() as listener:
        address = bound_address(listener)
        topology = replace(plane.topology, proxies={**plane.topology.proxies, "search": address})
        assert LaneProxies(plane.client, topology).ensure()["search"].port not in (0, address.port)


def test_listen_and_dial_addresses_may_differ(plane: Plane) -> None:
    listen = dict.fromkeys(plane.topology.proxies, Address("127.0.0.1", 0))
    proxies = dict.fromkeys(listen, Address("toxiproxy", 0))
    addresses = LaneProxies(
        plane.client, replace(plane.topology, proxies=proxies, proxy_listen=listen)
    ).ensure()
    assert {address.host for address in addresses.values()} == {"toxiproxy"}


def test_name_cannot_fail_by_address(ready: Plane) -> None:
    with pytest.raises(ToxiproxyError, match="unresolved needs a tap"):
        ready.proxies.apply([PlannedToxic("search", "unresolved", "downstream", {"code": 2})])


def test_plan_is_applied_and_read_back(ready: Plane) -> None:
    assert [(row["link"], row["kind"]) for row in ready.proxies.apply(PLAN)] == [
        ("search", "latency"),
        ("weather", "down"),
        ("movie", "timeout"),
    ]
    assert ready.toxics() == ARMED


def test_consecutive_plans_heal_completely(ready: Plane) -> None:
    ready.proxies.apply(PLAN)
    ready.proxies.apply([replace(LATENCY, attributes={"latency": 700, "jitter": 0})])
    assert ready.toxics() == [("search", "latency")]
    assert ready.client.proxy(ready.name("search")).toxics[0].attributes["latency"] == 700
    assert ready.proxies.heal() == [] and ready.toxics() == []


def add(plane: Plane, link: str) -> None:
    plane.client.add_toxic(plane.name(link), "foreign", "latency", "downstream", {"latency": 1})


def remove(plane: Plane, link: str) -> None:
    for toxic in plane.client.proxy(plane.name(link)).toxics:
        plane.client.remove_toxic(plane.name(link), toxic.name)


def disable(plane: Plane, link: str) -> None:
    plane.client.set_enabled(plane.name(link), False)


def delete(plane: Plane, link: str) -> None:
    plane.client.delete_proxy(plane.name(link))


def retarget(plane: Plane, link: str) -> None:
    listen = plane.client.proxy(plane.name(link)).listen
    plane.client.delete_proxy(plane.name(link))
    plane.client.ensure_proxy(plane.name(link), listen, "127.0.0.1:9")


def move(plane: Plane, link: str) -> None:
    plane.client.delete_proxy(plane.name(link))
    plane.client.ensure_proxy(plane.name(link), "127.0.0.1:0", str(plane.topology.gateways[link]))


FOREIGN = [
    (add, "search: latency downstream is not planned"),
    (remove, "search: latency upstream is missing"),
    (disable, "search: its proxy is down"),
    (delete, "search: its proxy is gone"),
    (retarget, "search: its proxy has the upstream 127.0.0.1:9"),
    (move, "search: its proxy listens on"),
]


@pytest.mark.parametrize(("change", "words"), FOREIGN, ids=[change.__name__ for change, _ in FOREIGN])
def test_foreign_change_is_repaired_on_same_port(ready: Plane, change, words: str) -> None:
    before = ready.proxies.ensure()
    ready.proxies.apply(PLAN)
    change(ready, "search")
    assert words in "; ".join(ready.proxies.differences(PLAN, ready.proxies.observe()))
    ready.proxies.apply(PLAN)
    assert ready.proxies.differences(PLAN, ready.proxies.observe()) == []
    assert ready.toxics() == ARMED
    assert {link: proxy.listen for link, proxy in ready.proxies.observe().items()} == {
        link: str(address) for link, address in before.items()
    }


def test_ignored_request_is_error(ready: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToxiproxyClient, "add_toxic", lambda *_: None)
    with pytest.raises(NotAsPlanned, match="search: latency upstream is missing"):
        ready.proxies.apply([LATENCY])


def test_only_own_proxies_are_removed(ready: Plane) -> None:
    others = ready.client.ensure_proxy("somebody_else_s", "127.0.0.1:0", "127.0.0.1:9")
    ready.client.add_toxic(others.name, "theirs", "latency", "upstream", {"latency": 5})
    ready.proxies.heal()
    ready.proxies.remove()
    left = ready.client.proxies()
    assert [toxic.name for toxic in left[others.name].toxics] == ["theirs"]
    assert not any(name.startswith(ready.topology.proxy_prefix) for name in left)
    ready.client.delete_proxy(others.name)
