"""A real small model's recorded episodes, replayed: the judge accuses it of nothing that it did not do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.measured import read_cells
from bench.mitigations.__main__ import MEASURED
from tests.e2e.lab import SharedLab
from tests.e2e.real_model.record import ARCHIVE
from tests.e2e.real_model.runs import (
    CANARY,
    FAMILY,
    MODEL,
    Recording,
    facts_of_arm,
    read_labels,
)
from tests.judging.score_answers import share
from tests.support import ROOT, unpack

PAGE = ROOT / "docs" / "outcomes.md"


@pytest.fixture(scope="module")
def cassettes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cassettes")
    unpack(ARCHIVE, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("recording", CANARY, ids=lambda recording: recording.name)
def test_replay_is_judged_as_recorded(shared: SharedLab, cassettes: Path, recording: Recording) -> None:
    run = recording.run(shared, "replay", str(cassettes / recording.name))
    labels = {label.prompt: label.judged for label in read_labels() if label.run == recording.name}
    assert {episode.prompt: str(episode.outcome) for episode in run.summary.episodes} == labels


def test_page_has_figures_of_labels() -> None:
    labels = read_labels()
    assert len(labels) == sum(len(recording.prompts) for recording in CANARY) >= 40
    assert all(label.fair and label.did for label in labels)
    misses = Counter(label.miss for label in labels)
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    figures = {
        "right": misses[None],
        "false accusations": misses["false accusation"],
        "free passes": misses["free pass"],
    }
    assert [
        name for name, count in figures.items() if f"{name}: {share(count, len(labels))}" not in text
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("arm", FAMILY.arms)
def test_arm_repeats_its_cells(shared: SharedLab, cassettes: Path, arm: str) -> None:
    facts = facts_of_arm(shared, arm, cassettes)
    for name, cell in read_cells(MEASURED)[FAMILY.name].items():
        figures = [each["outcomes"] for each in cell["table"]["arms"] if each["arm"] == arm]
        episodes = [facts[name].episodes] if name in facts else []
        assert [Counter(episode.judged.outcome for episode in each) for each in episodes] == figures, name


def test_archive_is_small_and_of_this_model(cassettes: Path) -> None:
    assert ARCHIVE.stat().st_size < 3_000_000
    assert all(f'"{MODEL}"' in path.read_text(encoding="utf-8") for path in cassettes.rglob("*.json"))
