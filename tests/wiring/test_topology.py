"""Addresses, the topology file and the sockets that a launcher hands over."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import PATIENCE_S
from wirefault.core.sockets import (
    LOOPBACK,
    SOCKETS_VARIABLE,
    Address,
    bind,
    bind_or_replace,
    bound_address,
    listen,
)
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import (
    TOPOLOGY_VARIABLE,
    Topology,
    default_topology,
    draw_lab_id,
    topology_from,
)

ANY_PORT = Address(LOOPBACK, 0)


@given(
    st.sampled_from(["127.0.0.1", "search_tool", "a.b-c.example", "::1", "fe80::1"]), st.integers(0, 65535)
)
def test_address_text_round_trips(host, port):
    assert Address.parse(str(Address(host, port))) == Address(host, port)


def test_url_of_ipv6_address_has_brackets():
    assert Address.parse("[::1]:80").url == "http://[::1]:80"


@pytest.mark.parametrize(
    "text",
    ["", "x", "x:", ":1", "x:y", "x:-1", "x:65536", "x:²", "a b:1", "a:b:1", "::1:80", "http://x:1", "x/y:1"],
)
def test_invalid_address_is_refused(text):
    with pytest.raises(ValueError, match="is not host:port"):
        Address.parse(text)


def test_topology_file_round_trips(tmp_path):
    topology = topology_from(
        {"LAB_ID": "lab-1", "PROXY_LISTEN_HOST": "0.0.0.0", "SERVICES_HOST": "{service}"}
    )
    topology.dump(tmp_path / "topology.json")
    assert Topology.load(tmp_path / "topology.json") == topology
    assert topology_from({TOPOLOGY_VARIABLE: str(tmp_path / "topology.json")}) == topology
    assert [path.name for path in tmp_path.iterdir()] == ["topology.json"]


def test_everything_is_on_loopback_by_default():
    topology = topology_from({"LAB_ID": "lab-1"})
    assert topology == default_topology("lab-1")
    addresses = [*topology.services.values(), *topology.proxies.values(), *topology.gateways.values()]
    assert {address.host for address in (*addresses, topology.manager, topology.control)} == {LOOPBACK}


def test_variables_set_party_hosts():
    topology = topology_from(
        {
            "SERVICES_HOST": "{service}",
            "PROXY_HOST": "toxiproxy",
            "GATEWAY_HOST": "gateway",
            "CONTROL_HOST": "gateway-control",
            "MANAGER_HOST": "manager",
            "TOXIPROXY_URL": "http://control:8474",
            "PROXY_LISTEN_HOST": "0.0.0.0",
        }
    )
    assert str(topology.services["search"]) == "search_tool:5000"
    assert str(topology.proxies["search"]) == "toxiproxy:6000"
    assert str(topology.gateways["search"]) == "gateway:7000"
    assert (str(topology.control), str(topology.manager)) == ("gateway-control:7070", "manager:8000")
    assert topology.toxiproxy == "http://control:8474"
    assert str(topology.listen_address("search")) == "0.0.0.0:6000"


def test_proxy_listens_at_dialled_address_by_default():
    topology = topology_from({"PROXY_LISTEN_HOST": "0.0.0.0"})
    moved = topology.with_proxies({row.name: Address(LOOPBACK, 1) for row in lab_links()})
    assert moved.listen_address("model") == Address(LOOPBACK, 1)


def test_lab_ids_differ():
    assert len({draw_lab_id() for _ in range(50)}) == 50
    assert topology_from({}).lab_id != topology_from({}).lab_id


def test_taken_port_is_replaced():
    with bind(ANY_PORT) as first, bind_or_replace(bound_address(first)) as second:
        assert bound_address(second).host == LOOPBACK
        assert bound_address(second).port != bound_address(first).port


def test_free_port_is_kept():
    with bind(ANY_PORT) as first:
        free = bound_address(first)
    with bind_or_replace(free) as again:
        assert bound_address(again) == free


def test_taken_port_is_error_if_required():
    with bind(ANY_PORT) as first, pytest.raises(OSError, match="in use"):
        bind(bound_address(first))


def test_concurrent_labs_get_separate_ports():
    with bind(ANY_PORT) as first:
        wanted = bound_address(first)
        with ThreadPoolExecutor(8) as pool:
            others = list(pool.map(bind_or_replace, [wanted] * 24))
    ports = {bound_address(other).port for other in others}
    for other in others:
        other.close()
    assert len(ports) == 24 and wanted.port not in ports


CHILD = """
import sys
from wirefault.core.sockets import Address, bound_address, listen
with listen("search_tool", Address("127.0.0.1", 1)) as listener:
    listener.setblocking(True)
    peer, _ = listener.accept()
    with peer:
        peer.sendall(str(bound_address(listener)).encode())
"""


@pytest.mark.slow
def test_child_serves_on_inherited_socket():
    with bind(ANY_PORT) as listener:
        environ = {**os.environ, SOCKETS_VARIABLE: json.dumps({"search_tool": listener.fileno()})}
        child = subprocess.Popen([sys.executable, "-c", CHILD], env=environ, pass_fds=[listener.fileno()])
        # connects before the child accepts: no wait for its start is needed
        with socket.create_connection(listener.getsockname(), timeout=PATIENCE_S) as peer:
            assert peer.recv(64).decode() == str(bound_address(listener))
    assert child.wait(timeout=PATIENCE_S) == 0


def test_server_without_inherited_socket_binds_address():
    environ = {SOCKETS_VARIABLE: json.dumps({"weather_tool": 99})}
    with listen("search_tool", ANY_PORT, environ) as listener:
        assert listener.getblocking() is False
        assert bound_address(listener).host == LOOPBACK


def test_listen_host_overrides_host():
    with listen("search_tool", Address("192.0.2.1", 0), {"LISTEN_HOST": LOOPBACK}) as listener:
        assert bound_address(listener).host == LOOPBACK


def test_non_socket_descriptor_is_os_error():
    with pytest.raises(OSError):
        listen("search_tool", ANY_PORT, {SOCKETS_VARIABLE: '{"search_tool": 99999}'})
