"""docker-compose.yaml, checked without Docker. tests/compose runs it."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support import ROOT
from wirefault.core.sockets import MANAGER_PORT, UI_PORT
from wirefault.report.reproduce import COMPOSE_FILES, COMPOSE_LAB
from wirefault.settings.settings import NAMES
from wirefault.settings.sources import INSTALLATION_VARIABLES
from wirefault.wiring.links import lab_links

TEXT = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
FILE = yaml.safe_load(TEXT)
SERVICES = FILE["services"]
EXAMPLE = re.findall(r"^#([A-Z_]+)=", (ROOT / ".env.example").read_text(encoding="utf-8"), flags=re.MULTILINE)
KEYS = {"GROQ_API_KEY", "MODEL_API_KEY"}
RECOVERY = ("postgres", "redis", "conversation")
NATIVE_ONLY = {"TOXIPROXY_URL"}


def networks(service: str) -> set[str]:
    return set(SERVICES[service].get("networks", ()))


def test_file_has_services_of_lab():
    tools = {link.service for link in lab_links()}
    assert set(SERVICES) == tools | {
        "toxiproxy",
        "gateway",
        "proxy_mgr",
        "ui",
        "agent",
        "init",
        "charts",
        *RECOVERY,
    }
    assert [name for name in SERVICES if "profiles" in SERVICES[name]] == ["charts", *RECOVERY]


def test_only_agents_have_key_and_one_all_settings():
    passed = {name for name, value in SERVICES["agent"]["environment"].items() if value is None}
    assert passed == {name.upper() for name in NAMES} | KEYS
    assert [name for name in SERVICES if KEYS & set(SERVICES[name].get("environment", ()))] == [
        "agent",
        "conversation",  # it contains a whole lab
    ]


@pytest.mark.parametrize("name", [name for name in EXAMPLE if name not in NATIVE_ONLY])
def test_each_example_line_has_effect(name):
    texts = TEXT + (ROOT / "compose.subject.yaml").read_text(encoding="utf-8")
    assert re.search(rf"\$\{{{name}:-|^      {name}:$", texts, flags=re.MULTILINE)


def test_each_variable_is_allowed_in_env_file():
    assert set(re.findall(r"\$\{([A-Z_]+)", TEXT)) <= {
        *INSTALLATION_VARIABLES,
        *(name.upper() for name in NAMES),
    }


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_locked_down(name):
    service = SERVICES[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    prepares = name in ("init", "charts")
    assert ("cap_add" in service) == prepares
    assert str(service.get("user", "")).startswith("0:") == prepares
    assert "privileged" not in service and service["restart"] in ("no", "on-failure:3")


def test_run_names_compose_and_its_files():
    environ = SERVICES["agent"]["environment"]
    assert environ["LAB_ID"] == COMPOSE_LAB
    assert {name: environ[f"HOST_{name}"] for name in COMPOSE_FILES} == {
        name: f"${{{name}:-}}" for name in COMPOSE_FILES
    }


def test_agent_shares_network_with_toxiproxy_only():
    beside = {name for name in SERVICES if networks(name) & networks("agent")} - {"agent"}
    assert beside == {"toxiproxy"}
    [api] = [part.removeprefix("-host=") for part in SERVICES["toxiproxy"]["command"]]
    aliases = {
        name: set(network.get("aliases", ())) for name, network in SERVICES["toxiproxy"]["networks"].items()
    }
    assert [name for name in aliases if api in aliases[name]] == ["control"]


def test_only_gateway_translator_and_other_lab_reach_internet():
    def is_open(name):
        options = (FILE["networks"][name] or {}).get("driver_opts", {})
        closed = options.get("com.docker.network.bridge.enable_ip_masquerade") == "false"
        return not closed and not FILE["networks"][name].get("internal")

    ways_out = {name for name in FILE["networks"] if is_open(name)}
    assert {name for name in SERVICES if networks(name) & ways_out} == {
        "gateway",
        "translator_tool",
        "conversation",
    }
    assert all(networks(name) or SERVICES[name]["network_mode"] == "none" for name in SERVICES)


def test_ui_manager_and_conversation_are_published_on_loopback_alone():
    published = {name: SERVICES[name]["ports"] for name in SERVICES if "ports" in SERVICES[name]}
    assert published == {
        "proxy_mgr": [f"127.0.0.1::{MANAGER_PORT}"],
        "ui": [f"127.0.0.1:${{STATUS_PORT:-}}:{UI_PORT}"],
        "conversation": ["127.0.0.1:${RECOVERY_PORT:-8010}:${RECOVERY_PORT:-8010}"],
    }


def test_ui_only_reads_and_has_neither_token_nor_state():
    assert SERVICES["ui"]["volumes"] == ["./logs:/app/logs:ro"]
    assert networks("ui") == {"status"}
    assert not [name for name in SERVICES["ui"]["environment"] if "TOKEN" in name or "SECRET" in name]


def test_services_outlive_agent():
    awaited = [SERVICES[name].get("depends_on", {}) for name in SERVICES if "profiles" not in SERVICES[name]]
    conditions = {condition["condition"] for needed in awaited for condition in needed.values()}
    assert conditions == {"service_healthy", "service_started"}


@pytest.mark.parametrize("link", lab_links(), ids=lambda link: link.name)
def test_link_service_is_probed_at_its_port_and_awaited(link):
    assert SERVICES[link.service]["healthcheck"]["test"][-1] == f"127.0.0.1:{link.port}"
    assert SERVICES["proxy_mgr"]["depends_on"][link.service] == {"condition": "service_healthy"}


def test_probed_service_has_tmp():
    beside = yaml.safe_load((ROOT / "compose.subject.yaml").read_text(encoding="utf-8"))["services"]
    checks = [
        (service, service.get("healthcheck", {})) for service in [*SERVICES.values(), beside["ingress"]]
    ]
    probed = [service for service, check in checks if "test" in check]
    assert len(probed) == len(lab_links()) + len(("init", "gateway", "proxy_mgr", "ui", "ingress", *RECOVERY))
    assert all("/tmp" in service["tmpfs"] for service in probed)


@pytest.mark.parametrize("link", lab_links().tools, ids=lambda link: link.name)
def test_tool_container_serves_its_link_only(link):
    assert SERVICES[link.service]["command"] == ["python", "-m", "flask_tools", link.name]
    assert "tools" in networks(link.service)
