"""Distribution of an arm's episodes over lanes and runs."""

from __future__ import annotations

from wirefault.experiments.engine import deal
from wirefault.wiring.prompts import Prompt


def prompts(count: int) -> list[Prompt]:
    return [Prompt(str(number), "x") for number in range(count)]


def test_each_lane_gets_nonempty_share() -> None:
    assert [[len(run) for run in lane] for lane in deal(prompts(5), 2)] == [[3], [2]]
    assert [[len(run) for run in lane] for lane in deal(prompts(1), 4)] == [[1]]
    assert deal([], 2) == []


def test_long_arm_is_split_over_runs() -> None:
    dealt = deal(prompts(4100), 2)
    assert [[len(run) for run in lane] for lane in dealt] == [[1000, 1000, 50], [1000, 1000, 50]]
    keys = [prompt.key for lane in dealt for run in lane for prompt in run]
    assert sorted(keys) == sorted(prompt.key for prompt in prompts(4100))
