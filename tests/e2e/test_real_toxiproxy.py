"""Seed by seed, a lab with the real Toxiproxy judges as one with the embedded server does."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.conformance.servers import real_server_path
from tests.e2e.flight import SAMPLES, Flight, Hangar, in_folder
from tests.support import required
from windtunnel.lab.launcher import Lab
from windtunnel.lab.toxiproxy import Choice
from windtunnel.settings.configuration import load_configuration


@pytest.fixture(scope="module")
def real_hangar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hangar]:
    path = real_server_path()
    if path is None:
        reason = "no real Toxiproxy: neither TOXIPROXY_SERVER nor toxiproxy-server on PATH"
        pytest.fail(reason) if required("toxiproxy") else pytest.skip(reason)
    configuration = in_folder(load_configuration(os.environ), tmp_path_factory.mktemp("real"))
    with Lab(configuration, Choice("executable", executable=path)) as lab:
        yield Hangar(lab, configuration)


def judged(flight: Flight) -> list[object]:
    return [
        (one.prompt, one.outcome, one.world, one.claim, one.value, one.flags, one.attempts)
        for one in flight.summary.episodes
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_seed_has_the_same_outcomes(real_hangar: Hangar, hangar: Hangar, seed: int) -> None:
    chaos = {"seed": seed, "toxic_prob": 0.5, "error_prob": 0.2, "tool_limit": 2}
    embedded, real = (lab.fly(*SAMPLES[11:19], **chaos) for lab in (hangar, real_hangar))
    assert judged(embedded) == judged(real)
    assert "invalid" not in real.outcomes
