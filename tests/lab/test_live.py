"""The messages of a client of a running lab about an address at which no lab answers, or not yet."""

from __future__ import annotations

import pytest

from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.lab import live


@pytest.mark.parametrize(
    ("listens", "message"), [(True, "has not answered for 0.2 s"), (False, "start one: wirefault lab up")]
)
def test_slow_lab_is_told_from_none(monkeypatch, tmp_path, listens: bool, message: str) -> None:
    monkeypatch.setattr(live, "_TIMEOUT_S", 0.2)
    with bind(FREE) as server:  # its system accepts connections
        client = live.HandoffsClient(bound_address(server), tmp_path, "token")
        if not listens:
            server.close()
        with pytest.raises(live.LiveFaultsError, match=message):
            client.cases()
