"""The front as it ships, with real clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from tests.gateway.intercept.front_lab import FrontLab, front_lab
from tests.support import PATIENCE_S
from windtunnel.core.sockets import Address

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontLab]:
    with front_lab(tmp_path_factory.mktemp("front")) as lab:
        yield lab


@pytest.fixture
def lab(lab_of_module: FrontLab, request: pytest.FixtureRequest) -> Iterator[FrontLab]:
    lab_of_module.begin(f"run-{abs(hash(request.node.nodeid))}")
    yield lab_of_module
    lab_of_module.end()


def test_a_host_first_seen_becomes_a_link(lab: FrontLab, flask_upstream: Address) -> None:
    reply = requests.post(flask_upstream.url + "/echo", data="hello", proxies=lab.proxies, timeout=PATIENCE_S)
    assert reply.json()["body"] == "hello"
    (ended,) = lab.ended()
    assert ended.link == f"port_{flask_upstream.port}"
    assert (ended.episode, ended.attempt, ended.way, ended.tunnelled) == ("e1", 1, "proxy", False)
    (exchange,) = lab.exchanges()
    assert (exchange.link, exchange.status) == (ended.link, 200)
