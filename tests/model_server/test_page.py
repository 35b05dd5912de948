"""docs/scripted-model.md: its playbook works as described, and its figures are current."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.model_server.score import endings
from tests.support import ROOT
from wirefault.model_server.playbooks import SHIPPED, load_playbooks

PAGE = (ROOT / "docs" / "scripted-model.md").read_text(encoding="utf-8")
_TODAY = {"blind": "today, made smaller", "heldout": "today, no longer first sight"}


@pytest.mark.parametrize("prompt", ["What is the stock of 'red paint'?", "How many screws do we have?"])
def test_playbook_of_page_works(tmp_path: Path, prompt: str) -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "own.yaml").write_text(block)
    [step] = load_playbooks(tmp_path / "own.yaml", SHIPPED).plan(prompt, ["stock_level"], None)
    finding = step.read({"levels": [{"quantity": 7}]})
    assert finding is not None
    assert finding.sentence == f"There are 7 pieces of {step.call.arguments['product']}."


@pytest.mark.parametrize("name", _TODAY)
def test_published_scores_are_current(name: str) -> None:
    counts = Counter(ending for _, ending, _ in endings(name))
    figures = " | ".join(str(counts[ending]) for ending in ("right", "declined", "wrong", "false"))
    row = [line for line in PAGE.splitlines() if f"| {_TODAY[name]} |" in line][-1]
    assert row.endswith(f"| {figures} |")
