"""The blind prompts are those whose hashes were committed before the rules; the score does not fall."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.model_server.score_blind import score

BLIND = Path(__file__).parent / "blind"


def test_the_blind_prompts_were_not_touched() -> None:
    lines = (BLIND / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    for expected, name in (line.split() for line in lines):
        assert hashlib.sha256((BLIND / name).read_bytes()).hexdigest() == expected, name
    assert len(lines) == 5


def test_the_documented_score_is_todays() -> None:
    today = score(BLIND)
    page = Path("docs/scripted-model.md").read_text(encoding="utf-8")
    latest = [line for line in page.splitlines() if line.startswith("| ") and " of 74 " in line][-1]
    assert latest.startswith(f"| {today.passed} of {today.total} ")
    assert not [reason for reason in today.failures.values() if "raised" in reason]
