"""ERROR_PROB at the gateway: what is drawn is what the client gets."""

from __future__ import annotations

import pytest
import requests

from tests.gateway.lab import Lab
from windtunnel.schedule import fingerprint, plan_error


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_errors_are_those_of_the_schedule(lab: Lab, method: str) -> None:
    lab.begin(error_prob=0.5, seed=7)
    for number in range(1, 21):
        path, body = f"/echo?n={number}", b'{"n": 1}' if method == "POST" else b""
        asked = fingerprint(method, path, body)
        planned = plan_error(7, 0.5, "e1", 1, "search", asked, 1, 1)
        reply = requests.request(
            method, lab.url("search", path), data=body, headers=lab.identity(), timeout=5
        )
        assert reply.status_code == (planned.status if planned else 200)
        record = lab.exchanges(number)[-1]
        assert record.fingerprint == asked
        assert record.fault == ({"kind": planned.kind, "status": planned.status} if planned else None)
        assert record.forwarded is (planned is None)
