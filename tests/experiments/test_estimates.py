"""Estimates of episodes: open ones at both ends, clusters of prompts, pairs."""

from __future__ import annotations

import random

import pytest

from wirefault.experiments.estimates import PairedLoss, Rate
from wirefault.stats.exact import clopper_pearson


def keys(prompts: int, repeats: int) -> list[str]:
    return [f"p{i}" if r == 1 else f"p{i}.r{r}" for r in range(1, repeats + 1) for i in range(prompts)]


def test_open_and_missing_episodes_count_at_both_ends() -> None:
    rate = Rate({"a": True, "b": None, "c": False}, missing=1)
    interval = rate.interval(0.05)
    assert interval.low == pytest.approx(clopper_pearson(1, 4)[0])
    assert interval.high == pytest.approx(clopper_pearson(3, 4)[1])
    assert rate.value is None and rate.needed(">=", 0.5, 0.05) is None


def test_repeats_of_prompt_are_one_cluster_for_others_like_these() -> None:
    all_good = dict.fromkeys(keys(10, 5), True)
    assert Rate(all_good).interval(0.05).low == pytest.approx(clopper_pearson(50, 50)[0])
    like = Rate(all_good, "like_these")
    assert (like.interval(0.05).low, like.units) == (pytest.approx(clopper_pearson(10, 10)[0]), 10)


def test_loss_is_paired_by_prompt_and_repetition() -> None:
    before = dict.fromkeys(keys(20, 1), True)
    loss = PairedLoss(before, {**dict.fromkeys(keys(20, 1), True), "p1": False, "p2": False, "other": False})
    assert (loss.n, loss.lost, loss.won, loss.value) == (20, 2, 0, 0.1)
    assert loss.interval(0.05).low <= 0 < loss.interval(0.05).high


def test_open_pairs_widen_loss_and_never_make_it_worse() -> None:
    before = dict.fromkeys(keys(20, 1), True)
    after = {key: int(key[1:]) >= 8 for key in before}
    known, open_ = PairedLoss(before, after), PairedLoss(before, {**after, **dict.fromkeys(["p0", "p9"])})
    assert open_.interval(0.05).low <= known.interval(0.05).low
    assert open_.interval(0.05).high >= known.interval(0.05).high
    assert known.chance_of_worse() == pytest.approx(2**-8) and open_.chance_of_worse() == pytest.approx(2**-7)


def test_identical_arms_rarely_deviate() -> None:
    draws, deviated, runs = random.Random(5), 0, 300
    for _ in range(runs):
        sides = [{str(i): draws.random() < 0.85 for i in range(20)} for _ in range(2)]
        deviated += PairedLoss(*sides).interval(0.05).low > 0.05
    assert deviated / runs <= 0.05
