from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.servers import embedded_server
from tests.proxy_manager.rig import Plane, a_plane


@pytest.fixture(scope="session")
def toxiproxy() -> Iterator[str]:
    """A server that all tests share: each touches only its own proxies."""
    with embedded_server() as url:
        yield url


@pytest.fixture
def plane(tmp_path: Path, toxiproxy: str) -> Iterator[Plane]:
    with a_plane(tmp_path, toxiproxy) as plane:
        yield plane
        plane.proxies.remove()


@pytest.fixture
def ready(plane: Plane) -> Plane:
    """Its proxies exist and are healed."""
    plane.proxies.ensure()
    plane.reconciler.take_over("started anew")
    return plane
