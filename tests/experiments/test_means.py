"""Means and percentiles of episodes: clusters of attempts."""

from __future__ import annotations

from wirefault.experiments.means import Percentile


def test_percentile_counts_attempts_of_episode_together() -> None:
    values = {str(i): (float(i), float(i)) for i in range(30)}
    single = Percentile({str(i): (float(i),) for i in range(30)}, 50).interval(0.05)
    assert Percentile(values, 50).interval(0.05) == single
