"""A stalled stream is kept alive by pings, until the client leaves or the gateway's limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.dialects.forms import TEXT, Form
from tests.dialects.server import model_server
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from wirefault.dialects.http import Request

CHAT = Form("openai_chat", True)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with model_server(lambda _: TEXT) as model, gateway(tmp_path, model=model.address) as lab:
        yield lab


def begin(lab: Lab, fault: str = "stream_hang", **parameters: Any) -> None:
    lab.begin(faults=json.dumps({"faults": [{"fault": fault, "links": "model", "with": parameters}]}))


def post(lab: Lab, request: Request, read_timeout_s: float) -> requests.Response:
    headers, timeout = dict(request.headers), (PATIENCE_S, read_timeout_s)
    url = lab.url("model", request.target)
    return requests.post(url, request.body, headers=headers, timeout=timeout, stream=True)


def test_read_timeout_does_not_end_pings_but_gateway_does(lab: Lab) -> None:
    begin(lab, after=1, limit=1.5, ping_every=0.05)
    lines: list[bytes] = []
    with post(lab, CHAT.request(), 1.0) as reply, pytest.raises(requests.RequestException) as ended:
        lines += reply.iter_lines()
    assert not isinstance(ended.value.__context__, TimeoutError)
    (fault,) = lab.exchange().faults
    assert fault.injected and fault.evidence["closed_after_s"] == 1.5
    assert fault.evidence["pings"] > 1
    assert fault.shows == {"lost": True}


def test_client_that_leaves_ends_pings(lab: Lab) -> None:
    begin(lab, after=1, ping_every=0.05)
    with post(lab, CHAT.request(), PATIENCE_S) as reply:
        comments = (line for line in reply.iter_lines(chunk_size=1) if line.startswith(b":"))
        assert [next(comments) for _ in range(3)] == [b": keep-alive"] * 3
    lab.settle()
    record = lab.exchange()
    assert record.client_left and record.faults[0].evidence["pings"] >= 3


def test_pings_come_before_first_token(lab: Lab) -> None:
    begin(lab, "slow_first_token", ms=500, ping_every=0.1)
    with post(lab, CHAT.request(), PATIENCE_S) as reply:
        lines = [line for line in reply.iter_lines() if line]
    first_token = next(at for at, line in enumerate(lines) if b'"content": "It' in line)
    assert [line for line in lines if line.startswith(b":")] == lines[first_token - 5 : first_token]
    assert lab.exchange().faults[0].evidence["pings"] == 5
