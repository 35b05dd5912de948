"""The services as one process."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import requests

from tests.support import PATIENCE_S, until
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import default_topology

pytestmark = pytest.mark.slow


@pytest.fixture
def launch(tmp_path):
    """Starts ``python -m flask_tools`` with its sockets handed over; gives the process and the addresses."""
    processes, sockets = [], []

    def start(*names, descriptors=(), **environ):
        listeners = {
            lab_links()[name].service: bind(Address(LOOPBACK, 0)) for name in names or lab_links().tool_names
        }
        sockets.extend(listeners.values())
        handed_over = {name: listener.fileno() for name, listener in listeners.items()}
        environ |= {"WIREFAULT_SOCKETS": json.dumps(handed_over), "EFFECTS_DB": str(tmp_path / "effects.db")}
        process = subprocess.Popen(
            [sys.executable, "-m", "flask_tools", *names],
            env={**os.environ, **environ},
            pass_fds=[*handed_over.values(), *descriptors],
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process, {name: bound_address(listener).url for name, listener in listeners.items()}

    yield start
    for process in processes:
        process.kill()
        process.communicate()
    for listener in sockets:
        listener.close()


def answer(url):
    try:
        return requests.get(url + "/", timeout=PATIENCE_S).json()
    except requests.ConnectionError:
        return None


def healthy(url):
    return until(lambda: answer(url), f"an answer of {url}") == {"status": "OK"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_services_are_served_until_signal(launch, number):
    process, urls = launch()
    assert all(healthy(url) for url in urls.values())
    process.send_signal(number)
    assert (process.wait(PATIENCE_S), process.stderr.read()) == (0, "")


def test_only_named_links_are_served(launch):
    _, urls = launch("weather", "message")
    assert all(healthy(url) for url in urls.values())
    assert requests.get(urls["weather_tool"] + "/weather?q=Oslo", timeout=PATIENCE_S).json()["name"] == "Oslo"


def test_closed_lifeline_ends_process(launch):
    reader, writer = os.pipe()
    process, urls = launch("weather", descriptors=[reader], WIREFAULT_LIFELINE=str(reader))
    os.close(reader)
    assert all(healthy(url) for url in urls.values())
    os.close(writer)
    assert (process.wait(PATIENCE_S), process.stderr.read()) == (0, "")


def run(*names, **environ):
    command = [sys.executable, "-m", "flask_tools", *names]
    return subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=PATIENCE_S
    )


@pytest.mark.parametrize(
    ("names", "environ", "message"),
    [
        (["whether"], {}, "whether"),
        (["weather", "model"], {}, "model"),
        (["translator"], {"TRANSLATOR_BACKEND": "babelfish"}, "TRANSLATOR_BACKEND"),
        ([], {"WIREFAULT_TOPOLOGY": "absent.json"}, "absent.json"),
    ],
)
def test_wrong_name_or_setting_is_one_line_and_exit_code_2(names, environ, message):
    result = run(*names, **environ)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert message in result.stderr


def test_taken_port_is_one_line_and_exit_code_1(tmp_path):
    with bind(Address(LOOPBACK, 0)) as taken:
        base = default_topology("lab-test")
        address = bound_address(taken)
        topology = replace(base, services={**base.services, "weather": address})
        topology.dump(tmp_path / "topology.json")
        result = run("weather", WIREFAULT_TOPOLOGY=str(tmp_path / "topology.json"))
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "weather_tool" in result.stderr and str(address) in result.stderr
