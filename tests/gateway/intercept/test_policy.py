from __future__ import annotations

import pytest

from windtunnel.gateway.intercept.policy import Action, Policy, names


def wired(host: str, port: int) -> bool:
    return (host, port) in {("model.example", 443), ("api.smith.langchain.com", 443)}


@pytest.mark.parametrize(
    ("policy", "host", "action"),
    [
        (Policy(), "a.example", Action.LINK),
        (Policy(refused=["a.example"]), "a.example", Action.REFUSE),
        (Policy(refused=["a.example"], passed=["*"]), "a.example", Action.REFUSE),
        (Policy(passed=["*.example"]), "a.example", Action.PASS),
        (Policy(only=["b.example"]), "a.example", Action.PASS),
        (Policy(only=["A.example:443"]), "a.example", Action.LINK),
        (Policy(only=["api.smith.langchain.com"]), "api.smith.langchain.com", Action.LINK),
        (Policy(offline=True), "a.example", Action.REFUSE),
        (Policy(offline=True, passed=["a.example"]), "a.example", Action.REFUSE),
        (Policy(offline=True), "127.0.0.1", Action.LINK),
        (Policy(offline=True), "localhost", Action.LINK),
        (Policy(offline=True, is_wired=wired), "model.example", Action.LINK),
        (Policy(), "us.i.posthog.com", Action.PASS),
        (Policy(offline=True), "us.i.posthog.com", Action.REFUSE),
        (Policy(is_wired=wired), "api.smith.langchain.com", Action.LINK),
    ],
)
def test_where_a_connection_goes(policy: Policy, host: str, action: Action) -> None:
    ruling = policy.rule(host, 443)
    assert ruling.action is action
    assert bool(ruling.why) is (action is not Action.LINK)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "meant"),
    [
        ("a.b", "a.b", 1, True),
        ("a.b:1", "a.b", 1, True),
        ("a.b:1", "a.b", 2, False),
        ("a.b", "x.a.b", 1, False),
        ("[::1]", "::1", 1, True),
        ("[::1]:1", "::1", 1, True),
        ("[::1]:1", "::1", 2, False),
    ],
)
def test_a_pattern_means_a_host_with_or_without_its_port(
    pattern: str, host: str, port: int, meant: bool
) -> None:
    assert names([pattern], host, port) is meant
