"""The environment of a subject: where its links are, and which attempt it works on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wirefault.core.identity import Identity, parse_baggage
from wirefault.core.sockets import Address
from wirefault.subjects.surroundings import attempt_environ, link_address, run_environ
from wirefault.wiring.links import Link
from wirefault.wiring.topology import default_topology

PROXIES = {name: Address("127.0.0.1", 6000) for name in ("model", "shop")}
TOPOLOGY = replace(default_topology("lab"), proxies=PROXIES)
AT = "http://127.0.0.1:6000"


@pytest.mark.parametrize(
    ("upstream", "dialect", "address"),
    [
        ("scripted", "openai_chat", f"{AT}/v1"),
        ("scripted", "openai_responses", f"{AT}/v1"),
        ("scripted", "anthropic", AT),
        ("scripted", "gemini", AT),
        ("https://api.openai.com/v1", "openai_chat", f"{AT}/v1"),
        ("https://api.groq.com/openai/v1/", "openai_chat", f"{AT}/openai/v1"),
        ("https://api.anthropic.com", "anthropic", AT),
    ],
)
def test_link_address_has_expected_path(upstream: str, dialect: str, address: str) -> None:
    assert link_address(Link("model", upstream, dialect), TOPOLOGY) == address


@pytest.mark.parametrize(
    ("dialect", "environ_before", "key"),
    [
        ("openai_chat", {}, ("OPENAI_API_KEY", "scripted-model")),
        ("anthropic", {}, ("ANTHROPIC_API_KEY", "scripted-model")),
        ("gemini", {}, ("GEMINI_API_KEY", "scripted-model")),
        ("gemini", {"GOOGLE_API_KEY": "mine"}, ("GEMINI_API_KEY", None)),
        ("openai_chat", {"OPENAI_API_KEY": "mine"}, ("OPENAI_API_KEY", "mine")),
    ],
)
def test_placeholder_key_only_for_scripted_model(
    dialect: str, environ_before: dict[str, str], key: tuple[str, str | None]
) -> None:
    name, value = key
    assert run_environ(environ_before, [Link("model", "scripted", dialect)], TOPOLOGY).get(name) == value
    real = Link("model", "https://api.openai.com/v1", dialect)
    assert run_environ({}, [real], TOPOLOGY).get(name) is None


def test_lab_variables_are_removed_and_loopback_unproxied() -> None:
    environ_before = {
        "HTTP_PROXY": "http://proxy:1",
        "no_proxy": "intranet",
        "STATE_DB": "x",
        "WIREFAULT_LIFELINE": "3",
    }
    environ = run_environ(environ_before, [Link("shop", env=("SHOP_URL",))], TOPOLOGY)
    assert environ == {
        "HTTP_PROXY": "http://proxy:1",
        "NO_PROXY": "intranet,127.0.0.1,localhost,::1",
        "no_proxy": "intranet,127.0.0.1,localhost,::1",
        "SHOP_URL": AT,
    }


def test_attempt_variables_match_gateway() -> None:
    identity = Identity("run-1", "lunch, at 1", 2)
    environ = attempt_environ(identity)
    assert parse_baggage(environ["BAGGAGE"]) == identity
    assert (environ["WIREFAULT_RUN"], environ["WIREFAULT_ATTEMPT"]) == ("run-1", "2")
