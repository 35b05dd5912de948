"""Errors of real clients for unresolved names under the namespace tap."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.subjects.taps.ingress import AnsweringIngress
from tests.subjects.taps.tapped import opened, run
from tests.toxiproxy.clients.test_clients import client, go_client, note, outcome

__all__ = ["client", "go_client"]  # fixtures

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("namespaces")]
CODES = {2: "SERVFAIL", 3: "NXDOMAIN"}


@pytest.mark.parametrize("code", CODES)
def test_name_does_not_resolve(client, code: int, tmp_path: Path, ingress: AnsweringIngress) -> None:
    ingress.failing["shop.example"] = code
    words = [*client[1], "http://shop.example/v1", "20", "20"]
    with opened(ingress, tmp_path, "namespace") as tap:
        printed = run(tap, ["sh", "-c", f"echo | {shlex.join(words)}"], tmp_path)
    saw, _, tries = printed.strip().partition("\t")
    note(f"unresolved, {CODES[code]}", client, outcome(saw, int(tries or 1)))
    assert not ingress.taken
