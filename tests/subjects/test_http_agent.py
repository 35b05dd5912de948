"""An agent that runs already, or is just starting."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from wirefault.core.sockets import Address, bound_address
from wirefault.settings.settings import SettingsError
from wirefault.subjects.http_agent import running_agent
from wirefault.subjects.surroundings import Surroundings
from wirefault.wiring.subject_spec import HttpSpec

HERE = Surroundings("wirefault.yaml", Path(), Path("logs"), {}, {}, str)


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """A port that opens on request."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener


def spec(at: Address, **fields: float) -> HttpSpec:
    return HttpSpec(http=f"{at.url}/ask", **fields)


def test_starting_agent_is_awaited(bound: socket.socket) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        bound.listen()

    agent = running_agent(spec(bound_address(bound), ready_within=30), HERE, lambda: 0.0, sleep)
    assert agent.kind == "http" and len(slept) == 1


def test_late_agent_is_error(bound: socket.socket) -> None:
    seconds = map(float, count(0, 10))
    with pytest.raises(SettingsError, match=r"subject.http: no server listens there within 30 s"):
        running_agent(
            spec(bound_address(bound), ready_within=30), HERE, lambda: next(seconds), lambda _: None
        )


def test_agent_without_ready_timeout_is_not_awaited(bound: socket.socket) -> None:
    def sleep(_: float) -> None:
        raise AssertionError("nothing is waited for")

    assert running_agent(spec(bound_address(bound)), HERE, sleep=sleep).kind == "http"
