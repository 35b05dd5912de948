from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.gateway.intercept.ingress_lab import IngressLab, ingress_lab
from tests.gateway.intercept.servers import serve_anything
from tests.upstream import Upstream
from wirefault.core.sockets import Address

_RUNS = itertools.count(1)


@pytest.fixture(scope="session")
def anything() -> Iterator[Address]:
    """A server that selects the protocol by the first line of a request."""
    with Upstream(serve_anything) as upstream:
        yield upstream.address


@pytest.fixture(scope="session")
def past() -> Iterator[Address]:
    """The same server, at an address that the wiring passes through."""
    with Upstream(serve_anything) as upstream:
        yield upstream.address


@pytest.fixture(scope="session")
def lab_of_session(
    tmp_path_factory: pytest.TempPathFactory, anything: Address, past: Address
) -> Iterator[IngressLab]:
    links = {"shop": {"upstream": anything.url, "hosts": ["shop.test"]}}
    intercept = {"refuse": ["refused.test"], "pass": [f"localhost:{past.port}"]}
    with ingress_lab(tmp_path_factory.mktemp("ingress"), intercept, links) as lab:
        yield lab


@pytest.fixture
def lab(lab_of_session: IngressLab) -> Iterator[IngressLab]:
    """A run with an attempt in progress, in which no fault is armed."""
    lab_of_session.begin(f"run-{next(_RUNS)}")
    yield lab_of_session
    lab_of_session.end()
