"""Run keys and the processes that receive them."""

from __future__ import annotations

import os
from pathlib import Path

from wirefault.core.identity import Identity, parse_sender
from wirefault.core.run_key import (
    KEY_DESCRIPTOR,
    SECRET_FILE,
    InheritedKeys,
    derive_run_key,
    handed_key,
    run_secret,
)

RUN = "run-1"
TRY = Identity(RUN, "1-1", 2, 3, 4)


def test_agent_reads_run_key_from_descriptor() -> None:
    with handed_key("secret", RUN) as (variables, descriptors):
        assert variables == {KEY_DESCRIPTOR: str(descriptors[0])}
        keys = InheritedKeys(variables)
        assert not os.get_inheritable(descriptors[0])
    assert keys.run_key(RUN) == derive_run_key("secret", RUN) != derive_run_key("secret", "run-2")


def test_agent_without_a_key_signs_nothing() -> None:
    with handed_key("", RUN) as handed:
        assert handed == ({}, [])
    assert InheritedKeys({}).run_key(RUN) == b""
    assert "mac" not in TRY.headers("search")["baggage"]


def test_gateway_and_agent_share_a_file(tmp_path: Path) -> None:
    environ = {SECRET_FILE: str(tmp_path / "secret")}
    secret = run_secret(environ, "token")
    assert secret != "token" == run_secret({}, "token")
    assert InheritedKeys(environ).run_key(RUN) == derive_run_key(secret, RUN)


def test_mac_is_bound_to_try_link_and_key() -> None:
    key = derive_run_key("secret", RUN)
    sender = parse_sender(TRY.headers("search", key=key)["baggage"])
    assert sender is not None and sender.is_signed("search", key)
    others = [Identity("r", "1-1", 2, 3, 4), Identity(RUN, "1-1", 3, 3, 4), Identity(RUN, "1-1", 2, 3, 5)]
    assert not any(sender._replace(identity=other).is_signed("search", key) for other in others)
    assert not sender.is_signed("movie", key) and not sender.is_signed("search", b"")
    assert not sender.is_signed("search", derive_run_key("secret", "run-2"))
    assert not any(sender._replace(mac=mac).is_signed("search", key) for mac in ("", "ä", sender.mac[:-1]))
