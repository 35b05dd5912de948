"""All services on real sockets, started once; each test has its own world."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from flask_tools.app import Servers, create_service
from tests.support import PATIENCE_S
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.wiring.links import lab_links

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Lab:
    """The running services; ``ask`` makes one request on a fresh connection."""

    urls: Mapping[str, str]
    effects_path: Path

    def ask(self, link: str, method: str, path: str, **options: Any) -> requests.Response:
        return requests.request(method, self.urls[link] + path, timeout=PATIENCE_S, **options)


@dataclass(frozen=True)
class World:
    """Requests in one world."""

    lab: Lab
    name: str

    def ask(
        self, link: str, method: str, path: str, key: str | None = None, **options: Any
    ) -> requests.Response:
        headers = {"Wirefault-World": self.name} | ({"Idempotency-Key": key} if key else {})
        headers |= options.pop("headers", {})
        return self.lab.ask(link, method, path, headers=headers, **options)

    def effects(self) -> list[dict[str, Any]]:
        return self.ask("calendar", "GET", "/effects").json()["effects"]


@contextmanager
def running(links: list[str], path: Path, environ: Mapping[str, str] | None = None) -> Iterator[Lab]:
    listeners = {link: bind(Address(LOOPBACK, 0)) for link in links}
    urls = {link: bound_address(listener).url for link, listener in listeners.items()}
    apps = {listeners[link]: create_service(link, path, environ) for link in links}
    with Servers(apps) as servers:
        thread = threading.Thread(target=servers.run)
        thread.start()
        try:
            yield Lab(urls, path)
        finally:
            servers.stop()
            thread.join()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(list(lab_links().tool_names), tmp_path_factory.mktemp("lab") / "effects.db") as lab:
        yield lab


@pytest.fixture
def world(lab: Lab) -> World:
    return World(lab, f"run/{next(_numbers)}")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Starts one service with its own environment variables."""
    contexts = []

    def start_one(link: str, path: Path | None = None, **environ: str) -> Lab:
        context = running([link], path or tmp_path / "effects.db", environ)
        contexts.append(context)
        return context.__enter__()

    yield start_one
    for context in contexts:
        context.__exit__(None, None, None)
