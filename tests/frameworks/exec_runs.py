"""Shared code of the framework tests: environments, labs, and the expected effect of each preset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Protocol

import pytest

from bench.findings.environments import InstalledAgent, agents, prepare_all
from bench.findings.example_lab import ExampleLab, example_lab
from bench.findings.trials import PROMPT
from bench.findings.upstreams import Shop, shop_at
from tests.examples.test_presets import SEEDS, stronger
from tests.shared_imports import shared_imports
from tests.support import required
from wirefault.faults.sets.presets import preset
from wirefault.history.events import Exchange

ATTEMPT_S = 180  # the first start of a large framework is slow on a busy machine
SHOP_PORT = 9000  # hard-coded in the agents


@cache
def _missing() -> dict[str, str]:
    return prepare_all()


def skip_unless_required() -> None:
    if not required("frameworks"):
        pytest.skip("no environments of examples/frameworks: `make frameworks` makes them and runs all")


def installed(name: str) -> InstalledAgent:
    """The example in its environment, created if missing. Skip if it may not be created."""
    skip_unless_required()
    if reason := _missing().get(name):
        pytest.fail(f"examples/frameworks/{name} cannot be installed: {reason}")
    return next(agent for agent in agents() if agent.name == name)


@contextmanager
def shop_on_its_port(folder: Path) -> Iterator[Shop]:
    """The shop where the agents look for it. Tests in other processes wait for their turn."""
    with (Path(gettempdir()) / f"wirefault-tests-{SHOP_PORT}.lock").open("w") as turn:
        flock(turn, LOCK_EX)
        with shop_at(folder / "shop.db", SHOP_PORT) as shop:
            yield shop


def labs(*names: str) -> Callable[..., Iterator[ExampleLab]]:
    """A fixture: a lab for each of these examples, for any number of runs in a module."""

    @pytest.fixture(scope="module", params=names)
    def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleLab]:
        agent = installed(request.param)
        with shared_imports(), example_lab(agent, tmp_path_factory.mktemp(agent.name), PROMPT) as lab:
            yield lab

    return lab


class Recorded(Protocol):
    """A server's own record: method and path of each request that came whole."""

    @property
    def requests(self) -> Sequence[tuple[str, str]]: ...


def check_preset(
    lab: ExampleLab, name: str, seeds: Mapping[str, int] = SEEDS, **more: Recorded
) -> list[Exchange]:
    """Run under that preset: faults arrive, and the gateway's record matches the upstreams' own.

    ``more``: upstreams besides the model and the shop, by their links. Returns the run's exchanges.
    """
    faults = stronger(preset(name, lab.configuration.wiring.links), 3)
    prompts_run = lab.run({"faults": faults, "seed": seeds[name], "attempt_time": ATTEMPT_S})
    assert not prompts_run.failure
    episodes = prompts_run.summary.as_json()["episodes"]
    met_faults = [fault for episode in episodes for fault in episode["faults"]]
    assert any(fault["delivered"] and fault["entry"] for fault in met_faults), episodes
    exchanges = [event for event in prompts_run.record.events if isinstance(event, Exchange)]
    upstreams: dict[str, Recorded] = {"model": lab.model, "shop": lab.shop, **more}
    for link, upstream in upstreams.items():
        forwarded = [(each.method, each.target) for each in exchanges if each.link == link and each.forwarded]
        assert sorted(forwarded) == sorted(upstream.requests)
    return exchanges
