"""Reachability between containers, and their privileges."""

from __future__ import annotations

import json
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.compose.engine import docker
from tests.compose.rig import LONG_LIVED, Lab
from wirefault.core.sockets import CONTROL_PORT, MANAGER_PORT, TOXIPROXY_PORT, UI_PORT
from wirefault.wiring.links import lab_links

pytestmark = pytest.mark.compose

PORTS = [
    *(port for link in lab_links() for port in (link.port, link.port + 1000, link.port + 2000)),
    *(CONTROL_PORT, MANAGER_PORT, TOXIPROXY_PORT, UI_PORT),
]
# the services' user; init may do this as root
PLAIN, INIT = "0000000000000000", ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]
STATUS_OF_SLEEP = """
from pathlib import Path

for path in Path("/proc").glob("[0-9]*/status"):
    try:
        text = path.read_text()
    except OSError:  # a process that has ended
        continue
    if "Name:\\tsleep" in text:
        print(text)
"""
CONNECT = """
import errno, functools, json, socket
from concurrent.futures import ThreadPoolExecutor

@functools.cache
def address(name):
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None

def outcome(target):
    if address(target[0]) is None:
        return "unknown"
    try:
        socket.create_connection((address(target[0]), target[1]), {timeout}).close()
        return "open"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))

targets = {targets}
with ThreadPoolExecutor(100) as pool:
    list(pool.map(address, {{name for name, port in targets}}))
    print(json.dumps(list(pool.map(outcome, targets))))
"""
CONNECT_S = 0.7


def outcomes(output: str, targets: list[tuple[str, int]]) -> dict[tuple[str, int], str]:
    return dict(zip(targets, json.loads(output.splitlines()[-1]), strict=True))


def from_agent(lab: Lab, targets: list[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """How a connection to each of these ends that the agent's container tries to open."""
    code = shlex.quote(CONNECT.format(targets=targets, timeout=CONNECT_S))
    return outcomes(lab.play(f"docker compose run --rm --no-deps agent python -c {code}").stdout, targets)


def from_service(lab: Lab, service: str, *targets: tuple[str, int]) -> dict[tuple[str, int], str]:
    return outcomes(
        lab.python(service, CONNECT.format(targets=list(targets), timeout=CONNECT_S)), list(targets)
    )


def addresses(lab: Lab) -> dict[str, set[str]]:
    """The names and addresses of each service, in every network."""
    return {
        service: {
            name
            for network in container["NetworkSettings"]["Networks"].values()
            for name in (network["IPAddress"], *(network["Aliases"] or ()))
            if name
        }
        for service, container in lab.containers().items()
    }


def test_agent_reaches_proxies_only(lab: Lab) -> None:
    targets = [(name, port) for names in addresses(lab).values() for name in sorted(names) for port in PORTS]
    opened = {target for target, how in from_agent(lab, targets).items() if how == "open"}
    proxies = {link.port + 1000 for link in lab_links()}
    assert {port for _, port in opened} == proxies
    assert {name for name, _ in opened} <= addresses(lab)["toxiproxy"]


def test_services_reach_ports_closed_to_agent(lab: Lab) -> None:
    tools = [(link.service, link.port) for link in lab_links()]
    assert set(from_service(lab, "gateway", *tools).values()) == {"open"}


def test_only_gateway_and_translator_reach_internet(lab: Lab) -> None:
    ways = {
        service for service in lab.containers() for network in networks(lab, service) if leads_out(network)
    }
    assert ways == {"gateway", "translator_tool"}


def test_host_server_is_unreachable(lab: Lab) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listener:
        target = (own_address(), listener.getsockname()[1])
        socket.create_connection(target, CONNECT_S).close()
        assert from_agent(lab, [target])[target] != "open"
        for service in ("search_tool", "calendar_tool", "message_tool", "model"):
            assert from_service(lab, service, target)[target] != "open"


def own_address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


def networks(lab: Lab, service: str) -> list[dict[str, Any]]:
    """`docker network inspect` of those that the service is on."""
    names = lab.container(service)["NetworkSettings"]["Networks"]
    return list(json.loads(docker("network", "inspect", *names)))


def leads_out(network: dict[str, Any]) -> bool:
    masquerades = network["Options"].get("com.docker.network.bridge.enable_ip_masquerade") != "false"
    return network["Driver"] != "null" and not network["Internal"] and masquerades


def test_ui_and_manager_are_published_on_loopback_alone(lab: Lab) -> None:
    published = {
        (service, port, binding["HostIp"])
        for service, container in lab.containers().items()
        for port, bindings in (container["NetworkSettings"]["Ports"] or {}).items()
        for binding in bindings or ()
    }
    assert published == {
        ("proxy_mgr", f"{MANAGER_PORT}/tcp", "127.0.0.1"),
        ("ui", f"{UI_PORT}/tcp", "127.0.0.1"),
    }


@pytest.mark.parametrize("service", LONG_LIVED)
def test_service_runs_without_rights(lab: Lab, service: str) -> None:
    container = lab.container(service)
    lines = Path(f"/proc/{container['State']['Pid']}/status").read_text().splitlines()
    status = {name: value.split() for name, value in (line.split(":", 1) for line in lines)}
    assert set(status["Uid"]) == set(status["Gid"]) == {"10001"}
    assert [status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")] == [[PLAIN]] * 4
    assert status["NoNewPrivs"] == ["1"]
    assert container["HostConfig"]["ReadonlyRootfs"]


def test_agent_has_no_privileges(lab: Lab) -> None:
    code = shlex.quote("print(open('/proc/1/status').read()); open('/app/new', 'w')")
    done = lab.play(f"docker compose run --rm --no-deps agent python -c {code}")
    assert "Uid:\t10001\t10001\t10001\t10001" in done.stdout
    assert f"CapBnd:\t{PLAIN}" in done.stdout
    assert "Read-only file system: '/app/new'" in done.stderr


def test_only_init_is_root_with_few_capabilities(lab: Lab) -> None:
    containers: dict[str, dict[str, Any]] = lab.containers()
    roots = {
        service
        for service, container in containers.items()
        if container["Config"]["User"].split(":")[0] in ("", "0", "root")
    }
    assert roots == {"init"}
    assert sorted(containers["init"]["HostConfig"]["CapAdd"]) == INIT
    status = lab.python("init", STATUS_OF_SLEEP)
    assert "Uid:\t10001\t10001\t10001\t10001" in status and f"CapEff:\t{PLAIN}" in status
    assert all(container["HostConfig"]["CapDrop"] == ["ALL"] for container in containers.values())
    assert not any(container["HostConfig"]["Privileged"] for container in containers.values())
