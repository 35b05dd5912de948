"""The shipped conversations over the whole wire, with the scripted model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.lab import SharedLab
from tests.support import replace
from wirefault.history.events import TurnStarted
from wirefault.wiring.prompts import NextTurn, load_prompts

pytestmark = pytest.mark.slow
CONVERSATIONS = load_prompts(Path("agent/conversations.json")).entries


def test_shipped_conversations_succeed_without_faults(shared: SharedLab) -> None:
    run = shared.run(*CONVERSATIONS)
    outcomes = {judged.episode: judged.outcome for judged in run.summary.episodes}
    assert outcomes == dict.fromkeys((prompt.key for prompt in CONVERSATIONS), "success")


def test_fault_in_second_turn_and_generated_turn(shared: SharedLab, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text("def more(conversation): return 'And in Fahrenheit?'", encoding="utf-8")
    prompt = next(prompt for prompt in CONVERSATIONS if prompt.key == "fahrenheit")
    maker = NextTurn(f"{tmp_path}/user.py:more", 2)
    generated = replace(prompt, turns=(), text=prompt.turns[0], next_turn=maker)
    fault = '{"faults": [{"fault": "server_error", "links": "calculator", "when": {"turn": 2}}]}'
    run = shared.run(generated, faults=fault, tool_limit=2, prompt_limit=1)
    assert [event.turn for event in run.of(TurnStarted)] == [2]
    assert run.outcomes == ["honest_failure"]
