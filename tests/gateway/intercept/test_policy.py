from __future__ import annotations

import pytest

from wirefault.gateway.intercept.policy import Policy, Treatment, matches_host


def wired(host: str, port: int) -> bool:
    return (host, port) in {("model.example", 443), ("api.smith.langchain.com", 443)}


@pytest.mark.parametrize(
    ("policy", "host", "treatment"),
    [
        (Policy(), "a.example", Treatment.LINK),
        (Policy(refused=["a.example"]), "a.example", Treatment.REFUSE),
        (Policy(refused=["a.example"], passed=["*"]), "a.example", Treatment.REFUSE),
        (Policy(passed=["*.example"]), "a.example", Treatment.PASS),
        (Policy(only=["b.example"]), "a.example", Treatment.PASS),
        (Policy(only=["A.example:443"]), "a.example", Treatment.LINK),
        (Policy(only=["api.smith.langchain.com"]), "api.smith.langchain.com", Treatment.LINK),
        (Policy(offline=True), "a.example", Treatment.REFUSE),
        (Policy(offline=True, passed=["a.example"]), "a.example", Treatment.REFUSE),
        (Policy(offline=True), "127.0.0.1", Treatment.LINK),
        (Policy(offline=True), "localhost", Treatment.LINK),
        (Policy(offline=True, is_wired=wired), "model.example", Treatment.LINK),
        (Policy(), "us.i.posthog.com", Treatment.PASS),
        (Policy(offline=True), "us.i.posthog.com", Treatment.REFUSE),
        (Policy(is_wired=wired), "api.smith.langchain.com", Treatment.LINK),
        (Policy(), "dl.deno.land", Treatment.PASS),
        (Policy(), "bun.sh", Treatment.PASS),
        (Policy(), "registry.npmjs." + "org", Treatment.PASS),
        (Policy(), "registry.npmjs.evil.example", Treatment.LINK),
    ],
)
def test_policy_treatment(policy: Policy, host: str, treatment: Treatment) -> None:
    ruling = policy.rule(host, 443)
    assert ruling.treatment is treatment
    assert bool(ruling.why) is (treatment is not Treatment.LINK)


@pytest.mark.parametrize(
    ("policy", "treatment"),
    [
        (Policy(), Treatment.LINK),
        (Policy(offline=True, only=["127.0.0.1"]), Treatment.LINK),
        (Policy(passed=["shop.test:443"]), Treatment.PASS),
        (Policy(passed=["shop.test"], refused=["*.test"]), Treatment.REFUSE),
    ],
)
def test_own_machine_name_is_passed_and_refused_by_name(policy: Policy, treatment: Treatment) -> None:
    assert policy.rule("shop.test", 443, ["127.0.0.1"]).treatment is treatment


@pytest.mark.parametrize(
    ("pattern", "host", "port", "meant"),
    [
        ("a.b", "a.b", 1, True),
        ("a.b:1", "a.b", 1, True),
        ("a.b:1", "a.b", 2, False),
        ("a.b", "x.a.b", 1, False),
        ("localhost:1", "127.0.0.1", 1, True),
        ("localhost:1", "127.0.0.1", 2, False),
        ("127.0.0.1", "localhost", 1, True),
        ("[::1]", "localhost", 1, True),
        ("localhost", "192.0.2.1", 1, False),
        ("[::1]", "::1", 1, True),
        ("[::1]:1", "::1", 1, True),
        ("[::1]:1", "::1", 2, False),
    ],
)
def test_host_pattern_with_and_without_port(pattern: str, host: str, port: int, meant: bool) -> None:
    assert matches_host([pattern], host, port) is meant


@pytest.mark.parametrize(
    ("pattern", "host", "port", "meant"),
    [
        ("port_9000", "localhost", 9000, True),
        ("port_9000", "::1", 9000, True),
        ("port_9000", "localhost", 9001, False),
        ("openai", "api.openai.com", 443, True),
        ("shop_test", "shop.test", 80, True),
        ("shop_test", "shop.best", 80, False),
    ],
)
def test_pattern_may_name_the_link_that_is_found(pattern: str, host: str, port: int, meant: bool) -> None:
    assert matches_host([pattern], host, port) is meant


def test_pattern_may_name_a_wired_link() -> None:
    policy = Policy(refused=["shop"], wired_name=lambda host, port: "shop" if port == 9000 else "")
    assert policy.rule("127.0.0.1", 9000).treatment is Treatment.REFUSE
    assert policy.rule("127.0.0.1", 9001).treatment is Treatment.LINK
