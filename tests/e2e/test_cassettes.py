"""Runs against a model server are recorded, and replayed without that server and without a key."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.asgi_server import serve
from tests.e2e.lab import SAMPLES, SharedLab, sample
from wirefault.history.events import Exchange
from wirefault.judging.oracle.validity import who_failed
from wirefault.model_server.decide import decide
from wirefault.model_server.playbooks import load_playbooks
from wirefault.model_server.server import create_app

PROMPTS = [sample("temperature in Paris"), sample("Send Bob a message")]


def with_random_ids(app: Any) -> Any:
    """The app with new ids of the same length each time, like real models."""

    def drawn(match: re.Match[bytes]) -> bytes:
        return match[1] + secrets.token_hex(len(match[2])).encode()[: len(match[2])]

    async def random_ids(scope: Any, receive: Any, send: Any) -> None:
        async def send_changed(message: dict[str, Any]) -> None:
            if "body" in message:
                message["body"] = re.sub(rb'("id": ?"call_)([^"]*)', drawn, message["body"])
            await send(message)

        await app(scope, receive, send_changed)

    return random_ids


@contextmanager
def real_model() -> Iterator[str]:
    """The address of a second server in the role of a real model."""
    with serve(with_random_ids(create_app(partial(decide, load_playbooks())))) as url:
        yield url + "/v1"


@pytest.fixture(scope="module")
def folder(shared: SharedLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cassettes of a run without faults."""
    folder = tmp_path_factory.mktemp("cassettes")
    with real_model() as url:
        recorded = shared.run(*PROMPTS, model="record", model_base_url=url, **cassette_settings(folder))
    assert recorded.outcomes == ["success", "success"]
    return folder


def cassette_settings(folder: Path) -> dict[str, Any]:
    return {"cassettes": str(folder), "groq_model": "scripted-diligent"}


@pytest.mark.parametrize("seed", [1, 2])
def test_replay_repeats_outcomes(shared: SharedLab, folder: Path, seed: int) -> None:
    lab_run = shared.run(*PROMPTS, model="replay", seed=seed, **cassette_settings(folder))
    assert lab_run.outcomes == ["success", "success"]
    assert len([exchange for exchange in lab_run.of(Exchange) if exchange.link == "model"]) == 4


def test_event_streams_are_recorded_and_replayed(shared: SharedLab, tmp_path: Path) -> None:
    with real_model() as url:
        recorded = shared.run(
            *PROMPTS, model="record", model_base_url=url, stream=True, **cassette_settings(tmp_path)
        )
    replayed = shared.run(*PROMPTS, model="replay", stream=True, **cassette_settings(tmp_path))
    assert recorded.outcomes == replayed.outcomes == ["success", "success"]


def test_unrecorded_request_invalidates_only_its_episode(shared: SharedLab, folder: Path) -> None:
    paris, bob = PROMPTS
    lab_run = shared.run(sample("the square root"), paris, bob, model="replay", **cassette_settings(folder))
    assert lab_run.outcomes == ["invalid", "success", "success"]
    assert lab_run.summary.episodes[0].why == (
        "cassette: the cassettes have no answer for this request: record it (MODEL=record)"
    )
    assert lab_run.summary.success.n == 2
    assert who_failed([lab_run.summary.episodes[0].why]) == "the lab"


def test_fault_that_changes_requests_misses_cassette(shared: SharedLab, folder: Path) -> None:
    faults = {"faults": [{"fault": "unavailable", "links": "weather"}]}
    lab_run = shared.run(*PROMPTS, model="replay", faults=faults, **cassette_settings(folder))
    assert lab_run.outcomes == ["invalid", "success"]


def test_replay_under_same_faults_repeats_recording(shared: SharedLab, tmp_path: Path) -> None:
    lost = {"fault": "lose_reply", "links": "model", "when": {"probability": 0.2}}
    chaos = {"toxic_prob": 0.3, "toxics": "timeout:50", "error_prob": 0.6, "tool_timeout": 20, "seed": 5}
    chaos |= {"prompt_limit": 2, "faults": {"faults": [lost]}, **cassette_settings(tmp_path)}
    prompts = SAMPLES[:8]
    with real_model() as url:
        recorded = shared.run(*prompts, model="record", model_base_url=url, **chaos)
    replayed = shared.run(*prompts, model="replay", **chaos)
    assert replayed.outcomes == recorded.outcomes
    assert len(set(replayed.outcomes)) > 1 and "invalid" not in replayed.outcomes
    assert max(episode.attempts for episode in replayed.summary.episodes) == 2
    assert any(exchange.faults for exchange in replayed.of(Exchange) if exchange.link == "model")
