"""With ``STREAM=on`` every event-stream fault reaches the lab's agent and is recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.lab import SharedLab, sample
from wirefault.faults.catalogue.model.streams import StreamFault
from wirefault.faults.registry import REGISTRY

TEMPERATURE = "temperature in Paris"
# Parameters of each fault that keep the test short.
MORE: dict[str, dict[str, Any]] = {"slow_first_token": {"ms": 300}, "slow_tokens": {"ms": 30}}
STREAM_FAULTS = [name for name, fault in REGISTRY.items() if issubclass(fault, StreamFault)]


def test_nine_stream_faults() -> None:
    assert len(STREAM_FAULTS) == 9


@pytest.mark.parametrize("fault", STREAM_FAULTS)
def test_stream_fault_is_injected_and_observed(shared: SharedLab, fault: str) -> None:
    entry = {"fault": fault, "links": "model", "when": {"nth": 1}, "with": MORE.get(fault, {})}
    faults = json.dumps({"faults": [entry]})
    model_timeout = 2 if fault == "stream_hang" else 30
    lab_run = shared.run(sample(TEMPERATURE), faults=faults, stream=True, model_timeout=model_timeout)
    [record] = lab_run.summary.episodes[0].faults
    assert (record.kind, record.stage, record.delivered) == (fault, "observed", True)
    assert lab_run.summary.unexplained == 0


def test_non_stream_is_not_injected(shared: SharedLab) -> None:
    entry = {"fault": "stream_cut", "links": "model"}
    lab_run = shared.run(sample(TEMPERATURE), faults=json.dumps({"faults": [entry]}))
    assert {record.why_not for record in lab_run.summary.episodes[0].faults} == {"not_a_stream"}


def test_clean_run_is_equal_with_and_without_streams(shared: SharedLab) -> None:
    plain, streamed = (shared.run(sample(TEMPERATURE), stream=stream) for stream in (False, True))
    assert streamed.outcomes == plain.outcomes == ["success"]
