"""The sets of prompts by people who had not seen the rules: unchanged since, and how they end today."""

import hashlib
from collections import Counter

import pytest

from tests.model_server.score import endings, files_of

# committed before the sets were scored for the first time
SUMS = {
    "blind": "3ab4c296f21187eed7b204f6d566f75938f96fbec76551c2206d4d981e32e1a4",
    "heldout": "3e769e63333f3da2ff6a19547ca45c1e7c62ccdc2bc769c1ca2da00c8d9ef0e8",
}


@pytest.mark.parametrize("name", SUMS)
def test_held_out_set_is_unchanged(name):
    files = files_of(name)
    assert hashlib.sha256(files["SHA256SUMS"]).hexdigest() == SUMS[name]
    for line in files["SHA256SUMS"].decode().splitlines():
        digest, _, file = line.partition("  ")
        assert hashlib.sha256(files[file.removeprefix("*")]).hexdigest() == digest


@pytest.mark.parametrize("name", SUMS)
def test_scores_on_held_out_set(name):
    played = [ending for _, ending, _ in endings(name)]
    counts = Counter(played)
    assert counts["right"] + counts["declined"] >= 0.95 * len(played)
    assert counts["false"] <= 0.01 * len(played)
    assert counts["right"] >= 0.1 * len(played)  # a model that declines everything is useless
