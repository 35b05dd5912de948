"""The development prompts: whole conversations over tool sets of our own, played through ``decide``."""

import json

import pytest

from tests.model_server.conversations import DEV
from tests.model_server.score_blind import play

CASES = json.loads((DEV / "prompts.json").read_text(encoding="utf-8"))
TOOLSETS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in DEV.glob("toolset_*.json")}


@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']}: {case['prompt'][:50]}" for case in CASES])
def test_a_prompt_leads_to_the_expected_calls_and_answer(case):
    play(case, TOOLSETS[case["tools"]])


def test_there_are_enough_development_prompts_over_several_tool_sets():
    assert len(CASES) >= 50
    assert len(TOOLSETS) >= 3
