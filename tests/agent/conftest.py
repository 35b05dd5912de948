from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from flask_tools.app import Servers, create_service
from tests.agent.support import Answer, Wire
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import Topology, default_topology


@pytest.fixture
def wire() -> Iterator[Callable[..., Wire]]:
    """Starts scripted servers. Connections that the client leaves open fail the test."""
    started: list[Wire] = []

    def start(*answers: Answer) -> Wire:
        started.append(Wire(*answers))
        return started[-1]

    yield start
    for server in started:
        server.close()
    gc.collect(1)  # an unclosed socket warns now, and warnings are errors


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    """The real services, which the agent dials without proxies and gateway."""
    path = tmp_path_factory.mktemp("tools") / "effects.db"
    listeners = {link: bind(Address(LOOPBACK, 0)) for link in lab_links().tool_names}
    at = {link: bound_address(listener) for link, listener in listeners.items()}
    environ = {"TRANSLATOR_BACKEND": "offline"}
    with Servers(
        {listeners[link]: create_service(link, path, environ) for link in lab_links().tool_names}
    ) as servers:
        thread = threading.Thread(target=servers.run)
        thread.start()
        base = default_topology("lab-test")
        yield replace(base, proxies={**base.proxies, **at}, services={**base.services, **at})
        servers.stop()
        thread.join()
