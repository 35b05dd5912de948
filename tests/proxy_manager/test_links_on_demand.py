"""Links that are asked for while an attempt is in progress."""

from __future__ import annotations

import socket

from tests.gateway.lab import ask
from tests.proxy_manager.rig import ARMED, Plane
from tests.upstream import Upstream, read_head
from wirefault.core.sockets import Address
from wirefault.history.events import LinkOpened
from wirefault.history.reader import read_file
from wirefault.history.writer import history_file
from wirefault.settings.episode_faults import plan_attempt
from wirefault.settings.settings import Settings
from wirefault.wiring.links import Link, found_link

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
HOST = ("shop.example.com", 443, "https")
SHOP = found_link(*HOST, ())
ALWAYS = Settings(seed=1, settle_bound=0.3, toxic_prob=1)
# the draws of a link hang on its name, and so on the port that its server has got
CALM = Settings(seed=1, settle_bound=0.3, toxic_prob=0, error_prob=0)


def answer(connection: socket.socket) -> None:
    read_head(connection)
    connection.sendall(REPLY)


def a_run(plane: Plane, settings: Settings) -> None:
    plane.state.insert_run("run-1", "lab", 0, settings.dump(), settings.hash, 1, plane.clock())


def wanted(plane: Plane, link: Link = SHOP):
    plane.state.found_links.want("lab", 0, link)
    plane.reconciler.step()
    [row] = plane.state.found_links.rows("lab", 0)
    return row


def opened(plane: Plane) -> list[LinkOpened]:
    path = history_file(plane.folder / "logs", "run-1", "manager", 0)
    return [event for event in read_file(path) if isinstance(event, LinkOpened)]


def test_link_passes_through_own_proxy_to_server(ready: Plane) -> None:
    a_run(ready, CALM)
    with Upstream(answer) as upstream:
        ready.arm([])
        row = wanted(ready, found_link(upstream.address.host, upstream.address.port, "http", ()))
        reply = ask(Address.parse(row.proxy), b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert row.status == "open" and reply == REPLY


def test_late_link_has_toxics_as_from_start(ready: Plane) -> None:
    a_run(ready, ALWAYS)
    ready.arm([])
    row = wanted(ready)
    planned = plan_attempt(ALWAYS, [SHOP.name], "001", 1, (), 0)
    [event] = opened(ready)
    assert event.toxics == planned and event.link == SHOP and len(planned) == 1
    state = ready.client.proxies()[ready.proxies._topology.proxy_name(SHOP.name)]
    assert row.status == "open"
    assert planned[0].kind in ({t.kind for t in state.toxics} | ({"down"} if not state.enabled else set()))


def test_toxics_of_other_links_are_unchanged(ready: Plane) -> None:
    ready.arm()
    wanted(ready)
    assert ready.toxics() == ARMED
    assert ready.finish(1).disturbed == ()


def test_links_end_with_attempt(ready: Plane) -> None:
    a_run(ready, ALWAYS)
    attempt_id = ready.arm([])
    wanted(ready)
    ready.finish(attempt_id)
    state = ready.client.proxies()[ready.proxies._topology.proxy_name(SHOP.name)]
    assert state.enabled and not state.toxics


def test_successor_keeps_link(ready: Plane) -> None:
    ready.arm([])
    row = wanted(ready)
    successor = ready.make(ready.state)
    successor.restore_links()
    assert row.link.name in ready.proxies.links and ready.proxies.misplaced(ready.proxies.observe()) == []
    successor.close()


def test_restarted_lab_reopens_link(ready: Plane) -> None:
    """In Compose the next lab has the same name, and its state has the ports of the last one."""
    gone = ("127.0.0.1:1", "127.0.0.1:2")
    ready.state.found_links.want("lab", 0, SHOP)
    ready.state.found_links.mark_open("lab", 0, SHOP.name, *gone)
    ready.reconciler.restore_links()
    [row] = ready.state.found_links.rows("lab", 0)
    state = ready.client.proxies()[ready.proxies._topology.proxy_name(SHOP.name)]
    assert (row.status, row.gateway, row.proxy) == ("open", state.upstream, state.listen)
    assert gone[0] != row.gateway and gone[1] != row.proxy


def test_proxy_follows_gateway(ready: Plane) -> None:
    ready.arm([])
    wanted(ready)
    ready.proxies.add(SHOP, Address("127.0.0.1", 9))
    state = ready.client.proxies()[ready.proxies._topology.proxy_name(SHOP.name)]
    assert state.upstream == "127.0.0.1:9"


def test_open_failure_is_reported_to_waiter(ready: Plane) -> None:
    ready.arm([])
    row = wanted(ready, Link("shop", "ftp://shop.example.com:no", found=True))
    assert row.status == "failed" and row.reason
