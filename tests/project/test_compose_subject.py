"""compose.subject.yaml, checked without Docker. tests/compose runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT
from wirefault.core.sockets import INGRESS_PORT, Address
from wirefault.settings.sources import INSTALLATION_VARIABLES
from wirefault.subjects.surroundings import function_variables
from wirefault.subjects.taps.opening import write_shared_files
from wirefault.subjects.taps.tap import FUNCTIONS, PRELOAD, Tap, proxy_tap, write_trust
from wirefault.wiring.topology import topology_from

TEXT = (ROOT / "compose.subject.yaml").read_text(encoding="utf-8")
SERVICES = yaml.safe_load(TEXT)["services"]
SUBJECT = SERVICES["subject"]["environment"]
DIRECT = {"NO_PROXY", "no_proxy", "WIREFAULT_TAP_DIRECT"}
OF_FUNCTIONS = {"WIREFAULT_FUNCTIONS", "PYTHONPATH"}


@pytest.fixture
def tap(tmp_path: Path) -> Tap:
    trust = write_trust(tmp_path, "", {"JAVA_HOME": "unknown"})
    return proxy_tap(Address("ingress-proxy", INGRESS_PORT), trust)


def test_subject_has_variables_of_proxy_tap(tap: Tap, tmp_path: Path) -> None:
    wanted = {name: value.replace(str(tmp_path), "/wirefault") for name, value in tap.variables.items()}
    appended = {"NODE_OPTIONS", "JAVA_TOOL_OPTIONS"}
    assert {name: SUBJECT[name] for name in SUBJECT if name not in DIRECT | OF_FUNCTIONS | appended} == wanted
    assert appended == set(tap.appended)
    assert SUBJECT["NODE_OPTIONS"] == f"--require /wirefault/{PRELOAD.name}"
    java = tap.appended["JAVA_TOOL_OPTIONS"].replace(str(tmp_path), "/wirefault").split()
    assert {word for word in SUBJECT["JAVA_TOOL_OPTIONS"].split() if "nonProxyHosts" not in word} == {
        word for word in java if "nonProxyHosts" not in word
    }


def test_subject_calls_its_functions_through_ingress(tap: Tap) -> None:
    topology = topology_from(
        {"INGRESS_HOST": "ingress-proxy", "WIRING": str(ROOT / "examples/compose/wirefault.yaml")}
    )
    wanted = function_variables((), topology, tap, {})
    assert SUBJECT["WIREFAULT_FUNCTIONS"] == wanted["WIREFAULT_FUNCTIONS"]
    shared = wanted["PYTHONPATH"].replace(str(FUNCTIONS.parent), "/wirefault")
    assert SUBJECT["PYTHONPATH"] == f"${{SUBJECT_PYTHONPATH:-{shared}}}"


def test_each_file_named_by_variable_is_written(tmp_path: Path) -> None:
    write_shared_files(tmp_path, "")
    named = set(re.findall(r"/wirefault/([\w.]+)", " ".join(SUBJECT.values())))
    named.add("php.ini")  # by its folder, in PHP_INI_SCAN_DIR
    assert named == {file.name for file in tmp_path.iterdir()}


def test_own_servers_bypass_ingress() -> None:
    assert {SUBJECT[name] for name in DIRECT} == {"localhost,127.0.0.1,::1,proxies"}


def test_each_variable_is_allowed_in_env_file() -> None:
    assert set(re.findall(r"\$\{([A-Z_]+)", TEXT)) <= set(INSTALLATION_VARIABLES)


def test_ingress_and_subject_run_without_rights() -> None:
    for name in ("ingress", "subject"):
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
        assert "ports" not in SERVICES[name]
    assert SERVICES["ingress"]["read_only"]


def test_only_proxies_and_ingress_serve_subject_network() -> None:
    assert SERVICES["subject"]["networks"] == ["agent_side"]
    assert set(SERVICES["ingress"]["networks"]) == {"agent_side", "control"}
    assert SERVICES["proxy_mgr"]["networks"] == {"agent_side": {}}  # it serves on the network status
    assert not any("networks" in SERVICES[name] for name in ("gateway", "agent"))


def test_scripted_model_link_points_to_lab_container(tmp_path: Path) -> None:
    wiring = tmp_path / "wirefault.yaml"
    wiring.write_text(
        "links: {openai: {upstream: scripted, dialect: openai_chat}}\nintercept: {models: scripted}\n"
    )
    in_compose = {"WIRING": str(wiring), "SERVICES_HOST": "{service}", "PROXY_HOST": "proxies"}
    topology = topology_from(in_compose)
    assert topology.scripted == Address("model", 5007)
    assert topology.proxy_hosts == ("proxies", "proxies")
