from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.servers import real_server_path
from tests.e2e.lab import SharedLab, in_folder
from tests.shared_imports import shared_imports
from tests.subjects.taps.conftest import namespaces  # noqa: F401  # a fixture
from tests.support import required
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration


# an idle lab costs 2 % of a CPU; with session scope it would run in every worker to the end
@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedLab]:
    """One lab for all tests that do not break it."""
    configuration = in_folder(load_configuration(os.environ), tmp_path_factory.mktemp("lab"))
    with shared_imports(), Lab(configuration, Choice("embedded")) as lab:
        yield SharedLab(lab, configuration)


@pytest.fixture(scope="module")
def real_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedLab]:
    """A lab with the real Toxiproxy, for the tests of one file."""
    path = real_server_path()
    if path is None:
        reason = "no real Toxiproxy: neither TOXIPROXY_SERVER nor toxiproxy-server on PATH"
        pytest.fail(reason) if required("toxiproxy") else pytest.skip(reason)
    configuration = in_folder(load_configuration(os.environ), tmp_path_factory.mktemp("real"))
    with shared_imports(), Lab(configuration, Choice("executable", executable=path)) as lab:
        yield SharedLab(lab, configuration)


@pytest.fixture(autouse=True)
def no_toxic_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a toxic behind in the shared lab."""
    yield
    if "shared" in request.fixturenames:
        from wirefault.toxiproxy.client import ToxiproxyClient

        shared: SharedLab = request.getfixturevalue("shared")
        with ToxiproxyClient(shared.lab.topology.toxiproxy) as client:
            left = {name: proxy.toxics for name, proxy in client.proxies().items() if proxy.toxics}
        assert left == {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
