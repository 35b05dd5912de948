"""A history stays small: docs/files.md lists what its lines omit."""

from __future__ import annotations

from tests.e2e.lab import SharedLab, sample

MOST = 4000
THREE_CALLS = ("temperature in Paris", "humid is it in Cairo", "15% of 240", "Eiffel Tower in metres")


def test_three_call_episode_takes_less_than_4_kilobytes(shared: SharedLab) -> None:
    """The run's own lines aside, which are spread over as many episodes as it has"""
    lab_run = shared.run(*map(sample, THREE_CALLS), bodies="off")
    assert lab_run.outcomes == ["success"] * len(THREE_CALLS)
    folder = shared.configuration.logs / "runs" / lab_run.summary.run_id
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_bytes().splitlines(keepends=True)]
    of_episodes = [line for line in lines if b'"episode":' in line]
    assert len(of_episodes) / len(THREE_CALLS) > 10
    assert sum(map(len, of_episodes)) / len(THREE_CALLS) < MOST
