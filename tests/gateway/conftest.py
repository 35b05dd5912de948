from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask, request

from tests.gateway.lab import TRANSPORT, Lab, gateway
from tests.gateway.scripted import SCRIPTED, ScriptedUpstream
from tests.upstream import serving
from wirefault.core.sockets import Address
from wirefault.faults.registry import REGISTRY


def _flask_app() -> Flask:
    app = Flask("upstream")

    @app.route("/echo", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    def echo():
        return {
            "method": request.method,
            "headers": dict(request.headers),
            "query": request.query_string.decode(),
            "body": request.get_data(as_text=True),
        }

    @app.get("/size/<int:size>")
    def size(size: int):
        return b"x" * size

    return app


@pytest.fixture(scope="session")
def flask_upstream() -> Iterator[Address]:
    """A real WSGI server, as the tools use it."""
    with serving(_flask_app(), threads=8) as address:
        yield address


@pytest.fixture(scope="session")
def lab_of_session(tmp_path_factory: pytest.TempPathFactory, flask_upstream: Address) -> Iterator[Lab]:
    with gateway(tmp_path_factory.mktemp("gateway"), search=flask_upstream, model=flask_upstream) as lab:
        yield lab


@pytest.fixture
def lab(lab_of_session: Lab) -> Lab:
    """A gateway with a Flask upstream on the search link; no attempt is on its lane."""
    lab_of_session.settle(0)
    return lab_of_session


@pytest.fixture
def scripted_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faults of ``scripted`` are in the real registry, so that fault sets can name them."""
    for kind in SCRIPTED:
        monkeypatch.setitem(REGISTRY.own, kind.name, kind)


@pytest.fixture(params=["plain", "tls"])
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test twice: over plain HTTP, and over TLS that the gateway terminates."""
    token = TRANSPORT.set(request.param)
    yield request.param
    TRANSPORT.reset(token)


@pytest.fixture
def service() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    yield scripted
    scripted.upstream.close()


@pytest.fixture
def lab_of_service(tmp_path: Path, service: ScriptedUpstream, transport: str) -> Iterator[Lab]:
    """A gateway with that upstream on the search and the model link."""
    address = service.upstream.address
    with gateway(tmp_path, search=address, model=address) as lab:
        yield lab
