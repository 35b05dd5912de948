"""Perturbed prompts: the same task under the same key, whose facts stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import ROOT
from wirefault.experiments.perturbations import PERTURBATIONS, Perturbation, perturbed
from wirefault.wiring.prompts import Prompt, load_prompts

SHIPPED = load_prompts(ROOT / "agent" / "prompts.json").entries
TEXTS = st.one_of(st.text(min_size=1), st.sampled_from([prompt.text for prompt in SHIPPED]))
NAMES: st.SearchStrategy[Perturbation] = st.sampled_from(PERTURBATIONS)


@given(TEXTS, NAMES, st.integers(0, 2**63 - 1))
def test_text_changes_and_key_and_oracle_stay(text: str, name: Perturbation, seed: int) -> None:
    prompt = Prompt("p", text.strip() or "x", {"answer": {"contains": "x"}}, paraphrases=(("Other",),))
    changed = perturbed(prompt, name, seed)
    assert changed == perturbed(prompt, name, seed)
    if changed is not None:
        assert changed.text != prompt.text and changed.metadata["perturbation"] == name
        assert replace(changed, text=prompt.text, metadata={}) == prompt


@pytest.mark.parametrize("name", ["typos", "case", "padding", "order"])
@pytest.mark.parametrize(
    "fact",
    ["ORD-17", "bob@example.org", '"the report is ready"', "`pip install x`", "3.5", "Rome", "https://a.b/c"],
)
@given(seed=st.integers(0, 1000))
def test_facts_of_the_task_stay(name: Perturbation, fact: str, seed: int) -> None:
    prompt = Prompt("p", f"Please look into {fact} for me. Then send the answer to everybody here.")
    changed = perturbed(prompt, name, seed)
    assert changed is not None and fact in changed.text


@given(seed=st.integers(0, 1000), name=st.sampled_from(["typos", "case"]))
def test_words_of_oracle_stay(name: Perturbation, seed: int) -> None:
    expect = {"values": [{"text": "desk lamp"}]}
    changed = perturbed(Prompt("p", "tell me the price of a desk lamp today", expect), name, seed)
    assert changed is not None and "desk lamp" in changed.text


@given(st.integers(0, 1000))
def test_typos_change_few_words_and_case_no_letter(seed: int) -> None:
    text = "tell me about every single open order that nobody has paid until now"
    slips, capitals = (perturbed(Prompt("p", text), name, seed) for name in ("typos", "case"))  # type: ignore[arg-type]
    assert slips is not None and capitals is not None
    differing = [a for a, b in zip(text.split(), slips.text.split(), strict=True) if a != b]
    assert len(differing) >= 1 and all(len(word) >= 3 for word in differing)
    assert capitals.text.lower() == text


@pytest.mark.parametrize(
    "parts",
    [
        ["Give me 1 or 2.", "Ask J. Smith!", "Three?"],
        ['Say "Hi. I am late."', "Then go.", "Dr. Who waits."],
        ["\n1. ", "first one", "\n2. ", "second one"],
    ],
)
def test_order_keeps_each_sentence_or_item(parts: list[str]) -> None:
    text = ("" if parts[0][0] == "\n" else " ").join(parts)
    changed = perturbed(Prompt("p", text), "order", 3)
    assert changed is not None and len(changed.text) == len(text)
    assert all(part in changed.text for part in parts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("order", "Only one sentence."),
        ("order", "Again. Again."),
        ("typos", "7 * 6"),
        ("case", "ORD-7"),
        ("paraphrases", "x"),
    ],
)
def test_prompt_that_cannot_change_is_none(name: Perturbation, text: str) -> None:
    assert perturbed(Prompt("p", text), name, 1) is None


def test_each_repetition_has_another_draw_and_each_turn_changes() -> None:
    texts = "Tell me about the weather tomorrow.", "And about the weather after that."
    prompt = Prompt("p", "\n".join(texts), turns=texts, paraphrases=(("A", "B"), ("C", "D")))
    drawn = [perturbed(replace(prompt, key=f"p.r{number}"), "typos", 1) for number in range(2, 12)]
    assert len({each.text for each in drawn if each}) > 3
    assert all(each and len(each.turns) == 2 and each.turns != texts for each in drawn)
    others = [perturbed(replace(prompt, key=f"p.r{number}"), "paraphrases", 1) for number in range(2, 12)]
    assert {each.turns for each in others if each} == set(prompt.paraphrases)
